"""Factors: named choices, each of which owns a declared set of configuration keys.

A sweep may vary only what its declared factors own; everything else is equal in all its cells, which `control_hash` proves.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rmlab.errors import UsageError


@dataclass(frozen=True)
class Factor:
    """owns: keys of the configuration (a key owns what is below it). sets: overrides that set a level, `{level}` in its place.

    owns_pool: its levels change the pool of trajectories or their labels, so the pool's fingerprint is its own too.
    """

    name: str
    owns: tuple[str, ...]
    sets: tuple[str, ...]
    about: str
    owns_pool: bool = False

    def overrides(self, level: str | int | float) -> list[str]:
        """What sets the configuration to a level."""
        return [text.format(level=level) for text in self.sets]


FACTORS = {
    factor.name: factor
    for factor in (
        Factor("data_scale", ("data.scale",), ("data.scale={level}",), "training examples"),
        Factor("match", ("training.match",), ("training.match={level}",), "what stays equal when the amount of data varies"),
    )
}


def find_factors(names: Iterable[str]) -> tuple[Factor, ...]:
    """The factors of these names. Raises UsageError for one that is not declared."""
    found = []
    for name in names:
        if name not in FACTORS:
            raise UsageError(f"there is no factor {name!r}; there are: {', '.join(sorted(FACTORS))}")
        found.append(FACTORS[name])
    return tuple(found)
