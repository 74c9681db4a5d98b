"""What a run asks of a device, in its phases: training, scoring, rollouts."""

from dataclasses import dataclass

from rmlab.models.cost import ModelShape, Reading
from rmlab.planning.memory import TrainingMemory


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
