"""What a run asks of a device, in its phases: training, scoring, rollouts; and how a training reads its examples: in packed or padded
rows, through whose layers, at how many positions of the last.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rmlab.models.cost import ModelShape, Reading
from rmlab.planning.memory import TrainingMemory
from rmlab.training.config import Dtype, MicroBatchRuntimeConfig, Parallel, TrainingConfig


@dataclass(frozen=True)
class TrainingPhase:
    """read: in all steps. run: what its memory depends on. name: what it is called in the table."""

    shape: ModelShape
    read: Reading
    steps: int
    run: TrainingMemory
    name: str = "training"


VERIFIER = "verifier"
"""The owner of a phase in which a verifier scores; several verifiers have weights of their own each."""


@dataclass(frozen=True)
class ScoringPhase:
    """read: in all. batch_tokens: at once. half: arithmetic, and (weights_half) weights in bfloat16.

    owner: whose weights these are, where they lie beside those of the model that is trained (`start`, VERIFIER).
    """

    shape: ModelShape
    read: Reading
    batch_tokens: int
    half: bool
    weights_half: bool = False
    name: str = "scoring"
    owner: str = ""


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

    to_name: keys whose values a plan takes but no run, with the word that stands for what has to be named (`POLICY`).
    half: bfloat16 arithmetic. parallel: how several GPUs hold the model that is trained. graphs: updates are CUDA graphs, which keep their
    memory (`rmlab.rl.graphed_rows`).
    """

    model: str
    phases: tuple[Phase, ...]
    notes: tuple[str, ...] = ()
    to_name: Mapping[str, str] = field(default_factory=dict)
    together: bool = False
    half: bool = True
    parallel: Parallel = Parallel.auto
    graphs: bool = False


SLACK = 1.02
"""Micro-batches by tokens are seldom quite full."""


def largest_micro_batch(
    lengths: Sequence[int], training: TrainingConfig, runtime: MicroBatchRuntimeConfig
) -> tuple[int, int, int]:
    """Tokens (padding included where there is any) and examples of the largest micro-batch, and micro-batches of a step."""
    longest, batch = max(lengths), min(training.batch_size, len(lengths))
    packed = is_packed(training, runtime)
    most = runtime.micro_batch_tokens
    if most is None:
        size = min(training.micro_batch_size, batch)
        return sum(sorted(lengths)[-size:]) if packed else longest * size, size, math.ceil(batch / size)
    size = max(most // longest, 1)
    parts = min(math.ceil(SLACK * batch * sum(lengths) / len(lengths) / most), batch)
    return max(most, longest) if packed else longest * size, size, parts


def is_packed(training: TrainingConfig, runtime: MicroBatchRuntimeConfig) -> bool:
    """Whether examples are packed into rows without padding, where a GPU is there."""
    return runtime.packed and training.dtype is Dtype.bfloat16


def through_packed_layers(shape: ModelShape, packed: bool, rank: int) -> bool:
    """Whether packed rows go through the layers of `rmlab.models.packed_layers`: dense ones without bias or adapters."""
    return packed and not (rank or shape.experts or shape.projection_bias)


def every_position(shape: ModelShape, packed: bool) -> bool:
    """Whether the last layer is computed at all positions: `rmlab.models.heads` shortens Qwen3's, and in packed rows Llama's too."""
    return bool(shape.experts) or (not shape.head_norms and not (packed and not shape.projection_bias))
