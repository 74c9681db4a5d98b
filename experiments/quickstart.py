"""The whole idea in one file: tasks → attempts → a verifier → how good is it?

    .venv/bin/python experiments/quickstart.py

About a minute on two CPU cores. Read it from top to bottom: each step is one call of the library, and each comment says where to
read on. A *task* is a real function with a bug, its issue, and hidden tests. An *attempt* is a conversation in which an agent
edits and runs the function; the hidden tests say whether it resolved the issue. A *verifier* reads the conversation alone, without
running anything, and says how likely it is that the issue is resolved.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmlab.metrics.report import report
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.loading import load_tasks
from rmlab.microswe.sandbox import Sandbox
from rmlab.microswe.task import Task
from rmlab.paths import STARTER
from rmlab.policies.policy import Reacts, Runs, ScriptedConfig, Stops
from rmlab.policies.rollout import plan, rollout
from rmlab.policies.scripted import ScriptedPolicy
from rmlab.scores.scores import Scores
from rmlab.trajectories.record import Trajectory

if TYPE_CHECKING:
    from rmlab.verifiers.verifier import Verifier

SEED = 0

# Two scripted agents that behave differently. Language models act through the same interface (rmlab/policies/language_engine.py).
AGENTS = {
    "careful": ScriptedPolicy("careful", ScriptedConfig(runs=Runs.first, eye=0.85, hand=0.55, haste=0.8, spread=1.6)),
    "hasty": ScriptedPolicy(
        "hasty", ScriptedConfig(runs=Runs.never, stops=Stops.patience, reacts=Reacts.move, eye=0.9)
    ),
}


def collect(tasks: Sequence[Task], attempts: int, sandbox: Sandbox) -> list[Trajectory]:
    """Lets every agent make `attempts` attempts at each task; each attempt is labelled by the task's hidden tests."""
    planned = plan(tasks, list(AGENTS), attempts)
    return rollout(planned, AGENTS, sandbox, EnvironmentConfig(), SEED)


def train_verifier(trajectories: Sequence[Trajectory]) -> "Verifier":
    """Fine-tunes the shipped base model to answer YES (resolved) or NO behind each attempt."""
    from rmlab.models.load import load_model
    from rmlab.models.tokenizer import load_tokenizer
    from rmlab.training.config import MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
    from rmlab.training.device import accelerator
    from rmlab.training.supervised import Example, train
    from rmlab.verifiers.answer import prove_answers
    from rmlab.verifiers.config import PromptConfig
    from rmlab.verifiers.encoding import encode
    from rmlab.verifiers.prompt import render
    from rmlab.verifiers.verifier import Verifier

    model, tokenizer, prompt = load_model(STARTER / "base"), load_tokenizer(STARTER / "base"), PromptConfig()
    answer = prove_answers(
        tokenizer, [render(t, tokenizer.reserved, prompt) for t in trajectories]
    )  # ids of YES and NO
    examples = [
        Example(e.ids, answer.target(bool(e.trajectory.resolved)))
        for e in encode(trajectories, tokenizer, prompt)
        if e.ids is not None  # longer than the verifier's context: rmlab/verifiers/config.py, OverLength
    ]
    if unfit := len(trajectories) - len(examples):
        print(
            f"{unfit} of {len(trajectories)} attempts are longer than the verifier's context and are not trained on\n"
        )
    training, runtime = TrainingConfig(epochs=2.0), MicroBatchRuntimeConfig()
    train(
        model,
        examples,
        tokenizer.pad_id,
        accelerator(training, runtime),
        optimizer=OptimizerConfig(),
        training=training,
        runtime=runtime,
        seed=SEED,
        title=f"training on {len(examples)} attempts",
    )
    return Verifier(model.eval(), tokenizer, prompt, answer)


def score(verifier: "Verifier", trajectories: Sequence[Trajectory]) -> Scores:
    """The score table: for each attempt, softmax over the logits of YES and NO (rmlab/verifiers/scoring.py)."""
    return verifier.score(verifier.encode(trajectories))


def main(train_tasks: int = 250, evaluation_tasks: int = 40) -> dict[str, object]:
    """Runs every step, prints what comes out, and returns the metrics."""
    with Sandbox(2) as sandbox:  # starts before torch is imported: its workers are forked from this process
        tasks = load_tasks(STARTER / "tasks.parquet", sandbox)  # the parts share no function: nothing leaks
        shown = collect(tasks.part("verifier")[:train_tasks], 2, sandbox)
        judged = collect(tasks.part("evaluation")[:evaluation_tasks], 8, sandbox)
    print(judged[0].messages[0].content, *[f"{m.role}: {m.content}" for m in judged[0].messages[1:]], sep="\n")
    print(
        f"→ {'resolved' if judged[0].resolved else 'not resolved'}: hidden tests, with inputs that nobody sees, decide it,"
    )
    print("  so an attempt can give the wanted value of the issue's example and still not be resolved\n")

    scores = score(train_verifier(shown), judged)

    found = report(scores, replicates=200)  # all metrics, with 95 % intervals over tasks: rmlab/metrics/report.py
    print(f"{found['trajectories']} attempts at {found['tasks']} tasks that the verifier has never seen\n")
    print("  k   pass@k   RM@k     any of k resolved; the best-scored of k resolved")
    for k, value in found["rm_at_k"].items():
        print(f"{k:>3}   {found['pass_at_k'][k]:.3f}    {value:.3f}")
    for name, meaning in {
        "auc_pooled": "resolved above unresolved, over all pairs of attempts",
        "auc_within_task": "the same within a task: all that a group-relative advantage (GRPO, GSPO) sees",
        "ece_width_10": "expected calibration error",
        "ece_noise_floor_task": "the ECE that a perfectly calibrated verifier would show on so few attempts",
        "ece_less_floor": "the one less the other",
    }.items():
        value = found[name]
        print(f"{name:>20}  {'-' if value is None else f'{value:.3f}'}   {meaning}")
    print(
        "\nNext: `rmlab sweep data_scale preset=demo` varies the amount of training data, with everything else held still."
    )
    return found


if __name__ == "__main__":
    main()
