#!/usr/bin/env bash
# Policies and attempts of this study, a start at a time: each call is one GPU's work, and goes on where it was stopped.
#   bash experiments/studies/language_attempts/attempts.sh prepare      # CPU: demonstrations, text, the model (README.md says what it takes)
#   bash experiments/studies/language_attempts/attempts.sh a            # warm start a, its attempts, and those of a weaker snapshot
#   bash experiments/studies/language_attempts/attempts.sh b            # warm start b, its attempts; the policy that never runs its code
#   bash experiments/studies/language_attempts/attempts.sh starts       # both warm starts alone, side by side: what other studies begin from
#   bash experiments/studies/language_attempts/attempts.sh starts a     # one of the two, a or b
#                                                                       # further words of both (`starts a workers=4`) are passed on to
#                                                                       # `rmlab warm-start`: smaller values, on a CPU
#   bash experiments/studies/language_attempts/attempts.sh scripts      # CPU
#   bash experiments/studies/language_attempts/attempts.sh verifiers    # a good and a poor verifier of these attempts
#   bash experiments/studies/language_attempts/attempts.sh rl NAME      # a_execution, b_execution, a_paid_well, b_paid_badly: one policy
#   bash experiments/studies/language_attempts/attempts.sh join
set -euo pipefail
W=${WORKERS:-12}
SEED=11 # of every collection, so that all policies meet the same tasks
D=runs/demonstrations
L=runs/language
MODEL=runs/models/smollm2_policies # of the policies: its vocabulary is cut to their demonstrations and repairs
RULES="environment=start_over tracked=false"
STARTS="[$D/hasty_tasks.parquet,$D/hasty_tasks_supervised.parquet,$D/seeking_tasks.parquet,$D/seeking_tasks_supervised.parquet]"
HASTY="[$D/hasty_tasks.parquet,$D/hasty_tasks_supervised.parquet]"

demonstrations() { # FILE ATTEMPTS POLICY more...
    local set=$1 attempts=$2 policy=$3
    shift 3
    rmlab collect "tasks=rmlab/starter/$set.parquet" "output=$D/${policy}_$set.parquet" seed=3 "policy=[$policy]" $RULES \
        parts.supervised.tasks=null "parts.supervised.attempts=$attempts" parts.verifier.tasks=0 parts.validation.tasks=0 \
        parts.evaluation.tasks=0 "$@"
}

refuse() { # what is wrong with the words after the script's name
    echo "attempts.sh: $1" >&2
    exit 2
}

warm_start() { # NAME SEED DEMONSTRATIONS more...
    local name=$1 seed=$2 demonstrations=$3
    shift 3
    rmlab warm-start runtime=cuda engine=cuda environment=start_over "workers=$W" training.dtype=bfloat16 tracked=false \
        "output=runs/policies/$name" "seed=$seed" "demonstrations.paths=$demonstrations" demonstrations.finished_only=true \
        demonstrations.most=24000 demonstrations.capacity=768 repairs.each=1 'more_tasks=[rmlab/starter/tasks_rl.parquet]' \
        training.batch_size=128 training.micro_batch_size=128 training.epochs=1 training.threads=8 optimizer.learning_rate=3e-4 \
        runtime.compiled=true model=path "model.pretrained=$MODEL" "model.name=$name" held_out.tasks=200 "$@"
}

start() { # a or b, more...: that warm start
    local name=$1 seed
    shift
    case $name in
    a) seed=0 ;;
    b) seed=1 ;;
    *) refuse "'$name' is no start; the starts are a and b" ;;
    esac
    warm_start "$name" "$seed" "$STARTS" "$@"
}

on_card() { # NUMBER COMMAND...: on that card, where the machine has so many and none is chosen
    local number=$1
    shift
    if [ -z "${CUDA_VISIBLE_DEVICES+chosen}" ] && nvidia-smi -i "$number" >/dev/null 2>&1; then
        CUDA_VISIBLE_DEVICES=$number "$@"
    else
        "$@"
    fi
}

collect() { # OUTPUT POLICIES more...
    local output=$1 policies=$2
    shift 2
    rmlab collect "output=$L/$output.parquet" "seed=$SEED" 'policy=[]' $RULES "workers=$W" "language=$policies" \
        parts.supervised.tasks=0 parts.verifier.tasks=0 parts.validation.tasks=0 parts.evaluation.tasks=0 "$@"
}

policy() { # MODEL TEMPERATURE
    echo "{model: $1, device: cuda, temperature: $2, engine: {slots: 512, capacity: 768, prefill_rows: 512, dtype: bfloat16}}"
}

of_start() { # NAME more...: three temperatures to learn from; the middle one is judged
    local name=$1 model=runs/policies/$1
    shift
    collect "$name" "{${name}_cool: $(policy "$model" 0.7), ${name}_plain: $(policy "$model" 1.0), ${name}_hot: $(policy "$model" 1.3)}" \
        parts.verifier.tasks=null parts.verifier.attempts=5 \
        "parts.validation.policies=[${name}_plain]" parts.validation.tasks=100 parts.validation.attempts=16 \
        "parts.evaluation.policies=[${name}_plain]" parts.evaluation.tasks=600 parts.evaluation.attempts=16 "$@"
}

