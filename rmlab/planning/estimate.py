"""What work costs on a card: operations, seconds and memory of each phase, whether it fits.

A step takes the sum of what its matrix products, its attention and its memory traffic take. A single share of the peak (MFU) does not
fit a model of 135 million weights and one of 4 billion alike: small ones are bound by memory and by the time between kernels. The
shares below were measured on an H200 with torch 2.11 (`experiments/benchmarks/plan_check.py`), the rest is counted.
"""

import math
from dataclasses import dataclass, fields, replace

from rmlab.models.cost import LONG_MEAN, Flops, ModelShape, Reading, forward_flops, reading, training_flops
from rmlab.planning.cards import Card
from rmlab.planning.memory import (
    FLOAT,
    GIB,
    HALF,
    Memory,
    SumOfParts,
    TrainingMemory,
    kept_by_heads,
    layer_activations,
    offloaded,
    rollout_memory,
    scoring_memory,
    training_memory,
)
from rmlab.planning.phases import VERIFIER, Phase, ScoringPhase, TrainingPhase, Work
from rmlab.training.config import Parallel
from rmlab.training.ranks import fits_whole

MATRIX_SHARE = 0.70
"""Of a card's stated bfloat16 rate that large matrix products reach."""
FLOAT_SHARE = 1 / 15
"""Of the bfloat16 rate that a card's float32 arithmetic has (67 of 989 TFLOP/s on an H100, 19.5 of 312 on an A100)."""
ATTENTION_FORWARD, ATTENTION_BACKWARD, SHORT = 0.34, 0.25, 340
"""Shares of the rate that flash attention reaches in training with heads of 128 and long sequences; half of it at SHORT tokens, and with
heads of 64."""
ATTENTION_LONG_FORWARD, ATTENTION_LONG_BACKWARD = 0.60, 0.44
"""The same of cuDNN's attention, which takes over where sequences of a row have LONG_MEAN tokens in the mean."""
ATTENTION_SCORED, SHORT_SCORED = 0.57, 1500
"""The same of scoring, where cuDNN attends in long sequences."""
BANDWIDTH_SHARE = 0.75
"""Of a card's stated bandwidth that kernels reach which work element by element."""
STREAM_TRAFFIC, ROTARY_TRAFFIC, HEAD_NORM_TRAFFIC = 9.9, 165, 250
"""How often each kept byte of hidden states and of the feed-forward goes through memory in a forward and backward pass; bytes that move
for each value of queries and keys by rotary positions, and by their norms."""
ADAPTER_TRAFFIC, COMPILED_TRAFFIC, SCORED_TRAFFIC = 1.45, 0.2, 0.7 / 3
"""Of that: with adapters, with compiled layers, and in a forward pass alone."""
LAUNCH = 4.6e-3
"""Seconds in which Python and the driver start the kernels of one layer's forward and backward pass: no layer of a micro-batch takes less.
It depends on the processor."""
ADAPTER_LAUNCH, CHECKPOINTED_LAUNCH, COMPILED_LAUNCH = 1.5, 1.35, 0.75
DECODING_SHARE = 0.21
"""Of the rate at which a card could read weights and cache that a decoding step reaches (experiments/benchmarks/README.md, decoding)."""
FILLED = 0.7
"""Of the slots that hold a conversation which speaks, in the mean of a step."""
ATTEMPT_HOST = 1.2e-3
"""Seconds that Python takes for one attempt: its turns, its programs' outcomes, its tokens."""


@dataclass(frozen=True)
class Seconds(SumOfParts):
    """By what it is spent on. waiting: for kernels to be started, where that takes longer than they do. decoding: token by token."""

    products: float = 0.0
    attention: float = 0.0
    traffic: float = 0.0
    optimiser: float = 0.0
    waiting: float = 0.0
    decoding: float = 0.0

    def words(self) -> str:
        """In milliseconds, by part."""
        return f"({', '.join(f'{name} {value * 1e3:.0f}' for name, value in self.parts().items())} ms)"

    def scaled(self, times: float) -> "Seconds":
        """The same so many times over."""
        return Seconds(*(getattr(self, part.name) * times for part in fields(Seconds)))


