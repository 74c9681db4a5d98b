"""How long does a step take on a card? The sum of what its matrix products, its attention and its memory traffic take.

A single share of the peak (MFU) does not fit a model of 135 million weights and one of 4 billion alike: small ones are bound by memory
and by the time between kernels. The three rates below are measured (`experiments/benchmarks/plan_check.py`), the rest is counted.
"""

import math
from dataclasses import dataclass, fields

from rmlab.models.cost import ModelShape, Reading, forward_flops, reading, training_flops
from rmlab.planning.cards import Card
from rmlab.planning.memory import FLOAT, HALF, TrainingMemory, layer_activations

MATRIX_SHARE = 0.70
"""Of a card's stated bfloat16 rate that large matrix products reach."""
FLOAT_SHARE = 1 / 15
"""Of the bfloat16 rate that a card's float32 arithmetic has (67 of 989 TFLOP/s on an H100, 19.5 of 312 on an A100)."""
ATTENTION_FORWARD, ATTENTION_BACKWARD, SHORT = 0.34, 0.25, 340
"""Shares of the rate that flash attention reaches with heads of 128 and long sequences; at SHORT tokens half of it, and of heads of 64 half
(torch 2.11 on an H200: 76 and 65 TFLOP/s at 200 to 600 tokens and heads of 64, 315 and 220 at 1,500 to 8,000 and heads of 128, 340 and 260
at 131,072)."""
TRAFFIC = 4.0
"""How often each byte that a layer keeps goes through memory in a forward and backward pass."""
BANDWIDTH_SHARE = 0.75
"""Of a card's stated bandwidth that kernels reach which work element by element."""
DECODING_SHARE = 0.21
"""Of the rate at which a card could read weights and cache that a decoding step reaches (experiments/benchmarks/README.md, decoding)."""
FILLED = 0.7
"""Of the slots that hold a conversation which speaks, in the mean of a step."""
LAUNCH = 1.2e-3
"""Seconds that Python and the driver need to start the kernels of one layer's forward and backward pass: a layer takes no less."""


@dataclass(frozen=True)
class Seconds:
    """By what it is spent on. waiting: for kernels to be started, where that takes longer than they do. decoding: token by token."""

    products: float = 0.0
    attention: float = 0.0
    traffic: float = 0.0
    optimiser: float = 0.0
    waiting: float = 0.0
    decoding: float = 0.0

    @property
    def total(self) -> float:
        """In all."""
        return float(sum(getattr(self, part.name) for part in fields(Seconds)))

    def words(self) -> str:
        """In milliseconds, by part."""
        shown = [(part.name, getattr(self, part.name) * 1e3) for part in fields(Seconds)]
        return f"({', '.join(f'{name} {value:.0f}' for name, value in shown if value)} ms)"

    def scaled(self, times: float) -> "Seconds":
        """The same so many times over."""
        return Seconds(*(getattr(self, part.name) * times for part in fields(Seconds)))


def step_seconds(shape: ModelShape, step: Reading, run: TrainingMemory, card: Card) -> Seconds:
    """Of one optimiser step that reads `step` in micro-batches of `run.tokens` tokens."""
    flops = training_flops(shape, step, run.rank, run.checkpointing)
    again = flops.recomputed / max(flops.model, 1.0)
    forward = flops.attention / 3
    products = flops.total - flops.attention - (forward if run.checkpointing else 0.0)
    bandwidth = card.bandwidth * BANDWIDTH_SHARE
    rate = card.flops * (1.0 if run.half else FLOAT_SHARE)
    layers = shape.layers if step.every_position else shape.layers - 1
    activations = layers * layer_activations(shape, run.half, run.rank) * step.tokens
    trained = shape.adapter_weights(run.rank) if run.rank else shape.weights
    micro_batches = max(step.tokens / max(run.tokens, 1), 1.0)
    matrices = shape.layers * (shape.attention_weights + shape.feed_forward_weights)
    copies = (2 * FLOAT + 2 * HALF) * (shape.adapter_weights(run.rank) if run.rank else matrices) * micro_batches
    found = Seconds(
        products=products / (rate * MATRIX_SHARE),
        attention=forward
        / (rate * attention_share(shape, step))
        * ((2 if run.checkpointing else 1) / ATTENTION_FORWARD + 2 / ATTENTION_BACKWARD),
        traffic=(TRAFFIC * (1 + again) * activations + copies) / bandwidth,
        optimiser=10 * FLOAT * trained / bandwidth,
    )
    started = LAUNCH * shape.layers * micro_batches * (1.4 if run.checkpointing else 1.0) * (1.5 if run.rank else 1.0)
    return Seconds(found.products, found.attention, found.traffic, found.optimiser, max(0.0, started - found.total))


def attention_share(shape: ModelShape, read: Reading) -> float:
    """Of the best rate of attention, what heads of this size and sequences of these lengths reach."""
    length = 2 * read.pairs / max(read.tokens, 1)
    return min(shape.head_dim / 128, 1.0) * length / (length + SHORT)


def scoring_seconds(shape: ModelShape, read: Reading, card: Card, half: bool = True) -> Seconds:
    """Of scoring everything that is read."""
    flops = forward_flops(shape, read)
    activations = shape.layers * layer_activations(shape, half, 1) * read.tokens
    rate = card.flops * (1.0 if half else FLOAT_SHARE)
    return Seconds(
        products=(flops.projections + flops.head) / (rate * MATRIX_SHARE),
        attention=flops.attention / (rate * attention_share(shape, read) * ATTENTION_FORWARD),
        traffic=TRAFFIC / 3 * activations / (card.bandwidth * BANDWIDTH_SHARE),
    )


def rollout_seconds(
    shape: ModelShape, attempts: int, read: int, said: int, slots: int, half: bool, card: Card
) -> Seconds:
    """Of playing attempts of `read` tokens, `said` of them decoded one by one in `slots` at once; without the time of programs."""
    steps = math.ceil(attempts / slots) * said / FILLED
    narrow = HALF if half else FLOAT
    cache = 2 * narrow * shape.layers * shape.keys * min(attempts, slots) * read
    floor = max(
        (narrow * shape.weights + cache) / card.bandwidth, 2 * shape.active_weights * min(attempts, slots) / card.flops
    )
    return Seconds(
        products=forward_flops(shape, reading([read], said, True).scaled(attempts)).total / (card.flops * MATRIX_SHARE),
        decoding=steps * floor / DECODING_SHARE,
    )
