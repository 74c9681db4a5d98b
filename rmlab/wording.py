"""Numbers, durations, lists and plurals in messages and tables; suggestions for misspelt names."""

import difflib
from collections.abc import Iterable, Sequence


def counted(count: int, word: str, plural: str = "") -> str:
    """`1 report`, `2 reports`, `1,000 tasks`. plural: of the word, where that is not the word with an s."""
    return f"{count:,} {word if count == 1 else plural or f'{word}s'}"


def listed(words: Sequence[str]) -> str:
    """`a, b and c`; `none` of none."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"


def number(value: float | None, digits: int = 3, absent: str = "-") -> str:
    """`0.750`. absent: what stands where the value is undefined."""
    return absent if value is None else f"{value:.{digits}f}"


def estimate(
    value: float | None,
    ends: Sequence[float | None] | None,
    digits: int = 3,
    *,
    signed: bool = False,
    absent: str = "-",
) -> str:
    """`0.750 [0.700, 0.800]`, `+0.050 [-0.010, +0.110]`: a value with the ends of its interval, without them where they are not known.

    signed: with a sign before positive numbers, as differences have.
    """
    if value is None:
        return absent
    form, (low, high) = f"{'+' if signed else ''}.{digits}f", ends or (None, None)
    return f"{value:{form}}" + ("" if low is None or high is None else f" [{low:{form}}, {high:{form}}]")


def duration(seconds: float) -> str:
    """`8 s`, `90 s`, `5 min`, `2 h 10 min`: as exact as one wants to know it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def left(seconds: float | None) -> str:
    """`90 s left`; empty where it is not known, or less than a second: what still goes on is not at its end."""
    return "" if seconds is None or seconds < 1 else f"{duration(seconds)} left"


def near(name: str, known: Iterable[str]) -> str:
    """` (did you mean X or Y?)`, empty where nothing is near. The last part of a dotted name counts most."""
    names = list(known)
    matches = difflib.get_close_matches(name, names, n=2, cutoff=0.7)
    if not matches:
        tails = {key.rsplit(".", 1)[-1]: key for key in reversed(names)}
        matches = [tails[t] for t in difflib.get_close_matches(name.rsplit(".", 1)[-1], list(tails), n=2, cutoff=0.75)]
    return f" (did you mean {' or '.join(matches)}?)" if matches else ""
