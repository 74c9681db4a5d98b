"""What does a program ask of a device? Phases of training, scoring and rollouts, from a composed configuration and the data that it names.

What is not known before a run (lengths of attempts that are not there, what a policy will say) is assumed, and every assumption is said.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmlab.errors import DataError, UsageError
from rmlab.models.config import ModelConfig
from rmlab.models.cost import ModelShape, Reading, known_shape, read_shape, reading, shape_of
from rmlab.paths import STARTER, portable
from rmlab.planning.lengths import read_texts
from rmlab.planning.memory import TrainingMemory
from rmlab.training.batching import total_steps
from rmlab.training.config import Dtype, Match, MicroBatchRuntimeConfig, TrainingConfig

REAL_TOKENS = 25_000
"""Of a real attempt at an issue, where none are there to be measured: mini-SWE-agent's runs on SWE-bench have so many in the mean."""
EPISODE_TOKENS, ISSUE_TOKENS, SAID_TOKENS, EPISODE_TURNS = 300, 180, 40, 5
"""Of an attempt in micro-SWE by a language model: in all, in front of its first turn, said by it, and its turns
(experiments/benchmarks/README.md, rollouts; what stands in front of the first turn: 379 of 487 characters in the starter set)."""
LONGEST_EPISODE = 2048
"""A context for attempts in micro-SWE; where it is longer, real attempts are meant."""
DEMONSTRATIONS = 50_000
SLACK = 1.02
"""Micro-batches by tokens are seldom quite full."""


@dataclass(frozen=True)
class TrainingPhase:
    """read: in all steps. run: what its memory depends on. name: what it is called in the table."""

    shape: ModelShape
    read: Reading
    steps: int
    run: TrainingMemory
    name: str = "training"


@dataclass(frozen=True)
class ScoringPhase:
    """read: in all. batch_tokens: at once. half: arithmetic, and (weights_half) weights in bfloat16. apart: weights of its own."""

    shape: ModelShape
    read: Reading
    batch_tokens: int
    half: bool
    weights_half: bool = False
    name: str = "scoring"
    apart: bool = False


@dataclass(frozen=True)
class RolloutPhase:
    """attempts, each of `read` tokens of which `said` are decoded. slots: at once, each with a cache of `capacity` tokens."""

    shape: ModelShape
    attempts: int
    slots: int
    capacity: int
    half: bool
    read: int
    said: int
    name: str = "rollouts"


Phase = TrainingPhase | ScoringPhase | RolloutPhase


@dataclass(frozen=True)
class Work:
    """model: in words. phases: in order; those of one process, whose weights lie side by side where together. notes: what was assumed.

    half: bfloat16 arithmetic.
    """

    model: str
    phases: tuple[Phase, ...]
    notes: tuple[str, ...] = ()
    together: bool = False
    half: bool = True


@dataclass
class Assumed:
    """What is given in place of data. mean_tokens: of an attempt, whatever a file says."""

    mean_tokens: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def episode(self) -> int:
        """Tokens of an attempt in micro-SWE."""
        return self.mean_tokens or EPISODE_TOKENS

    def of_episode(self, tokens: int) -> int:
        """What has so many of EPISODE_TOKENS, in an attempt of this length."""
        return max(round(self.episode * tokens / EPISODE_TOKENS), 1)

    def note(self, text: str) -> None:
        """Said once."""
        if text not in self.notes:
            self.notes.append(text)


def model_shape(model: ModelConfig, assumed: Assumed) -> tuple[ModelShape, str]:
    """Shape and name of the model of a configuration: of its folder, of an open model by its name, or as it stands.

    Raises DataError where `pretrained` is neither a folder nor a known name, and the configuration states no shape either.
    """
    if not model.pretrained:
        return shape_of(model), model.name
    try:
        return named_shape(model.pretrained)
    except DataError:
        if (model.hidden_size, model.layers) == (ModelConfig.hidden_size, ModelConfig.layers):
            raise
        assumed.note(f"{portable(model.pretrained)} is not there: the shape that model={model.name} states")
        return shape_of(model), model.name


