"""What a verifier reads and on what it is judged."""

from dataclasses import dataclass, field
from enum import StrEnum

from rmlab.training import config as training

SEMANTICS: dict[str, int] = {"render": 1, "train": training.SEMANTICS, "score": 1}
"""Hand-bumped, part of every config hash. render: the same trajectory becomes other text or ids; score: the same model
gives the same prompt another score."""


class OverLength(StrEnum):
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
    """tasks, validation_tasks: tasks scored of these parts, in the order of SHA-256 of the task id; null = all.

    attempts: at most so many of each task and policy, by number. policies: names, empty = every policy that the part has.
    replicates: bootstrap replicates of the intervals. batch_tokens: padded tokens scored at once.
    """

    tasks: int | None = None
    validation_tasks: int | None = None
    attempts: int = 16
    policies: list[str] = field(default_factory=list)
    replicates: int = 2000
    batch_tokens: int = 16384
