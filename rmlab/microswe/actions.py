"""What may an agent say? One action a message, on one line:

    edit N: code    line N of the program becomes `code`, at the indentation that the line has
    run             the public call is made with the present program and its value is shown
    submit          the attempt is over

N counts from 1, as the issue numbers the lines. `code` is written without its indentation: an edit replaces one line by
one line, so the numbers hold for the whole attempt and an edit costs few tokens. Anything else is unreadable: it costs
a turn and is answered by one line that says what was wrong.
"""

import re
from dataclasses import dataclass

LONGEST_LINE = 400  # characters of `code`

_EDIT = re.compile(r"edit (\d{1,4}):(.*)")


@dataclass(frozen=True)
class Edit:
    """Line `line` (from 1) becomes `code` (no indentation, no newline)."""

    line: int
    code: str


@dataclass(frozen=True)
class Run:
    """Make the public call and show its value."""


@dataclass(frozen=True)
class Submit:
    """End the attempt."""


Action = Edit | Run | Submit


class UnreadableAction(ValueError):
    """The message is not an action that can be taken; the text is what the agent is told."""


def parse(text: str) -> Action:
    """The action that a message holds. Space around it does not count. Raises UnreadableAction."""
    text = text.strip()
    if text == "run":
        return Run()
    if text == "submit":
        return Submit()
    match = _EDIT.fullmatch(text)
    if match is None:
        raise UnreadableAction("say one of: edit N: code | run | submit")
    code = match[2].strip()
    if not code or len(code) > LONGEST_LINE or len(code.splitlines()) != 1 or "\0" in code:
        raise UnreadableAction(f"an edit takes one line of code of at most {LONGEST_LINE} characters")
    return Edit(int(match[1]), code)


def try_parse(text: str) -> Action | None:
    """The action that a message holds; None where it is unreadable."""
    try:
        return parse(text)
    except UnreadableAction:
        return None


def write(action: Action) -> str:
    """The message that says an action: parse(write(action)) == action."""
    if isinstance(action, Edit):
        return f"edit {action.line}: {action.code}"
    return "run" if isinstance(action, Run) else "submit"


def indentation(line: str) -> str:
    """The white space that a line begins with."""
    return line[: len(line) - len(line.lstrip())]


def apply(code: str, edit: Edit) -> str:
    """The program after an edit. Raises UnreadableAction where the program has no such line."""
    lines = code.split("\n")
    if not 1 <= edit.line <= len(lines):
        raise UnreadableAction(f"there is no line {edit.line}: lines are 1 to {len(lines)}")
    lines[edit.line - 1] = indentation(lines[edit.line - 1]) + edit.code
    return "\n".join(lines)


def numbered(code: str) -> str:
    """The program as the issue shows it, each line behind its number."""
    return "\n".join(f"{number} {line}" for number, line in enumerate(code.split("\n"), 1))


def patch(before: str, after: str) -> str:
    """The lines that differ: `N- old` and `N+ new`, without indentation, by number. Empty where nothing differs.

    Two programs of one task are the same exactly when their patches are. Raises ValueError where the line counts differ.
    """
    pairs = zip(before.split("\n"), after.split("\n"), strict=True)
    changed = [(n, old.strip(), new.strip()) for n, (old, new) in enumerate(pairs, 1) if old != new]
    return "\n".join(f"{n}- {old}\n{n}+ {new}" for n, old, new in changed)
