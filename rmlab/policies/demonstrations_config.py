"""What a policy learns from, and on what it is measured afterwards."""

from dataclasses import dataclass, field


@dataclass
class DemonstrationsConfig:
    """paths: trajectory sets, whose supervised part is learned from. most: attempts, drawn by seed; null = all.

    finished_only: learn from attempts alone that were submitted resolved, or with their last turn (wrong edits on the way stay
    context). A policy that is shown attempts without an end leaves its own without one. repeat: how often each stands in an
    epoch, beside repairs that stand there once. capacity: tokens of a conversation.
    """

    paths: list[str] = field(default_factory=list)
    most: int | None = None
    finished_only: bool = False
    repeat: int = 1
    capacity: int = 640


@dataclass
class RepairsConfig:
    """corpus: of pretraining, whose functions are broken. each: repairs of a function; 0 = none, and no corpus is read."""

    corpus: str = ""
    each: int = 0


@dataclass
class HeldOutConfig:
    """What is measured. tasks: of each part, null = all that hold, 0 = nothing is measured. attempts: sampled ones at a task."""

    parts: list[str] = field(default_factory=lambda: ["validation", "rl"])
    tasks: int | None = None
    attempts: int = 4
    temperature: float = 1.0
    max_action_tokens: int = 64
