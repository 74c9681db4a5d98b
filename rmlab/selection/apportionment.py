"""Shares a whole number of places out by weight, so that a larger total never takes a place away.

The quota method of Balinski and Young (The Quota Method of Apportionment, American Mathematical Monthly 82, 1975): places
are given one after the other, so it is house-monotone, and every party has its exact share rounded down or up at every total.
"""

from collections.abc import Hashable, Iterator, Mapping
from fractions import Fraction
from math import lcm
from typing import TypeVar

Party = TypeVar("Party", bound=Hashable)


def places(weights: Mapping[Party, Fraction]) -> Iterator[Party]:
    """The party that gets the 1st, 2nd, ... place, without end.

    weights: non-negative, at least one positive; ties go to the party that stands first. Raises ValueError otherwise.
    """
    if any(w < 0 for w in weights.values()) or not any(weights.values()):
        raise ValueError(f"weights must be at least 0, one of them more: {dict(weights)}")
    scale = lcm(*(Fraction(w).denominator for w in weights.values()))
    whole = {party: int(w * scale) for party, w in weights.items() if w}
    total = sum(whole.values())
    given = dict.fromkeys(whole, 0)
    house = 0
    while True:
        house += 1
        # Only who is still below the share at this house may get the place: that keeps everyone at or below it, rounded up.
        open_to = [p for p in whole if given[p] * total < whole[p] * house]
        best = open_to[0]
        for party in open_to[1:]:
            if whole[party] * (given[best] + 1) > whole[best] * (given[party] + 1):
                best = party
        given[best] += 1
        yield best


def apportion(total: int, weights: Mapping[Party, Fraction]) -> dict[Party, int]:
    """Places of each party at a total: the exact share rounded down or up. Parties of weight 0 are there with 0."""
    given = dict.fromkeys(weights, 0)
    for _, party in zip(range(total), places(weights), strict=False):
        given[party] += 1
    return given
