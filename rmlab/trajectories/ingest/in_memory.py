"""Attempts that are Python values: each becomes the record that `rmlab import` makes of the same value in a file.

The readers take what they find in a file and count what they leave out. A program can correct what it passes, so here a message that
no reader would read as it is meant (no role, no content, an object in place of a dict) is an error that names its place. An attempt
that `rmlab import` would skip, such as one in which the agent said nothing, is given as Skipped: a policy may well do that.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rmlab.errors import DataError, UsageError
from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.ingest.reading import as_kept
from rmlab.trajectories.ingest.skipped import Skipped
from rmlab.trajectories.readers.chat import ROLES, ChatRows
from rmlab.trajectories.readers.registry import drafted, format_of
from rmlab.trajectories.record import Trajectory, family, repository

Attempt = Mapping[str, Any] | Sequence[Mapping[str, Any]] | Trajectory
"""{"messages": [...], "patch": "..."} or any other document that `rmlab import` reads; a list of messages; or a record, which stays
as it is."""
CONTENTS = ("content", "text", "value")
CALLS = ("tool_calls", "function_call")
REASONING = ("reasoning_content", "reasoning", "thinking")
"""What a verifier does not read, but a model's message may hold alone."""


def records(attempts: Iterable[Attempt]) -> list[Trajectory | Skipped]:
    """The records of attempts in their order, numbered so; Skipped with its reason for one that `rmlab import` would skip.

    Raises UsageError where `attempts` is no list of attempts but one, DataError where one is no attempt at all: the message names the
    place, such as attempts[3]["messages"][7].
    """
    if isinstance(attempts, Mapping | str | bytes | Trajectory) or not isinstance(attempts, Iterable):
        raise UsageError(f"expected a list of attempts, not one {type(attempts).__name__}: put it in brackets")
    return [one if isinstance(one, Trajectory) else _record(one, number) for number, one in enumerate(attempts)]


def _record(attempt: Mapping[str, Any] | Sequence[Mapping[str, Any]], number: int) -> Trajectory | Skipped:
    place = f"attempts[{number}]"
    document = _document(attempt, place)
    reader = format_of(document)
    if reader is None or reader.name == ChatRows.name:
        _check(document, place)
    try:
        draft = drafted(document, Location(place, "", number + 1))
    except Skipped as skipped:
        return skipped
    if draft is None and _is_conversation(document):
        raise DataError(f"{place} has no message of the agent (role assistant): there is nothing to score")
    if draft is None:
        raise DataError(f'{place} has no format that is known: expected {{"messages": [...], "patch": "..."}}')
    if draft.patch is None and draft.removed["column patch"]:
        raise DataError(
            f"{place}: beside columns of a benchmark, `patch` is read as the benchmark's answer and left out. Name the attempt's own "
            "patch model_patch, or pass messages and patch alone."
        )
    return _trajectory(as_kept(draft), number)


def _is_conversation(document: dict[str, Any] | list[Any]) -> bool:
    messages = document.get("messages") if isinstance(document, dict) else document
    return (
        isinstance(messages, list)
        and bool(messages)
        and all(isinstance(one, dict) and "role" in one for one in messages)
    )


def _trajectory(draft: Draft, number: int) -> Trajectory:
    return Trajectory(
        task_id=draft.task_id,
        cluster=repository(draft.task_id, draft.repository),
        source=family(draft.task_id),
        policy=draft.policy,
        attempt=number,
        messages=tuple(draft.messages),
        patch=draft.patch,
        exit_status=draft.exit_status,
        resolved=draft.resolved,
    )


def _document(attempt: Any, place: str) -> dict[str, Any] | list[Any]:
    """As readers take it: dicts and lists, where tables give arrays or tuples of messages."""
    if isinstance(attempt, Mapping):
        document = dict(attempt)
        if strange := [key for key in document if not isinstance(key, str)]:
            raise DataError(f"{place} has the key {strange[0]!r}: keys must be text, such as messages and patch")
        if "messages" in document and not isinstance(document["messages"], str):
            document["messages"] = _list(document["messages"], f'{place}["messages"]')
        return document
    return _list(attempt, place)


def _list(value: Any, place: str) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise DataError(f"{place} is of type {type(value).__name__}: expected a list of messages")
    return [dict(one) if isinstance(one, Mapping) else one for one in value]


def _check(document: dict[str, Any] | list[Any], place: str) -> None:
    """Raises DataError where a conversation has a message that would not be read as it is meant."""
    messages: Any = document
    if isinstance(document, dict):
        patch = document.get("patch")
        if patch is not None and not isinstance(patch, str):
            raise DataError(f'{place}["patch"] is of type {type(patch).__name__}: expected text or None')
        if "role" in document and "messages" not in document:
            raise DataError(
                f"{place} is a message: an attempt is a list of messages, or a dict that has them as `messages`"
            )
        messages, place = document.get("messages"), f'{place}["messages"]'
    if messages == []:
        raise DataError(f"{place} is empty")
    if not isinstance(messages, list):
        return  # JSON text, or a format that calls its turns otherwise
    for number, message in enumerate(messages):
        _check_message(message, f"{place}[{number}]")


def _check_message(message: Any, place: str) -> None:
    if not isinstance(message, dict):
        raise DataError(
            f"{place} is of type {type(message).__name__}: expected a dict with role and content (`.model_dump()`?)"
        )
    role = message.get("role") or message.get("from")
    if role is None:
        raise DataError(f"{place} has no role: it must be one of {', '.join(ROLES)}")
    if not isinstance(role, str) or role.lower() not in ROLES:
        raise DataError(f"{place} has the role {role!r}: it must be one of {', '.join(ROLES)}")
    calls = [message[key] for key in CALLS if message.get(key) is not None]
    if not calls and not any(key in message for key in CONTENTS + REASONING):
        raise DataError(f'{place} has neither content nor tool_calls: an empty message has content ""')
    for key, kinds in (
        *((key, str | list) for key in CONTENTS),
        ("tool_calls", str | list),
        ("function_call", str | dict),
    ):
        value = message.get(key)
        if value is not None and not isinstance(value, kinds):
            raise DataError(
                f'{place}["{key}"] is of type {type(value).__name__}, which is not read: pass text, or a list of dicts'
            )
        parts: list[Any] = value if isinstance(value, list) else []
        strange = [part for part in parts if not isinstance(part, dict | str)]
        if strange:
            raise DataError(
                f'{place}["{key}"] holds a value of type {type(strange[0]).__name__}: expected dicts (`.model_dump()`?)'
            )
