"""The trajectory record: one attempt of one policy at one task.

Everything downstream (selection, verifiers, RL) reads this record; every reader of a foreign format produces it.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from rmlab.errors import DataError
from rmlab.fingerprint import canonical_json, fingerprint

Role = Literal["system", "user", "assistant", "tool"]
ExitStatus = Literal["submitted", "unfinished", "error"]
Split = Literal["supervised", "verifier", "validation", "rl", "evaluation"]
"""The five parts that never mix, split by cluster: demonstrations and tokenizers; verifier training; choices and
post-hoc calibration; policy RL; and evaluation, which is scored once for a finished cell."""

SPLITS: tuple[Split, ...] = get_args(Split)


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
    split: Split | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.exit_status not in get_args(ExitStatus):
            raise DataError(
                f"exit_status {self.exit_status!r} of {self.task_id}: it must be one of {', '.join(get_args(ExitStatus))}"
            )
        if self.split is not None and self.split not in SPLITS:
            raise DataError(f"split {self.split!r} of {self.task_id}: it must be one of {', '.join(SPLITS)}")

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


def clean(text: str) -> str:
    """Text that can be stored: halves of surrogate pairs, which JSON allows and UTF-8 does not, become the sign for it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


PRO = re.compile(r"^instance_(?P<owner>[^/]+?)__(?P<name>.+?)-[0-9a-f]{40}(?:-v.*)?$")
SMITH = re.compile(r"^(?:swesmith/)?(?P<owner>[^/]+?)__(?P<name>.+?)\.[0-9a-f]{6,}(?:\..*)?$")
BENCH = re.compile(r"^(?P<owner>[^/\s]+?)__(?P<name>[^/\s]+?)-\d+$")
PULL = re.compile(r"^(?P<owner>[^/\s]+)/(?P<name>[^/:\s]+):pr-(?P<number>\d+)$")  # Multi-SWE-bench's reports
IMAGE = re.compile(r"^(?:.*/)?sweb\.eval\.[a-z0-9_]+\.(?P<instance>[^:/]+)(?::[^/]*)?$")  # SWE-bench's Docker images
FAMILIES = ((PRO, "swe-bench-pro"), (SMITH, "swe-smith"), (BENCH, "swe-bench"))

STAMP = re.compile(r"[_.-]+20\d\d-?[01]\d-?[0-3]\d(?:[T_.-]*[0-2]\d[-_:]?[0-5]\d(?:[-_:]?[0-5]\d)?)?$")
COUNT = re.compile(
    r"(?:[_.-]+(?:conversation|messages?|history|traj|trajectory|round|step|turn|iter|iteration|snapshot|checkpoint))+[_.-]*\d*$"
)


def repository(task: str, stated: str = "") -> str:
    """`owner/name`; the task itself where its id names no repository (each such task is a cluster of its own)."""
    if "/" in stated and " " not in stated:
        smith = SMITH.match(stated.removeprefix("swesmith/"))
        return f"{smith['owner']}/{smith['name']}" if smith else stated
    for pattern, _ in FAMILIES:
        if match := pattern.match(task):
            return f"{match['owner']}/{match['name']}"
    return task


def family(task: str) -> str:
    """The benchmarks that name tasks like this: swe-bench, swe-smith, swe-bench-pro, or other."""
    return next((name for pattern, name in FAMILIES if pattern.match(task)), "other")


def looks_like_task(name: str) -> bool:
    """Whether a name is an instance id: `owner__name-123` and its relatives."""
    return "__" in name and not name.startswith("_") and " " not in name


def instance(name: str) -> str:
    """The instance that a report names: Multi-SWE-bench writes `owner/name:pr-1` where its data set has `owner__name-1`, and
    names of Docker images have `_1776_` in place of `__`, which they must not hold."""
    if match := PULL.match(name):
        return f"{match['owner']}__{match['name']}-{match['number']}"
    image = IMAGE.match(name)
    return (image["instance"] if image else name).replace("_1776_", "__")


def bare(name: str) -> str:
    """The instance that a folder or file goes by, without the time of its run or the number of a snapshot; any other as it is."""
    rest = COUNT.sub("", STAMP.sub("", name))
    return rest if family(rest) != "other" else name


def task_key(name: str) -> str:
    """An instance's name as it is compared: harnesses write the ids of repositories in lower case, data sets as they are."""
    name = instance(name)
    return name.lower() if looks_like_task(name) else name
