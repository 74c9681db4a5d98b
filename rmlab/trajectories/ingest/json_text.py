"""JSON as people leave it: strict where it is, mended with a warning where it nearly is, refused with a reason elsewhere.

Mended: a byte order mark, commas before a closing bracket, a backslash before a character that needs none (all three occur
in published runs), control characters within strings. Nothing else is guessed.
"""

import json
import re
from typing import Any

from rmlab.trajectories.ingest.skipped import Skipped

# A whole string (kept as it is) or a comma before a closing bracket (dropped).
_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')


def read_json(data: bytes) -> tuple[Any, str | None]:
    """The value, and what had to be mended (None = nothing). Raises Skipped."""
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")  # "utf-8-sig" counts bytes behind the mark
    except UnicodeDecodeError as error:
        raise Skipped(f"not UTF-8 (byte {error.start})") from error
    try:
        return json.loads(text), None
    except json.JSONDecodeError as error:
        first = error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
        raise Skipped(f"not readable JSON ({str(error).split(';')[0]})") from error
    if not text.strip():
        raise Skipped("empty file")
    mended, notes = text, []
    if first.msg.startswith("Invalid \\"):
        mended = _ESCAPE.sub(lambda match: match[0] if len(match[0]) > 1 else "\\\\", mended)
        notes.append("a backslash before a character that needs none")
    without = _COMMA.sub(lambda match: "" if match[0] == "," else match[0], mended)
    if without != mended:
        mended = without
        notes.append("a comma before a closing bracket")
    for strict in (True, False):
        try:
            value = json.loads(mended, strict=strict)
        except (ValueError, RecursionError) as error:
            if not str(error).startswith("Invalid control character"):
                break  # the first error is the one that names the place in the file
            notes.append("a control character within a string")
        else:
            return value, " and ".join(notes)
    raise Skipped(f"not JSON (line {first.lineno}: {first.msg})") from first


def as_dict(value: object) -> dict[str, Any]:
    """The value where it is an object, else an empty one: a reader asks of foreign data, it never trusts it."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """The value where it is text, else ""."""
    return value if isinstance(value, str) else ""


def first_text(*values: object) -> str:
    """The first that is text and not empty, else ""."""
    return next((value for value in values if isinstance(value, str) and value.strip()), "")