def named_shape(name: str) -> tuple[ModelShape, str]:
    """The same of a folder or of an open model's name. Raises DataError for another word."""
    folder = Path(name)
    if (folder / "config.json").is_file():
        return read_shape(folder), folder.name
    if (folder / "model" / "config.json").is_file():
        return read_shape(folder / "model"), folder.name
    found = known_shape(name)
    if found is None:
        raise DataError(
            f"model.pretrained={name}: there is no such folder, and no open model whose shape is known by that name. Name a folder "
            "with config.json (weights are not read), or a model such as Qwen3-0.6B or SmolLM2-135M."
        )
    return found


def verifier_work(settings: Any, assumed: Assumed, folds: int = 1) -> Work:
    """Of `rmlab train`, or of one cell of a sweep of verifiers. folds: as many trainings, as `cross_validate` makes."""
    shape, name = model_shape(settings.model, assumed)
    half = settings.training.dtype is Dtype.bfloat16
    context = settings.prompt.max_tokens - 1
    lengths, judged = _attempts(settings, shape, context, assumed, folds)
    scale = settings.data.scale
    chosen = _spread(lengths, scale)
    training: TrainingConfig = settings.training
    steps = total_steps(scale, training)
    seen = training.epochs * scale if training.match is Match.epochs else steps * min(training.batch_size, scale)
    whole = every_position(shape, is_packed(training, settings.runtime))
    single = reading(chosen, every_position=whole)
    micro = _micro(chosen, training, settings.runtime)
    run = TrainingMemory(
        half=half,
        rank=settings.lora.rank,
        checkpointing=training.checkpointing,
        tokens=micro[0],
        sequences=micro[1],
        answers=micro[1],
        parts=micro[2],
        every_position=whole,
        offload=bool(getattr(settings.runtime, "offload", False)),
        compiled=settings.runtime.compiled,
        joined=is_joined(shape, is_packed(training, settings.runtime), settings.lora.rank),
    )
    scored = reading(judged, every_position=whole)
    return Work(
        name,
        (
            TrainingPhase(shape, single.scaled(folds * seen / scale), folds * steps, run),
            ScoringPhase(shape, scored, max(settings.evaluation.batch_tokens, max(judged, default=1)), half),
        ),
        half=half,
    )