def step_seconds(shape: ModelShape, step: Reading, run: TrainingMemory, card: Card) -> Seconds:
    """Of one optimiser step that reads `step` in micro-batches of `run.tokens` tokens."""
    flops = training_flops(shape, step, run.rank, run.checkpointing)
    rate = card.flops * (1.0 if run.half else FLOAT_SHARE)
    bandwidth = card.bandwidth * BANDWIDTH_SHARE
    forward = flops.attention / 3
    products = flops.total - flops.attention - (forward if run.checkpointing else 0.0)
    long = step.tokens >= LONG_MEAN * step.sequences
    ahead, back = (ATTENTION_LONG_FORWARD, ATTENTION_LONG_BACKWARD) if long else (ATTENTION_FORWARD, ATTENTION_BACKWARD)
    attended = (2 if run.checkpointing else 1) / ahead + 2 / back
    again = 4 / 3 if run.checkpointing else 1.0
    layers = shape.layers if step.every_position else shape.layers - 1
    traffic = layers * layer_traffic(shape, run.half) * step.tokens * again
    traffic *= (ADAPTER_TRAFFIC if run.rank else 1.0) * (COMPILED_TRAFFIC if run.compiled else 1.0)
    trained = shape.adapter_weights(run.rank) if run.rank else shape.weights
    busy = Seconds(
        products=products / (rate * MATRIX_SHARE),
        attention=forward * attended / (rate * attention_share(shape, step, SHORT)),
        traffic=traffic / bandwidth,
        optimiser=10 * FLOAT * trained / bandwidth,
    )
    started = LAUNCH * shape.layers * run.parts * (CHECKPOINTED_LAUNCH if run.checkpointing else 1.0)
    started *= (ADAPTER_LAUNCH if run.rank else 1.0) * (COMPILED_LAUNCH if run.compiled else 1.0)
    return replace(busy, waiting=max(0.0, started - busy.total))


def layer_traffic(shape: ModelShape, half: bool) -> float:
    """Bytes that a layer's element-wise work moves for a token, forward and backward."""
    heads = shape.queries + shape.keys
    kept = layer_activations(shape, half, 0)
    stream = kept - heads * kept_by_heads(shape, half)
    return STREAM_TRAFFIC * stream + (ROTARY_TRAFFIC + (HEAD_NORM_TRAFFIC if shape.head_norms else 0)) * heads


def attention_share(shape: ModelShape, read: Reading, short: float) -> float:
    """Of the best rate of attention, what heads of this size and sequences of these lengths reach."""
    length = 2 * read.pairs / max(read.tokens, 1)
    return min(shape.head_dim / 128, 1.0) * length / (length + short)


def scoring_seconds(shape: ModelShape, read: Reading, card: Card, batch_tokens: int, half: bool = True) -> Seconds:
    """Of scoring everything that is read, `batch_tokens` at once."""
    if not read.tokens:
        return Seconds()
    flops = forward_flops(shape, read)
    rate = card.flops * (1.0 if half else FLOAT_SHARE)
    traffic = shape.layers * layer_traffic(shape, half) * SCORED_TRAFFIC * read.tokens
    busy = Seconds(
        products=(flops.projections + flops.head) / (rate * MATRIX_SHARE),
        attention=flops.attention / (rate * attention_share(shape, read, SHORT_SCORED) * ATTENTION_SCORED),
        traffic=traffic / (card.bandwidth * BANDWIDTH_SHARE),
    )
    started = LAUNCH / 3 * shape.layers * max(read.tokens / max(batch_tokens, 1), 1.0)
    return replace(busy, waiting=max(0.0, started - busy.total))


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
        waiting=ATTEMPT_HOST * attempts,
        products=forward_flops(shape, reading([read], said, True).scaled(attempts)).total / (card.flops * MATRIX_SHARE),
        decoding=steps * floor / DECODING_SHARE,
    )


RESERVED = 1.5
"""GiB that CUDA's context and what the allocator cannot use take beside what torch is taken to hold."""
HELD_BY_GRAPHS = 0.5
"""What torch holds beyond its tensors in RL whose updates are CUDA graphs, as a share of the activations, which graphs keep for themselves.
On an H200 0.6 to 0.9 in 14 runs of one study, and 0.3 in rl_step.py, which makes no evaluations (tests/planning/test_measured.py)."""
POLICY, ROLLOUTS = "policy", "rollouts"
"""Whose weights and caches lie in the memory of RL, beside those of the start and of verifiers."""
SCALING = 0.9
"""Of the ideal speed, on several GPUs: 1.8 times on two."""


