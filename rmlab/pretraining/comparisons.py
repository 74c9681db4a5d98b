"""Text that teaches to compare: is the value that was seen last the one that the issue asks for?

What a verifier of micro-SWE has to see first is whether two values are equal, and reading episodes alone does not teach it
(a linear probe on such a base tells equal from unequal with an AUC of 0.55). A comparison is a prompt of the verifier's own
form with SAME or OTHER as its answer; half of them are SAME, and most of the others are near
misses: one digit, one element, one bracket. Names, calls and patches come from episodes of the supervised part, values are
invented or the episode's own. No label of an attempt goes in: the answer follows from the two values alone.
"""

import ast
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rmlab.fingerprint import fingerprint
from rmlab.microswe.episode import BUT, FINAL, GOT, SHOULD
from rmlab.microswe.sandbox.values import encode, show
from rmlab.models.tokenizer import IM_END, IM_START
from rmlab.verifiers.prompt import OPEN_ANSWER

SAME, OTHER = "SAME", "OTHER"
QUESTIONS = (
    f"Is the last value the one asked for? Answer {SAME} or {OTHER}.",
    # in the verifier's words but for the answers: what a base computes for this question it computes for a verifier's prompt
    f"Is the issue solved? Answer {SAME} or {OTHER}.",
)
WHOLE_SHARE = (
    0.3  # comparisons that stand behind a whole episode, as a verifier reads them; the others are the question alone
)
OWN_SHARE = 0.3  # of the questions alone: those that keep the episode's own expected value
_PROMPT = re.compile(
    rf"(?P<turns>.*){re.escape(IM_START)}user\nAsked: (?P<asked>[^\n]*)\nLast: (?P<last>[^\n]*)\n"
    rf"Patch:\n(?P<patch>.*)\n[^\n]*{re.escape(IM_END)}\n{re.escape(OPEN_ANSWER)}",
    re.DOTALL,
)
_ERRORS = ("TypeError", "ValueError", "IndexError", "KeyError", "NameError", "RecursionError", "ZeroDivisionError")


@dataclass(frozen=True)
class Comparison:
    """A prompt and its answer, SAME or OTHER."""

    prompt: str
    answer: str


@dataclass(frozen=True)
class _Parts:
    """What a rendered episode says: its turns, the call, the values expected and seen before any edit, and the patch."""

    turns: str
    call: str
    expected: str
    before: str
    patch: str


def comparisons(episodes: Sequence[str], number: int, seed: int) -> Iterator[Comparison]:
    """`number` comparisons, the same for the same episodes, number and seed.

    episodes: texts of `render`. Those whose first line was cut, or that show no final value, are passed over.
    """
    usable = [parts for parts in map(_parts, episodes) if parts is not None]
    drawn = random.Random(fingerprint(["comparisons", seed]))
    for _ in range(number if usable else 0):
        parts = drawn.choice(usable)
        whole = drawn.random() < WHOLE_SHARE
        expected = parts.expected if whole or drawn.random() < OWN_SHARE else _text(invented(drawn))
        same = drawn.random() < 0.5
        seen = expected if same else _another(expected, parts.before, drawn)
        before = parts.before if whole or drawn.random() < 0.3 else _another(expected, seen, drawn)
        opening = FINAL if whole or drawn.random() < 0.8 else ""
        turns = _with_last(parts.turns, f"{opening}{GOT}{seen}") if whole else ""
        question = (
            f"Asked: {parts.call}{SHOULD}{expected}{BUT}{before}\nLast: {opening}{GOT}{seen}\n"
            f"Patch:\n{parts.patch}\n{drawn.choice(QUESTIONS)}"
        )
        yield Comparison(f"{turns}{IM_START}user\n{question}{IM_END}\n{OPEN_ANSWER}", SAME if same else OTHER)


def _parts(episode: str) -> _Parts | None:
    found = _PROMPT.fullmatch(episode)
    if found is None or SHOULD not in found["asked"] or BUT not in found["asked"]:
        return None
    call, values = found["asked"].rsplit(SHOULD, 1)
    expected, before = values.split(BUT, 1)
    if not found["last"].startswith(FINAL + GOT) or " ... " in found["asked"]:
        return None
    return _Parts(found["turns"], call, expected, before, found["patch"])


def _text(value: Any) -> str:
    """As the environment shows it: the same value always gives the same text, sets among them."""
    return show(encode(value))


def _with_last(turns: str, message: str) -> str:
    """The turns with another last message."""
    head = turns[: turns.rindex(f"{IM_START}user\n")]
    return f"{head}{IM_START}user\n{message}{IM_END}\n"


def _another(text: str, known: str, drawn: random.Random) -> str:
    """The text of a value that differs from `text`: a near miss mostly, else `known`, an error, or any other value."""
    kind = drawn.random()
    for _ in range(8):
        if kind < 0.15 and differ(known, text):
            return known
        if kind < 0.25:
            other = f"raised {drawn.choice(_ERRORS)}"
        elif kind < 0.35:
            other = _text(invented(drawn))
        else:
            other = near_miss(text, drawn)
        if differ(other, text):
            return other
        kind = drawn.random()
    return text + "0"


def differ(one: str, two: str) -> bool:
    """Whether two texts show values that the environment tells apart; of what is no literal, spaces say nothing."""
    try:
        return encode(ast.literal_eval(one)) != encode(ast.literal_eval(two))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return "".join(one.split()) != "".join(two.split())


