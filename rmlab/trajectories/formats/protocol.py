"""What a reader of a format is: it knows its documents by what is in them, and makes one draft of one document."""

from typing import Any, Protocol

from rmlab.trajectories.draft import Draft, NotATrajectory
from rmlab.trajectories.places import Place
from rmlab.trajectories.reading import clean
from rmlab.trajectories.record import ExitStatus, Message

CRASH, NO_AGENT, STATISTICS = "crash trace", "no agent turn", "statistics only"
UNKNOWN_ROLE = "turn of an unknown role"


class Format(Protocol):
    """name: as `rmlab import` takes it."""

    name: str

    def matches(self, document: Any) -> bool:
        """Whether the parsed document is of this format. Never raises."""

    def read(self, document: Any, place: Place) -> Draft:
        """The attempt. Raises NotATrajectory with the reason where there is none; nothing else, whatever the document holds."""


def agent_turns(messages: list[Message]) -> int:
    """How often the agent said or called anything."""
    return sum(message.role == "assistant" and bool(message.content.strip()) for message in messages)


def proven(draft: Draft, crashed: str = "") -> Draft:
    """The draft, where the agent spoke at all, with text that can be stored. crashed: what the run died of. Raises NotATrajectory."""
    if not agent_turns(draft.messages):
        raise NotATrajectory(f"{CRASH} ({clean(crashed).splitlines()[0][:80]})" if crashed.strip() else NO_AGENT)
    draft.messages = [Message(m.role, clean(m.content)) for m in draft.messages]
    draft.patch = clean(draft.patch) if draft.patch else None
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
    if any(
        part in word
        for part in (
            "limit",
            "exit_cost",
            "exit_context",
            "exit_format",
            "early_exit",
            "max",
            "stuck",
            "iteration",
            "skipped",
            "cost",
            "rejected",
            "unfinished",
            "context",
        )
    ):
        return "unfinished"
    if word.startswith("submitted"):
        return "error" if "error" in word else "unfinished"
    return "error"
