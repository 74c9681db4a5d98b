"""Taking turns: how a few are drawn from many so that no kind crowds out the others."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def round_robin(items: Sequence[T], kind: Callable[[T], str]) -> list[T]:
    """The first of each kind, then the second of each, and so on; kinds and what is within them keep the order given."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, T]] = []
    for item in items:
        ranked.append((seen[kind(item)], item))
        seen[kind(item)] += 1
    return [item for _, item in sorted(ranked, key=lambda pair: pair[0])]