def near_miss(text: str, drawn: random.Random) -> str:
    """A value's text with one part of the value changed; where it is no literal, with one character changed."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return _other_character(text, drawn)
    return _text(_changed(value, drawn))


def _changed(value: Any, drawn: random.Random) -> Any:
    if isinstance(value, list | tuple) and value and drawn.random() < 0.9:
        return _changed_sequence(value, drawn)
    if isinstance(value, dict) and value:
        items = list(value.items())
        at = drawn.randrange(len(items))
        if drawn.random() < 0.7:
            items[at] = (items[at][0], _changed(items[at][1], drawn))
        else:
            del items[at]
        return dict(items)
    if isinstance(value, set) and value:
        items = sorted(value, key=repr)
        del items[drawn.randrange(len(items))]
        return set(items)
    if isinstance(value, bool) or value is None:
        return drawn.choice([other for other in (True, False, None, 0, 1) if other is not value])
    if isinstance(value, int | float):
        return _changed_number(value, drawn)
    if isinstance(value, str) and value:
        return _other_character(value, drawn)
    return invented(drawn)


def _changed_sequence(value: Any, drawn: random.Random) -> Any:
    items, kind, at = list(value), type(value), drawn.randrange(len(value))
    how = drawn.random()
    if how < 0.45:
        items[at] = _changed(items[at], drawn)
    elif how < 0.6:
        del items[at]
    elif how < 0.75:
        items.insert(at, _changed(items[at], drawn) if drawn.random() < 0.5 else items[at])
    elif how < 0.9 and len(items) > 1:
        other = (at + drawn.randrange(1, len(items))) % len(items)
        items[at], items[other] = items[other], items[at]
    else:
        return list(items) if kind is tuple else tuple(items)
    return kind(items)


def _changed_number(value: Any, drawn: random.Random) -> Any:
    changes: list[Callable[[], Any]] = [
        lambda: value + drawn.choice([-1, 1, 2, -2]),
        lambda: -value,
        lambda: float(value) if isinstance(value, int) and abs(value) < 2**53 else value + 0.5,
        lambda: type(value)(_other_digit(repr(value), drawn)),
        lambda: type(value)(_other_digit(repr(value), drawn)),
    ]
    try:
        return drawn.choice(changes)()
    except (ValueError, OverflowError):
        return value + 1


def _other_digit(text: str, drawn: random.Random) -> str:
    places = [i for i, sign in enumerate(text) if sign.isdigit()]
    at = drawn.choice(places) if places else 0
    return text[:at] + drawn.choice("0123456789") + text[at + 1 :]


def _other_character(text: str, drawn: random.Random) -> str:
    at = drawn.randrange(len(text)) if text else 0
    how = drawn.random()
    if how < 0.3:
        return text[:at] + text[at + 1 :]
    letter = drawn.choice("abcdefghijklmnopqrstuvwxyz0123456789 _")
    return text[:at] + letter + text[at + (how < 0.8) :]


def invented(drawn: random.Random, depth: int = 0) -> Any:
    """A value such as functions return: numbers, words, and collections of them."""
    kind = drawn.random() * (1.0 if depth < 2 else 0.62)
    if kind < 0.26:
        return (
            drawn.randrange(-3, 13)
            if drawn.random() < 0.6
            else drawn.randrange(-(10 ** drawn.randrange(1, 7)), 10 ** drawn.randrange(1, 8))
        )
    if kind < 0.38:
        return round(drawn.uniform(-10, 100), drawn.randrange(1, 4)) if drawn.random() < 0.6 else drawn.uniform(-2, 50)
    if kind < 0.55:
        return _word(drawn)
    if kind < 0.62:
        return drawn.choice([True, False, None])
    size = drawn.choice([0, 1, 1, 2, 2, 3, 3, 4, 5, 7])
    if kind < 0.84:
        like = drawn.random() < 0.7
        first = invented(drawn, depth + 1)
        items = [first, *(_like(first, drawn, depth) if like else invented(drawn, depth + 1) for _ in range(size - 1))][
            :size
        ]
        return items if drawn.random() < 0.65 else tuple(items)
    if kind < 0.94:
        return {
            (_word(drawn) if drawn.random() < 0.6 else drawn.randrange(12)): invented(drawn, depth + 1)
            for _ in range(size)
        }
    return {drawn.randrange(30) if drawn.random() < 0.6 else _word(drawn) for _ in range(size)}


def _like(first: Any, drawn: random.Random, depth: int) -> Any:
    """Another element for a collection that holds `first`."""
    if isinstance(first, int) and not isinstance(first, bool):
        return drawn.randrange(-3, 20) if drawn.random() < 0.8 else drawn.randrange(1000)
    if isinstance(first, str):
        return _word(drawn)
    return invented(drawn, depth + 1)


def _word(drawn: random.Random) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    word = "".join(drawn.choice(letters) for _ in range(drawn.choice([1, 1, 2, 3, 3, 4, 5, 6, 8])))
    if drawn.random() < 0.15:
        word = word.capitalize() if drawn.random() < 0.5 else word.upper()
    return word if drawn.random() < 0.8 else f"{word}{drawn.choice([' ', '_', '-', '.', '/', ', '])}{_word(drawn)}"
