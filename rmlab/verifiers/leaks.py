"""Does a prompt hold the outcome that it asks for?

Runs in every training, over every prompt of training, validation and evaluation. The issue (the first user message) is
left out: what a user writes is the task. R2E-Gym #17 is the case: the output of hidden tests stood in the prompt.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from rmlab.errors import DataError
from rmlab.trajectories.leakage import OUTCOME_TEXT
from rmlab.trajectories.record import Trajectory

# Keys of `extra` under which formats keep outcomes; their texts must not be found in a prompt.
OUTCOME_KEYS = re.compile(r"eval|test|report|resolved|label|verdict|outcome|fail_to|pass_to|gold|hidden", re.IGNORECASE)
SHORTEST = 12  # characters of an outcome text that count as found; shorter ones ("[]", "passed") occur by chance


def check_leaks(trajectories: Iterable[Trajectory]) -> int:
    """Proves that no prompt holds outcome text; returns how many were read.

    Raises DataError that counts the trajectories with a leak by kind and shows the first.
    """
    read, leaking, first = 0, 0, ""
    outcome_of: dict[str, str | None] = {}  # most messages are said by many attempts
    for trajectory in trajectories:
        read += 1
        if leak := next(leaks(trajectory, outcome_of), None):
            leaking += 1
            first = (
                first or f"{trajectory.trajectory_id} ({trajectory.extra.get('place') or trajectory.source}): {leak}"
            )
    if leaking:
        raise DataError(
            f"{leaking} of {read} prompts hold the outcome that they ask for, first {first}. "
            "Remove such messages when the trajectories are read, before any verifier is trained (`rmlab import --leaks drop` "
            "leaves such attempts out)."
        )
    return read


def leaks(trajectory: Trajectory, outcome_of: dict[str, str | None] | None = None) -> Iterator[str]:
    """What in one trajectory's prompt tells its outcome: one line each. outcome_of: remembers what a text was found to say."""
    outcome_of = {} if outcome_of is None else outcome_of
    outcomes = [text for text in _outcome_texts(trajectory.extra) if len(text) >= SHORTEST]
    for place, text in _shown(trajectory):
        if text not in outcome_of:
            match = OUTCOME_TEXT.search(text)
            outcome_of[text] = match[0] if match else None
        if outcome_of[text] is not None:
            yield f"{place} says {outcome_of[text]!r}"
        for outcome in outcomes:
            if outcome in text:
                yield f"{place} repeats a text that `extra` keeps as an outcome: {outcome[:60]!r}"


def _shown(trajectory: Trajectory) -> Iterator[tuple[str, str]]:
    issue = next((number for number, m in enumerate(trajectory.messages) if m.role == "user"), None)
    for number, message in enumerate(trajectory.messages):
        if number != issue:
            yield f"message {number} ({message.role})", message.content
    yield "the patch", trajectory.patch or ""


@lru_cache(maxsize=4096)
def _of_outcome(key: str) -> bool:
    return OUTCOME_KEYS.search(key) is not None


def _outcome_texts(value: Any, under_outcome: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, dict | list | str):
                yield from _outcome_texts(inner, under_outcome or _of_outcome(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _outcome_texts(inner, under_outcome)
    elif isinstance(value, str) and under_outcome:
        yield value