def _attempts(
    settings: Any, shape: ModelShape, context: int, assumed: Assumed, folds: int
) -> tuple[list[int], list[int]]:
    """Lengths in tokens of what may be trained on, and of what is scored, cut or left out as `prompt.over_length` says."""
    path, evaluation = settings.data.path, settings.evaluation
    if why := _why_not_read(str(path or ""), context, assumed):
        usual = REAL_TOKENS if context > LONGEST_EPISODE else EPISODE_TOKENS
        mean = min(assumed.mean_tokens or usual, context)
        spread = f"{mean:,} tokens in the mean, the longest {context:,}"
        assumed.note(f"{why}: attempts of {spread}, and a quarter as many scored as trained on, are assumed")
        lengths = _around(mean, context, 1000)
        return lengths, _spread(lengths, max(settings.data.scale // 4, 1))
    texts = read_texts(Path(path))
    vocabulary = shape.vocabulary
    part = None if folds > 1 else "verifier"
    mine = _fitting(texts.tokens(vocabulary, part), context, settings)
    if not mine:
        raise DataError(
            f"{path} has no labelled attempt {f'of part {part} ' if part else ''}that fits {context + 1:,} tokens: "
            "`rmlab trajectories split` gives attempts their part, prompt.over_length=cut_observations cuts them."
        )
    assumed.note(
        f"lengths are estimated from the characters of {portable(str(path))}"
        + ("" if texts.share == 1 else f" ({texts.share:.0%} of its attempts)")
        + f": {sum(mine) / len(mine):,.0f} tokens in the mean, the longest {mine[-1]:,}; `rmlab train --dry-run` counts them"
    )
    judged: list[int] = []
    for part, tasks in (("validation", evaluation.validation_tasks), ("evaluation", evaluation.tasks)):
        of_part = texts.tokens(vocabulary, part)
        there = len(set(texts.task_N[texts.split_N == part]))
        share = min(tasks / there, 1.0) if tasks is not None and there else 1.0
        judged += _spread(_fitting(of_part, context, settings), round(len(of_part) * share))
    return mine, judged or mine


def _why_not_read(path: str, context: int, assumed: Assumed) -> str:
    """Why lengths are assumed, not those of the file; empty where they are the file's."""
    if assumed.mean_tokens is not None:
        return f"--mean-tokens {assumed.mean_tokens}"
    if not path:
        return "no data.path"
    if not Path(path).is_file():
        return f"data.path={portable(path)} is not there"
    if context > LONGEST_EPISODE and Path(path).resolve() == (STARTER / "trajectories.parquet").resolve():
        return (
            f"attempts of the shipped set, which data.path names, are far shorter than prompt.max_tokens={context + 1} "
            "(give data.path=FILE, or --mean-tokens)"
        )
    return ""


def _fitting(lengths: Sequence[int], context: int, settings: Any) -> list[int]:
    cut = settings.prompt.over_length.value not in ("rank_last", "drop")
    return [min(n, context) for n in lengths if cut or n <= context]


def _around(mean: int, most: int, count: int) -> list[int]:
    """Lengths with that mean up to `most`, log-normal as those of real attempts are (the quantiles of one with sigma 0.6)."""
    from statistics import NormalDist

    normal = NormalDist(math.log(mean) - 0.18, 0.6)
    found = [min(math.exp(normal.inv_cdf((i + 0.5) / count)), most) for i in range(count)]
    found[-1] = most
    return [round(n) for n in found]


def _spread(lengths: Sequence[int], count: int) -> list[int]:
    """So many of the lengths, evenly drawn (again and again where there are fewer)."""
    if not lengths or count < 1:
        return []
    return [lengths[min(int((i + 0.5) * len(lengths) / count), len(lengths) - 1)] for i in range(count)]


def _micro(lengths: Sequence[int], training: TrainingConfig, runtime: MicroBatchRuntimeConfig) -> tuple[int, int, int]:
    """Tokens (padding included where there is any) and examples of the largest micro-batch, and micro-batches of a step."""
    longest, batch = max(lengths), min(training.batch_size, len(lengths))
    side_by_side = is_packed(training, runtime)
    most = runtime.micro_batch_tokens
    if most is None:
        size = min(training.micro_batch_size, batch)
        return sum(sorted(lengths)[-size:]) if side_by_side else longest * size, size, math.ceil(batch / size)
    size = max(most // longest, 1)
    parts = min(math.ceil(SLACK * batch * sum(lengths) / len(lengths) / most), batch)
    return max(most, longest) if side_by_side else longest * size, size, parts


def is_packed(training: TrainingConfig, runtime: MicroBatchRuntimeConfig) -> bool:
    """Whether examples stand side by side in one row, without padding, where a GPU is there."""
    return runtime.packed and training.dtype is Dtype.bfloat16


def is_joined(shape: ModelShape, packed: bool, rank: int) -> bool:
    """Whether packed rows go through the layers as `rmlab.models.joined` writes them: dense ones without bias or adapters."""
    return packed and not (rank or shape.experts or shape.projection_bias)


def every_position(shape: ModelShape, packed: bool) -> bool:
    """Whether the last layer is computed at all positions: `rmlab.models.heads` shortens Qwen3's, and in packed rows Llama's too."""
    return bool(shape.experts) or (not shape.head_norms and not (packed and not shape.projection_bias))


def warm_start_work(settings: Any, assumed: Assumed) -> Work:
    """Of `rmlab warm-start`: demonstrations are imitated, then the policy plays held-out tasks."""
    shape, name = model_shape(settings.model, assumed)
    config = settings.demonstrations
    lengths: list[int] = []
    for path in config.paths:
        if Path(path).is_file():
            lengths += read_texts(Path(path)).tokens(shape.vocabulary, "supervised")
            assumed.note(f"lengths are estimated from the characters of {portable(path)}")
        else:
            assumed.note(
                f"{portable(path)} is not there: {DEMONSTRATIONS:,} demonstrations of {assumed.episode} tokens are assumed"
            )
            lengths += [assumed.episode] * DEMONSTRATIONS
    if assumed.mean_tokens is not None:
        lengths = _around(min(assumed.episode, config.capacity), config.capacity, len(lengths))
        assumed.note(f"--mean-tokens {assumed.episode}: demonstrations of so many, the longest {lengths[-1]:,}")
    lengths = [n for n in sorted(lengths) if n <= config.capacity] or [EPISODE_TOKENS]
    count = min(config.most or len(lengths), len(lengths)) * config.repeat
    training = settings.training
    steps = total_steps(count, training)
    chosen = _spread(lengths, min(count, 5000))
    share = SAID_TOKENS / EPISODE_TOKENS
    tokens, rows, parts = _micro(chosen, training, settings.runtime)
    one = reading(chosen, round(sum(chosen) * share), every_position=True)
    half = training.dtype is Dtype.bfloat16
    run = TrainingMemory(
        half,
        settings.lora.rank,
        training.checkpointing,
        tokens,
        rows,
        round(tokens * share),
        parts,
        every_position=True,
        compiled=settings.runtime.compiled,
    )
    phases: list[Phase] = [
        TrainingPhase(shape, one.scaled(training.epochs * count / len(chosen)), steps, run, "imitation")
    ]
    held_out = settings.held_out
    if held_out.tasks != 0:
        attempts = len(held_out.parts) * (held_out.tasks or 1000) * (held_out.attempts + 1)
        phases.append(_rollouts(shape, attempts, settings.engine, assumed, "held-out tasks"))
        assumed.note(
            f"attempts of {assumed.episode} tokens, {assumed.of_episode(SAID_TOKENS)} of them said, are assumed"
        )
    return Work(name, tuple(phases), half=half)


def _rollouts(shape: ModelShape, attempts: int, engine: Any, assumed: Assumed, name: str = "rollouts") -> RolloutPhase:
    read, said = assumed.episode, assumed.of_episode(SAID_TOKENS)
    return RolloutPhase(shape, attempts, engine.slots, engine.capacity, engine.dtype == "bfloat16", read, said, name)


def pretrain_work(settings: Any, assumed: Assumed) -> Work:
    """Of `rmlab pretrain`: the tokens that are asked for, whatever the minutes."""
    shape, name = model_shape(settings.model, assumed)
    config = settings.training
    rows = max(config.batch_tokens // config.context, 1)
    steps = max(config.tokens // config.batch_tokens, 1)
    one = reading([config.context] * rows, rows * config.context, every_position=True)
    half = config.dtype is Dtype.bfloat16
    run = TrainingMemory(half, 0, False, config.batch_tokens, rows, config.batch_tokens, 1, True)
    if assumed.mean_tokens is not None:
        assumed.note("--mean-tokens says nothing of pretraining, which reads rows of training.context tokens")
    assumed.note(f"training.max_minutes={config.max_minutes:g} may end it sooner")
    return Work(name, (TrainingPhase(shape, one.scaled(steps), steps, run, "pretraining"),), half=half)


def rl_work(settings: Any, assumed: Assumed) -> Work:
    """Of `rmlab rl`: rollouts, scores and updates of all steps, and the evaluations beside them."""
    shape, name = _policy_shape(settings.start, "start", assumed)
    loop, watch, half = settings.rl, settings.watch, settings.training.dtype is Dtype.bfloat16
    attempts = loop.groups * loop.attempts
    updates = min(loop.updates, attempts)
    episode, said, issue = assumed.episode, assumed.of_episode(SAID_TOKENS), assumed.of_episode(ISSUE_TOKENS)
    issue *= half  # side by side in a row, attempts at one task are read behind one issue (`rmlab.models.branches`)
    assumed.note(
        f"attempts of {episode} tokens, {said} of them said in {EPISODE_TURNS} turns, are assumed"
        + (f", {issue} in front of the first, which the attempts at one task share" if issue else "")
        + "; the time of their programs is not counted"
    )
    alike = max(loop.attempts / updates, 1)  # attempts at one task in an optimiser step
    one = branched(attempts, issue, episode - issue, alike, said)
    rows = max(int(loop.batch_tokens / (one.tokens / attempts)), 1)
    run = TrainingMemory(
        half,
        settings.lora.rank,
        False,
        loop.batch_tokens,
        rows,
        rows * said,
        math.ceil(attempts / updates / rows),
        True,
    )
    evaluations = 2 + (max(loop.steps // watch.every - 1, 0) if watch.every else 0)
    held_out = 4 * (watch.held_out_tasks or 400) * (watch.held_out_attempts + 1) * 2 if watch.held_out_tasks != 0 else 0
    beside = evaluations * (watch.tasks or 400) * watch.attempts + held_out
    phases: list[Phase] = [
        TrainingPhase(shape, one.scaled(loop.steps * loop.passes), loop.steps * updates * loop.passes, run, "updates"),
        _rollouts(shape, attempts * loop.steps, settings.engine, assumed),
        _rollouts(shape, beside, settings.engine, assumed, "evaluations"),
    ]
    # of the first optimiser step they are those of the pass that is trained (`rmlab.rl.update`)
    behind = one.scaled(loop.steps * (updates - 1) / updates)
    started = one.scaled(loop.steps if settings.algorithm.kl_weight else min(evaluations - 1, loop.steps))
    copied = not settings.lora.rank  # with adapters the start is the model without them
    for name_of, read, apart in (
        ("log-probabilities before", behind, False),
        ("log-probabilities of the start", started, copied),
    ):
        if read.tokens or apart:
            phases.append(ScoringPhase(shape, read, loop.batch_tokens, half, name=name_of, apart=apart))
    for verifier in filter(None, [settings.verifier, *settings.reward.ensemble]):
        judge, _ = _policy_shape(verifier, "verifier", assumed)
        read = reading([episode] * (attempts * loop.steps + beside), every_position=every_position(judge, False))
        phases.append(ScoringPhase(judge, read, loop.batch_tokens, half, name="verifier", apart=True))
    return Work(name, tuple(phases), together=True, half=half)


def branched(attempts: int, issue: int, own: int, alike: float, said: int) -> Reading:
    """Of attempts of `own` tokens behind an issue that `alike` of them share, read once."""
    issues = attempts / alike
    pairs = issues * issue * (issue + 1) / 2 + attempts * own * (issue + (own + 1) / 2)
    return Reading(attempts, round(issues * issue + attempts * own), round(pairs), attempts * said, True)


def _policy_shape(name: str, key: str, assumed: Assumed) -> tuple[ModelShape, str]:
    """Of a folder or a known name; a run's name is not looked up (that would open the store): a small model is assumed."""
    try:
        return named_shape(name)
    except DataError:
        assumed.note(
            f"{key}={name} is no folder: the shape of SmolLM2-135M is assumed; name a folder, or an open model"
        )
        found = known_shape("SmolLM2-135M")
        assert found is not None
        return found


def collect_work(settings: Any, assumed: Assumed) -> Work:
    """Of `rmlab collect`: what language models say; scripts need no device."""
    phases: list[Phase] = []
    names = []
    scripted = 0
    for part in ("supervised", "verifier", "validation", "rl", "evaluation"):
        config = getattr(settings.parts, part)
        if config.tasks == 0:
            continue
        for name in config.policies or settings.names:
            attempts = (config.tasks or 1000) * config.attempts
            if name not in settings.language:
                scripted += attempts
                continue
            policy = settings.language[name]
            shape, model = _policy_shape(policy.model, f"language.{name}.model", assumed)
            names.append(model)
            phases.append(_rollouts(shape, attempts, policy.engine, assumed, f"{name}, {part}"))
    if scripted:
        assumed.note(f"{scripted:,} attempts of scripts need the CPU alone (their programs: `rmlab bench execution`)")
    if phases:
        assumed.note(
            f"attempts of {assumed.episode} tokens, {assumed.of_episode(SAID_TOKENS)} of them said, are assumed; the time of "
            "their programs is not counted"
        )
    half = all(phase.half for phase in phases if isinstance(phase, RolloutPhase))
    return Work(", ".join(dict.fromkeys(names)) or "scripts", tuple(phases), half=half)


WORK: dict[str, Callable[[Any, Assumed], Work]] = {
    "train_verifier": verifier_work,
    "cross_validate": lambda settings, assumed: verifier_work(settings, assumed, settings.folds.number),
    "train_policy": warm_start_work,
    "pretrain": pretrain_work,
    "rl": rl_work,
    "collect": collect_work,
}
"""By program of experiments/programs."""


def work_of(program: str, settings: Any, assumed: Assumed) -> Work:
    """Of a program's settings. Raises UsageError for one that plans nothing."""
    if program not in WORK:
        raise UsageError(f"{program} has no plan; there are plans of {', '.join(WORK)}")
    work = WORK[program](settings, assumed)
    runtime = getattr(settings, "runtime", None)
    if getattr(runtime, "processes", 1) == 0:
        assumed.note("runtime.processes=0 takes all GPUs that are visible: 8, or as many as --gpus says")
    if runtime is not None and runtime.device == "cpu" and work.phases:
        assumed.note("it is set to run on the CPU (runtime.device=cpu); what is said here is of a GPU (runtime=cuda)")
    return work
