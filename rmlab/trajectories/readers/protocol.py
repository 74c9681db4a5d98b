"""What a reader of a format is: it knows its documents by what is in them, and makes one draft of one document."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from rmlab.fingerprint import fingerprint
from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.ingest.skipped import Skipped
from rmlab.trajectories.record import ExitStatus, Message, clean

CRASH, NO_AGENT, STATISTICS = "crash trace", "no agent turn", "statistics only"
UNKNOWN_ROLE, UNKNOWN_EVENT = "turn of an unknown role", "event of an unknown kind"
ISSUE = re.compile(r"<(issue_description|pr_description)>\s*(.*?)\s*</\1>", re.DOTALL)
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
SERVICE = ("rate limit", "ratelimit", "quota", "too many requests", "retries", "max retry", "deadline exceeded")
"""A service that refused or gave up, though its words speak of limits: the attempt was not given its chance."""
OUT_OF = (
    "limit", "exit_cost", "exit_context", "exit_format", "early_exit", "max", "stuck", "iteration", "skipped", "cost",
    "rejected", "unfinished", "context", "exceeded", "budget", "execution time", "exit_command_timeout",
    "exit_forfeit",
)  # fmt: skip
"""What the agent ran out of (turns, money, context, time), or gave up. A bare timeout is a service's."""


class Format(Protocol):
    """name: as `rmlab import` takes it."""

    name: str

    def matches(self, document: Any) -> bool:
        """Whether the parsed document is of this format. Never raises."""

    def read(self, document: Any, location: Location) -> Draft:
        """The attempt. Raises Skipped with the reason where there is none; nothing else, whatever the document holds."""


Kind = TypeVar("Kind", bound=type[Format])
REGISTERED: dict[str, tuple[int, Format]] = {}
"""Name → (order, reader) of every reader whose module was imported; `registry` imports them all."""


def register(order: int) -> Callable[[Kind], Kind]:
    """Makes a class a format that `rmlab import` reads. order: those with a lower one are asked first whether a document is
    theirs, since a document may look like several formats."""

    def add(reader: Kind) -> Kind:
        known = REGISTERED.get(reader.name)
        if known is not None and type(known[1]).__module__ != reader.__module__:
            raise ValueError(
                f"two readers are named {reader.name!r}: {type(known[1]).__module__} and {reader.__module__}"
            )
        REGISTERED[reader.name] = (order, reader())
        return reader

    return add


def agent_turns(messages: list[Message]) -> int:
    """How often the agent said or called anything."""
    return sum(message.role == "assistant" and bool(message.content.strip()) for message in messages)


def issue_text(message: str) -> str:
    """The issue within a first message, spaces evened; the whole message where it marks none (it names temporary folders)."""
    match = ISSUE.search(message)
    return " ".join((match[2] if match else message).split())


def task_by_issue(messages: Sequence[Message]) -> str:
    """The task of an attempt that names none: attempts at one issue are of one task. One without an issue (the rest of a
    conversation) is a task of its own, since nothing says that two such are of the same."""
    first = next((m for m in messages if m.role in ("user", "assistant")), None)
    if first is not None and first.role == "user" and first.content.strip():
        return f"issue-{fingerprint(issue_text(clean(first.content)))}"
    return f"fragment-{fingerprint([[m.role, clean(m.content)] for m in messages])}"


def task_by_location(messages: Sequence[Message], location: Location) -> str:
    """The task of an attempt that names none: what its file is called by; of a row, whose file has many, its issue."""
    return location.subject if location.line is None else task_by_issue(messages)


def validated(draft: Draft, crashed: str = "") -> Draft:
    """The draft, where the agent spoke at all, with text that can be stored. crashed: what the run died of. Raises Skipped."""
    if not agent_turns(draft.messages):
        raise Skipped(f"{CRASH} ({clean(crashed).splitlines()[0][:80]})" if crashed.strip() else NO_AGENT)
    draft.messages = [Message(m.role, clean(m.content)) for m in draft.messages]
    draft.patch = clean(draft.patch) if draft.patch else None
    if draft.location.line is None:
        first = next(i for i, m in enumerate(draft.messages) if m.role == "assistant")
        draft.opening = fingerprint([[m.role, m.content] for m in draft.messages[:first]])
    draft.extra = {key: clean(value) if isinstance(value, str) else value for key, value in draft.extra.items()}
    return draft


def exit_status(stated: str, submitted: bool) -> ExitStatus:
    """A format's word for how an attempt ended, as one of ours.

    stated: `Submitted`, `submitted (exit_cost)`, `LimitsExceeded`, `exit_error`, ... or "". submitted: what else the record
    shows, where nothing is stated. A patch that was taken when a limit was hit was never submitted by the agent.
    """
    word = stated.lower()
    if not word:
        return "submitted" if submitted else "unfinished"
    if word in ("submitted", "submit", "finish", "finished", "completed", "success"):
        return "submitted"
    words = " ".join(WORD.findall(stated)).lower()
    if any(part in words for part in SERVICE):
        return "error"
    if any(part in word or part in words for part in OUT_OF):
        return "unfinished"
    if word.startswith("submitted"):
        return "error" if "error" in word else "unfinished"
    return "error"
