"""What does the training of a verifier ask of a device? From its composed configuration and the attempts that it names."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rmlab.errors import DataError
from rmlab.models.cost import ModelShape, reading
from rmlab.paths import STARTER, portable
from rmlab.planning.assumed import EPISODE_TOKENS, Assumed, around, model_shape, read_texts, spread
from rmlab.planning.memory import TrainingMemory
from rmlab.planning.phases import (
    ScoringPhase,
    TrainingPhase,
    Work,
    every_position,
    is_packed,
    largest_micro_batch,
    through_packed_layers,
)
from rmlab.training.batching import total_steps
from rmlab.training.config import Dtype, Match, TrainingConfig

REAL_TOKENS = 25_000
"""Of a real attempt at an issue, where none are there to be measured: mini-SWE-agent's runs on SWE-bench have so many in the mean."""
LONGEST_EPISODE = 2048
"""A context for attempts in micro-SWE; where it is longer, real attempts are meant."""


def verifier_work(settings: Any, assumed: Assumed, folds: int = 1) -> Work:
    """Of `rmlab train`, or of one cell of a sweep of verifiers. folds: as many trainings, as `cross_validate` makes."""
    shape, name = model_shape(settings.model, assumed)
    half = settings.training.dtype is Dtype.bfloat16
    context = settings.prompt.max_tokens - 1
    lengths, judged = _attempts(settings, shape, context, assumed, folds)
    scale = settings.data.scale
    chosen = spread(lengths, scale)
    training: TrainingConfig = settings.training
    steps = total_steps(scale, training)
    seen = training.epochs * scale if training.match is Match.epochs else steps * min(training.batch_size, scale)
    packed = is_packed(training, settings.runtime)
    whole = every_position(shape, packed)
    single = reading(chosen, every_position=whole)
    rank, offload, compiled = settings.lora.rank, settings.runtime.offload, settings.runtime.compiled
    tokens, rows, parts = largest_micro_batch(chosen, training, settings.runtime)
    run = TrainingMemory(half, rank, training.checkpointing, tokens, rows, rows, parts, whole)
    run = replace(run, offload=offload, compiled=compiled, packed_layers=through_packed_layers(shape, packed, rank))
    trained = TrainingPhase(shape, single.scaled(folds * seen / scale), folds * steps, run)
    at_once = max(settings.evaluation.batch_tokens, max(judged, default=1))
    scored = ScoringPhase(shape, reading(judged, every_position=whole), at_once, half)
    return Work(name, (trained, scored), half=half)


def _attempts(
    settings: Any, shape: ModelShape, context: int, assumed: Assumed, folds: int
) -> tuple[list[int], list[int]]:
    """Lengths in tokens of what may be trained on, and of what is scored, cut or left out as `prompt.over_length` says."""
    path, evaluation = settings.data.path, settings.evaluation
    if why := _why_not_read(str(path or ""), context, assumed):
        usual = REAL_TOKENS if context > LONGEST_EPISODE else EPISODE_TOKENS
        mean = min(assumed.mean_tokens or usual, context)
        shown = f"{mean:,} tokens on average, the longest {context:,}"
        assumed.note(f"{why}: attempts of {shown}, with a quarter as many scored as trained on, are assumed")
        lengths = around(mean, context, 1000)
        return lengths, spread(lengths, max(settings.data.scale // 4, 1))
    texts = read_texts(Path(path))
    vocabulary = shape.vocabulary
    part = None if folds > 1 else "verifier"
    mine = _fitting(texts.tokens(vocabulary, part), context, settings)
    if not mine:
        raise DataError(
            f"{path} has no labelled attempt {f'of part {part} ' if part else ''}that fits {context + 1:,} tokens: "
            "`rmlab trajectories split` assigns parts, prompt.over_length=cut_observations shortens attempts."
        )
    assumed.note(
        f"lengths are estimated from the characters of {portable(str(path))}"
        + ("" if texts.share == 1 else f" ({texts.share:.0%} of its attempts)")
        + f": {sum(mine) / len(mine):,.0f} tokens on average, the longest {mine[-1]:,}; `rmlab train --dry-run` counts them"
    )
    judged: list[int] = []
    for part, tasks in (("validation", evaluation.validation_tasks), ("evaluation", evaluation.tasks)):
        of_part = texts.tokens(vocabulary, part)
        there = len(set(texts.task_N[texts.split_N == part]))
        share = min(tasks / there, 1.0) if tasks is not None and there else 1.0
        judged += spread(_fitting(of_part, context, settings), round(len(of_part) * share))
    return mine, judged or mine


def _why_not_read(path: str, context: int, assumed: Assumed) -> str:
    """Why lengths are assumed, not those of the file; empty where they are the file's."""
    if assumed.mean_tokens is not None:
        return f"--mean-tokens {assumed.mean_tokens}"
    if not path:
        return "no data.path"
    if not Path(path).is_file():
        return f"data.path={portable(path)} does not exist"
    if context > LONGEST_EPISODE and Path(path).resolve() == (STARTER / "trajectories.parquet").resolve():
        return (
            f"the attempts of the shipped set in data.path are far shorter than prompt.max_tokens={context + 1} "
            "(give data.path=FILE, or --mean-tokens)"
        )
    return ""


def _fitting(lengths: Sequence[int], context: int, settings: Any) -> list[int]:
    cut = settings.prompt.over_length.value not in ("rank_last", "drop")
    return [min(n, context) for n in lengths if cut or n <= context]
