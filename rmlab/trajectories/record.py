"""The trajectory record: one attempt of one policy at one task.

Everything downstream (selection, verifiers, RL) reads this record; every reader of a foreign format produces it.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from rmlab.errors import DataError
from rmlab.fingerprint import canonical_json, fingerprint

Role = Literal["system", "user", "assistant", "tool"]
ExitStatus = Literal["submitted", "unfinished", "error"]
Part = Literal["supervised", "verifier", "validation", "rl", "evaluation"]
"""The five parts that never mix, split by cluster: demonstrations and tokenizers; verifier training; choices and
post-hoc calibration; policy RL; and evaluation, which is scored once for a finished cell."""

PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True)
class Message:
    """One turn. content is plain text: blocks and tool calls are flattened by the reader of their format."""

    role: Role
    content: str


@dataclass(frozen=True)
class Trajectory:
    """One attempt. resolved: True or False by hidden tests, None = unlabelled (absent from a report is not unresolved).

    cluster: unit of splitting and of bootstrap resampling (micro-SWE: a family of near-equal functions; real data: a
    repository). source: where the task comes from. attempt: 0, 1, ... within (task, policy). label_source: what stated
    the label. extra: what the format had beside, JSON values only; never rendered into a prompt.
    """

    task_id: str
    cluster: str
    source: str
    policy: str
    attempt: int
    messages: tuple[Message, ...]
    patch: str | None
    exit_status: ExitStatus
    resolved: bool | None
    label_source: str | None = None
    split: Part | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.exit_status not in get_args(ExitStatus):
            raise DataError(
                f"exit_status {self.exit_status!r} of {self.task_id}: it must be one of {', '.join(get_args(ExitStatus))}"
            )
        if self.split is not None and self.split not in PARTS:
            raise DataError(f"split {self.split!r} of {self.task_id}: it must be one of {', '.join(PARTS)}")

    @cached_property
    def trajectory_id(self) -> str:
        """Hash of what was attempted and what was done, never of the label. 16 hex digits.

        The attempt's number counts: two attempts of one policy may do exactly the same and are still two attempts.
        """
        return fingerprint([self.task_id, self.policy, self.attempt, *self._content()])

    @cached_property
    def content_id(self) -> str:
        """Hash of the content alone: equal for one conversation that goes by two names. 16 hex digits."""
        return fingerprint(self._content())

    def _content(self) -> list[Any]:
        return [[[m.role, m.content] for m in self.messages], self.patch, self.exit_status]

    def extra_json(self) -> str:
        """`extra` as canonical JSON, as it is stored."""
        return canonical_json(self.extra)
