"""Does a prompt hold the outcome that it asks for?

Runs in every training, over every prompt of training, validation and evaluation. The issue (the first user message) is
left out: what a user writes is the task. R2E-Gym #17 is the case: the output of hidden tests stood in the prompt.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rmlab.errors import DataError
from rmlab.trajectories.leakage import OUTCOME_TEXT
from rmlab.trajectories.record import Message, Trajectory

# Keys of `extra` under which formats keep outcomes; their texts must not be found in a prompt.
OUTCOME_KEYS = re.compile(r"eval|test|report|resolved|label|verdict|outcome|fail_to|pass_to|gold|hidden", re.IGNORECASE)
SHORTEST = 12  # characters of an outcome text that count as found; shorter ones ("[]", "passed") occur by chance


def check_leaks(trajectories: Iterable[Trajectory]) -> int:
    """Proves that no prompt holds outcome text; returns how many were read.

    Raises DataError that counts the trajectories with a leak by kind and shows the first.
    """
    read, leaking, first = 0, 0, ""
    for trajectory in trajectories:
        read += 1
        if found := next(leaks(trajectory), None):
            leaking += 1
            first = first or f"{trajectory.trajectory_id} ({trajectory.source}): {found}"
    if leaking:
        raise DataError(f"{leaking} of {read} prompts hold the outcome that they ask for, first {first}. "
                        "Remove such messages when the trajectories are read, before any verifier is trained.")
    return read


def leaks(trajectory: Trajectory) -> Iterator[str]:
    """What in one trajectory's prompt tells its outcome: one line each."""
    outcomes = [text for text in _outcome_texts(trajectory.extra) if len(text) >= SHORTEST]
    for place, text in _shown(trajectory):
        if match := OUTCOME_TEXT.search(text):
            yield f"{place} says {match[0]!r}"
        for outcome in outcomes:
            if outcome in text:
                yield f"{place} repeats a text that `extra` keeps as an outcome: {outcome[:60]!r}"


def _shown(trajectory: Trajectory) -> Iterator[tuple[str, str]]:
    issue: Message | None = next((m for m in trajectory.messages if m.role == "user"), None)
    for number, message in enumerate(trajectory.messages):
        if message is not issue:
            yield f"message {number} ({message.role})", message.content
    yield "the patch", trajectory.patch or ""


def _outcome_texts(value: Any, under_outcome: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _outcome_texts(inner, under_outcome or OUTCOME_KEYS.search(key) is not None)
    elif isinstance(value, list):
        for inner in value:
            yield from _outcome_texts(inner, under_outcome)
    elif isinstance(value, str) and under_outcome:
        yield value