@dataclass(frozen=True)
class PhaseCost:
    """tokens: read. seconds: on one GPU. memory: on one GPU. offloaded: bytes of it in the machine's memory."""

    name: str
    tokens: int
    steps: int
    flops: Flops
    seconds: Seconds
    memory: Memory
    offloaded: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """Of one run on `gpus` cards. hours: of all phases. memory: of the largest phase, with what lies beside it. sharded: whether each of
    several cards holds a part of every weight; else each holds the whole model."""

    work: Work
    card: Card
    gpus: int
    phases: tuple[PhaseCost, ...]
    mfu: float | None = None
    sharded: bool = False

    @property
    def seconds(self) -> float:
        """Wall clock; with `mfu` (of training and scoring) from the operations alone."""
        spread = self.gpus * SCALING if self.gpus > 1 else 1.0
        total = 0.0
        for phase in self.phases:
            by_share = self.mfu is not None and not phase.seconds.decoding
            total += phase.flops.model / (self.card.flops * self.mfu) if by_share and self.mfu else phase.seconds.total
        return total / spread

    @property
    def memory(self) -> Memory:
        """Of the phase that takes most; where phases share a process, with the weights and caches of the others."""
        memory = self.largest.memory
        if not self.work.together:
            return memory
        return replace(memory, beside=sum(sum(parts.values()) for parts in self.beside.values()))

    @property
    def largest(self) -> PhaseCost:
        """The phase that takes most memory."""
        return max(self.phases, key=lambda phase: phase.memory.total)

    @property
    def beside(self) -> dict[str, dict[str, float]]:
        """Bytes of the weights and caches that other models keep in the same process while the largest phase runs, by whose they are."""
        found: dict[str, dict[str, float]] = {}
        if not self.work.together:
            return found
        largest = self.largest
        owned = [(_owner(phase), cost) for phase, cost in zip(self.work.phases, self.phases, strict=True)]
        busy = next(owner for owner, cost in owned if cost is largest)
        seen = {busy} - {VERIFIER}  # phases of one owner share weights and cache, but each verifier has its own
        for owner, cost in owned:
            if owner in seen or cost is largest:
                continue
            if owner != VERIFIER:
                seen.add(owner)
            parts = found.setdefault(owner, {})
            for name in ("cache", "weights"):
                if value := float(getattr(cost.memory, name)):
                    parts[name] = parts.get(name, 0.0) + value
        return found

    @property
    def room(self) -> float:
        """Bytes that torch may hold."""
        return (self.card.gib - RESERVED) * GIB

    @property
    def offloaded(self) -> float:
        """Bytes that the GPUs of a machine keep in its memory, all of them together."""
        return self.gpus * max((phase.offloaded for phase in self.phases), default=0.0)

    @property
    def held(self) -> float:
        """Bytes that torch is taken to hold at the peak: tensors, and what graphs keep for themselves."""
        memory = self.memory
        return memory.total + (HELD_BY_GRAPHS * memory.activations if self.work.graphs else 0.0)

    @property
    def fits(self) -> bool:
        """Whether the card has room for what torch is taken to hold."""
        return self.held <= self.room

    @property
    def achieved(self) -> float | None:
        """The MFU of training that the seconds make; None where nothing is trained."""
        trained = [
            cost for cost, phase in zip(self.phases, self.work.phases, strict=True) if isinstance(phase, TrainingPhase)
        ]
        seconds = sum(cost.seconds.total for cost in trained)
        return sum(cost.flops.model for cost in trained) / seconds / self.card.flops if seconds else None


def _owner(phase: Phase) -> str:
    """Whose weights a phase works with."""
    if isinstance(phase, ScoringPhase):
        return phase.owner or POLICY
    return POLICY if isinstance(phase, TrainingPhase) else ROLLOUTS


def estimate(work: Work, card: Card, gpus: int = 1, mfu: float | None = None) -> Estimate:
    """Of work on so many cards."""
    sharded = gpus > 1 and any(_is_sharded(phase, card, work.parallel) for phase in work.phases)
    costs = tuple(_cost(phase, card, gpus if sharded else 1) for phase in work.phases)
    return Estimate(work, card, gpus, costs, mfu, sharded)


def _is_sharded(phase: Phase, card: Card, parallel: Parallel) -> bool:
    """Whether the model of a training is sharded over several cards, as `rmlab.training.replicas.spread` decides."""
    if not isinstance(phase, TrainingPhase):
        return False
    if parallel is not Parallel.auto:
        return parallel is Parallel.fsdp
    alone = training_memory(phase.shape, replace(phase.run, gpus=1))
    learning = alone.moments / 2
    return not fits_whole(learning, alone.weights - learning, card.gib * GIB)


def _cost(phase: Phase, card: Card, gpus: int) -> PhaseCost:
    """gpus: over which weights are sharded."""
    shape = phase.shape
    if isinstance(phase, TrainingPhase):
        run = replace(phase.run, gpus=gpus)
        flops = training_flops(shape, phase.read, run.rank, run.checkpointing)
        seconds = step_seconds(shape, phase.read.scaled(1 / phase.steps), run, card).scaled(phase.steps)
        memory, beside = training_memory(shape, run), offloaded(shape, run)
        return PhaseCost(phase.name, phase.read.tokens, phase.steps, flops, seconds, memory, beside)
    if isinstance(phase, ScoringPhase):
        longest = max(phase.read.tokens // max(phase.read.sequences, 1), 1)
        rows = max(phase.batch_tokens // longest, 1)
        seconds = scoring_seconds(shape, phase.read, card, phase.batch_tokens, phase.half)
        memory = scoring_memory(shape, phase.weights_half, phase.half, phase.batch_tokens, rows, gpus)
        return PhaseCost(phase.name, phase.read.tokens, 0, forward_flops(shape, phase.read), seconds, memory)
    read = reading([phase.read], phase.said, every_position=True).scaled(phase.attempts)
    seconds = rollout_seconds(shape, phase.attempts, phase.read, phase.said, phase.slots, phase.half, card)
    memory = rollout_memory(shape, phase.slots, phase.capacity, phase.half)
    return PhaseCost(phase.name, read.tokens, 0, forward_flops(shape, read), seconds, memory)
