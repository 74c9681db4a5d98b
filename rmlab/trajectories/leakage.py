"""What in an attempt tells its outcome, and what a format adds behind its end: found, removed or refused, with its place.

Removed: the patch where it is repeated as the last turn (mini-SWE-agent, SWE-agent), since the record holds it once.
Found: text that evaluation harnesses write about an outcome, and the names of tests that were hidden from the agent.
`rmlab.verifiers.leaks` refuses to train on the former; a hidden test's name may have been seen in the repository by right
(the test was there and was changed), so it is reported and nothing else.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rmlab.trajectories.record import Message

# What evaluation harnesses write about an outcome. The bare words "resolved", "hidden tests" or `test_patch.py` are none:
# agents say them of their own work.
OUTCOME_TEXT = re.compile(
    r"FAIL_TO_PASS|PASS_TO_PASS|FAIL_TO_FAIL|PASS_TO_FAIL|tests_status\b|[\"']test_patch[\"']\s*:|\beval_logs\b"
    r"|\b\d+ hidden[ _]tests?\b|\bhidden[ _]tests?\W+(?:passed|failed)\b"
    r"|[\"'](?:resolved|is_resolved|label|verdict)[\"']\s*:\s*(?:true|false|0|1)\b|\bRESOLVED_(?:FULL|PARTIAL|NO)\b",
    re.IGNORECASE,
)
_SIGNS = (
    *("to_pass", "to_fail", "tests_status", "test_patch", "eval_logs", "hidden test", "hidden_test"),
    *(f"{word}{quote}" for word in ("resolved", "label", "verdict") for quote in ("'", '"')),
    *("resolved_full", "resolved_partial", "resolved_no"),
)
"""One of these stands in every text that the pattern finds: looking for them first is far faster."""


def outcome_texts(messages: Sequence[Message]) -> Iterator[tuple[int, str]]:
    """(number of the message, what it says) for each message after the issue that holds outcome text."""
    lower = [m.content.lower() for m in messages]
    whole = "\n".join(lower)
    signs = [sign for sign in _SIGNS if sign in whole]
    if not signs:
        return
    issue = next((number for number, m in enumerate(messages) if m.role == "user"), None)
    for number, message in enumerate(messages):
        if (
            number != issue
            and any(sign in lower[number] for sign in signs)
            and (found := OUTCOME_TEXT.search(message.content))
        ):
            yield number, found[0]


def hidden_names(messages: Sequence[Message], hidden: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(number of the message, the test) for each hidden test whose function is named in a turn after the issue."""
    issue = next((number for number, m in enumerate(messages) if m.role == "user"), None)
    functions = {name: function for name in hidden if len(function := _function(name)) >= 8}
    for name, function in functions.items():
        for number, message in enumerate(messages):
            if number != issue and function in message.content:
                yield number, name
                break


def _function(test: str) -> str:
    """The function's name of a test's id: `tests/a.py::Case::test_x[1]` and `test_x (app.tests.Case)` → `test_x`."""
    return test.split("::")[-1].split(" (")[0].split("[")[0].strip()


def without_repeated_patch(messages: Sequence[Message], patch: str | None) -> tuple[list[Message], Counter[str]]:
    """The messages without last turns that only repeat the patch, or are empty; and how many of each were left out."""
    kept = list(messages)
    wanted = _even(patch or "")
    removed: Counter[str] = Counter()
    while kept and kept[-1].role != "assistant":
        text = _even(kept[-1].content)
        # A shell's state may follow the patch (SWE-agent: open file, directory, prompt).
        if text and not (wanted and text.startswith(wanted) and len(text) < len(wanted) + 200):
            break
        kept.pop()
        removed["patch repeated as last turn" if text else "empty last turn"] += 1
    return kept, removed


def _even(text: str) -> str:
    """Line ends evened and outer space dropped: the same patch goes through terminals and files."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()