run_of() { # COMMAND...: its run's id, also where it was finished before
    "$@" | tee >(cat >&2) | grep -oE 'run [0-9a-f]{32}' | tail -n 1 | cut -c 5-
}

verifier() { # NAME SCALE: of the attempts that there are before any reinforcement learning
    run_of rmlab train preset=small "model.pretrained=$MODEL" "data.path=$L/first.parquet" '~evaluation.pools.after_rl' data.held_out_policies=[] "data.scale=$2" "tracking.name=$1" seed=100
}

reward() { # NAME: what pays this policy
    case $1 in
    *_execution) echo reward=execution ;;
    *_paid_well) echo "reward=execution_free verifier=$(verifier good 8000)" ;;
    *_paid_badly) echo "reward=execution_free verifier=$(verifier poor 500)" ;;
    esac
}

reinforce() { # NAME: the policy of 60 steps from the start that its name begins with
    # shellcheck disable=SC2046
    run_of rmlab rl "start=runs/policies/${1%%_*}" rl_preset=small $(reward "$1") seed=0 rl.groups=40 rl.steps=60 engine.slots=256 \
        rl.batch_tokens=8192 over_length=truncate_middle "workers=$W" watch.every=20 watch.tasks=64 watch.held_out_tasks=128 \
        watch.held_out_attempts=2 keep_model=true "tracking.name=$1"
}

case ${1-} in
prepare)
    mkdir -p $D
    for set in tasks tasks_supervised; do
        demonstrations $set 1 seeking
        demonstrations $set 12 hasty policy.hasty.patience=1 policy.hasty.slips=0.02 policy.hasty.hand=0.5 policy.hasty.spread=0.4
    done
    rmlab collect output=runs/pretraining/episodes.parquet seed=1 tracked=false parts.supervised.tasks=null parts.supervised.attempts=4 \
        parts.verifier.tasks=0 parts.validation.tasks=0 parts.evaluation.tasks=0
    rmlab pretrain only_corpus=true
    rmlab models fetch smollm2 --vocabulary 8000 \
        --corpus $D/seeking_tasks_supervised.parquet --corpus $D/hasty_tasks_supervised.parquet \
        --corpus runs/pretraining/corpus.parquet -o $MODEL
    ;;
a)
    start a 'snapshots=[0.3]'
    of_start a 'parts.supervised.policies=[a_plain]' parts.supervised.tasks=500
    collect weak "{weak: $(policy runs/policies/a-at-0.3 1.0)}" parts.verifier.tasks=null parts.verifier.attempts=4
    ;;
b)
    start b
    of_start b
    warm_start silent 2 "$HASTY"
    collect silent "{silent: $(policy runs/policies/silent 1.0)}" parts.verifier.tasks=null parts.verifier.attempts=4 \
        'parts.evaluation.policies=[]' parts.evaluation.tasks=600 parts.evaluation.attempts=4
    ;;
starts)
    shift
    case ${1-=} in
    *=* | [~+-]*) # no name: nothing follows, or words for `rmlab warm-start`
        on_card 0 start a "$@" &
        on_card 1 start b "$@"
        wait $! # `set -e` ends here where start a failed
        ;;
    *) on_card 0 start "$@" ;;
    esac
    ;;
scripts)
    rmlab collect output=$L/scripts.parquet "seed=$SEED" "workers=$W" 'policy=[hasty,seeking,wanderer]' $RULES parts.supervised.tasks=0 \
        parts.verifier.tasks=null parts.verifier.attempts=2 parts.validation.tasks=0 parts.evaluation.tasks=0
    ;;
verifiers)
    rmlab trajectories join $L/a.parquet $L/weak.parquet $L/b.parquet $L/silent.parquet $L/scripts.parquet -o $L/first.parquet
    verifier good 8000
    verifier poor 500
    ;;
rl)
    case ${2-} in
    a_execution | b_execution | a_paid_well | b_paid_badly) ;;
    *) refuse "rl takes the name of a policy: a_execution, b_execution, a_paid_well or b_paid_badly" ;;
    esac
    model=$(reinforce "$2")
    collect "after_$2" "{$2: $(policy "$model" 1.0)}" parts.verifier.tasks=null parts.verifier.attempts=4 \
        'parts.evaluation.policies=[]' parts.evaluation.tasks=600 parts.evaluation.attempts=4
    ;;
join)
    rmlab trajectories join $L/a.parquet $L/weak.parquet $L/b.parquet $L/silent.parquet $L/scripts.parquet $L/after_*.parquet \
        -o $L/attempts.parquet
    ;;
*) refuse "the first word is prepare, a, b, starts, scripts, verifiers, rl or join; what each does stands at the top of this file" ;;
esac
