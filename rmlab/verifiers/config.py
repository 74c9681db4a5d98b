"""What a verifier reads and on what it is judged."""

from dataclasses import dataclass, field
from enum import Enum


class OverLength(str, Enum):
    """What becomes of an attempt whose prompt does not fit the context: see design of `context_length`."""

    rank_last = "rank_last"
    truncate_middle = "truncate_middle"
    truncate_head = "truncate_head"
    drop = "drop"


@dataclass
class PromptConfig:
    """max_tokens: the context, answer token included. over_length: see OverLength."""

    max_tokens: int = 512
    over_length: OverLength = OverLength.rank_last


@dataclass
class EvaluationConfig:
    """tasks: evaluation tasks taken (in the order of SHA-256 of the task id; null = all) of each policy and all their attempts up to `attempts`.

    policies: names, empty = every policy that the part has. replicates: bootstrap replicates of the intervals.
    batch_tokens: tokens scored at once.
    """

    tasks: int | None = None
    attempts: int = 16
    policies: list[str] = field(default_factory=list)
    replicates: int = 2000
    batch_tokens: int = 16384
