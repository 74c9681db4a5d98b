"""What a reader makes of one record before labels, attempts and copies are known."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rmlab.errors import DataError
from rmlab.trajectories.places import Place
from rmlab.trajectories.record import ExitStatus, Message, Part


class NotATrajectory(DataError):
    """A record of a known format that holds no attempt; the message is the reason, short enough to be counted by."""


@dataclass(frozen=True)
class Fixed:
    """What a record of our own has beside a draft's fields; nothing about such a record is found anew."""

    trajectory_id: str
    cluster: str
    source: str
    attempt: int
    split: Part | None


@dataclass
class Draft:
    """One attempt as its file states it.

    policy: "" where the file names none. names: what else names the run (an evaluation, a submission); labels are joined
    by them. resolved: only what the record itself states. joins: whether labels that stand elsewhere may be joined (a row
    that names no run and no patch is nobody's attempt in particular). repository: `owner/name` where the record states it.
    time: ISO, of the first turn. removed: what was left out, by kind. opening: hash of what stands before the agent's first
    turn; "" where the record is no document of its own. fixed: of a record that was read from one of our own sets.
    """

    place: Place
    format: str
    task_id: str
    policy: str
    messages: list[Message]
    patch: str | None
    exit_status: ExitStatus
    names: tuple[str, ...] = ()
    resolved: bool | None = None
    label_source: str | None = None
    joins: bool = True
    repository: str = ""
    time: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    removed: Counter[str] = field(default_factory=Counter)
    opening: str = ""
    fixed: Fixed | None = None
