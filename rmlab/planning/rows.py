"""How does a training read its examples? In packed or padded rows, through whose layers, at how many positions of the last."""

import math
from collections.abc import Sequence

from rmlab.models.cost import ModelShape
from rmlab.training.config import Dtype, MicroBatchRuntimeConfig, TrainingConfig

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
