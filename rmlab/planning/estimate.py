"""What work costs on a card: operations, seconds and memory of each phase, whether it fits."""

from dataclasses import dataclass, replace

from rmlab.models.cost import Flops, forward_flops, reading, training_flops
from rmlab.planning.cards import Card
from rmlab.planning.memory import GIB, Memory, offloaded, rollout_memory, scoring_memory, training_memory
from rmlab.planning.phases import Phase, RolloutPhase, ScoringPhase, TrainingPhase, Work
from rmlab.planning.seconds import Seconds, rollout_seconds, scoring_seconds, step_seconds

RESERVED = 1.5
"""GiB that CUDA's context and what the allocator cannot use take beside the tensors."""
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
    """Of one run on `gpus` cards. hours: of all phases. memory: of the largest phase, with what lies beside it."""

    work: Work
    card: Card
    gpus: int
    phases: tuple[PhaseCost, ...]
    mfu: float | None = None

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
        largest = max(self.phases, key=lambda phase: phase.memory.total).memory
        if not self.work.together:
            return largest
        beside = (
            sum(phase.memory.weights + phase.memory.cache for phase in self._resident())
            - largest.weights
            - largest.cache
        )
        return replace(largest, beside=max(beside, 0.0))

    def _resident(self) -> list[PhaseCost]:
        """Phases whose weights are of their own: of training and rollouts once, a frozen start, each verifier."""
        pairs = list(zip(self.work.phases, self.phases, strict=True))
        kinds = [
            next((cost for phase, cost in pairs if isinstance(phase, kind)), None)
            for kind in (TrainingPhase, RolloutPhase)
        ]
        others = [cost for phase, cost in pairs if isinstance(phase, ScoringPhase) and phase.apart]
        return [cost for cost in kinds if cost is not None] + others

    @property
    def room(self) -> float:
        """Bytes that tensors may take."""
        return (self.card.gib - RESERVED) * GIB

    @property
    def offloaded(self) -> float:
        """Bytes that the GPUs of a machine keep in its memory, all of them together."""
        return self.gpus * max((phase.offloaded for phase in self.phases), default=0.0)

    @property
    def fits(self) -> bool:
        """On the card."""
        return self.memory.total <= self.room

    @property
    def achieved(self) -> float | None:
        """The MFU of training that the seconds make; None where nothing is trained."""
        trained = [
            cost for cost, phase in zip(self.phases, self.work.phases, strict=True) if isinstance(phase, TrainingPhase)
        ]
        seconds = sum(cost.seconds.total for cost in trained)
        return sum(cost.flops.model for cost in trained) / seconds / self.card.flops if seconds else None


def estimate(work: Work, card: Card, gpus: int = 1, mfu: float | None = None) -> Estimate:
    """Of work on so many cards."""
    return Estimate(work, card, gpus, tuple(_cost(phase, card, gpus) for phase in work.phases), mfu)


def _cost(phase: Phase, card: Card, gpus: int) -> PhaseCost:
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
