"""A total shared out in steps: to labels, within each label to policies, within each policy to sources."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import floor

from rmlab.selection.apportionment import apportion

Key = tuple[str, str, str]
"""(label, policy, source)"""


@dataclass(frozen=True, eq=False)
class ShareNode:
    """A step of the apportionment: its rows are shared out to its children by weight; a leaf is one stratum."""

    key: tuple[str, ...]
    there: int
    children: tuple["ShareNode", ...] = ()
    weights: tuple[Fraction, ...] = ()

    @cached_property
    def share_of(self) -> dict["ShareNode", Fraction]:
        """Each child's share of this node's rows; children that get nothing are left out."""
        total = sum(self.weights, Fraction(0))
        return {c: w / total for c, w in zip(self.children, self.weights, strict=True) if w}

    @cached_property
    def capacity(self) -> int:
        """The largest number of rows whose exact shares are all there.

        A share is never rounded up past a whole number of rows that is there, so what is within capacity can be filled.
        """
        if not self.children:
            return self.there
        return min((floor(c.capacity / share) for c, share in self.share_of.items()), default=0)

    @property
    def tightest(self) -> "ShareNode":
        """The node that sets the capacity: the first on the way down whose own rows are what is short."""
        if not self.children or not self.share_of or self.capacity == self.there:
            return self
        return min(self.share_of, key=lambda c: c.capacity / self.share_of[c]).tightest

    def fill(self, total: int) -> dict[Key, int]:
        """Rows of each stratum at a total within capacity."""
        if not self.children:
            label, policy, source = self.key
            return {(label, policy, source): total}
        given = apportion(total, dict(zip(self.children, self.weights, strict=True))) if total else {}
        return {key: n for c in self.children for key, n in c.fill(given.get(c, 0)).items()}

    def shares(self) -> dict[Key, Fraction]:
        """Exact share of each stratum in the whole."""
        if not self.children:
            label, policy, source = self.key
            return {(label, policy, source): Fraction(1)}
        return {
            key: share * self.share_of.get(c, Fraction(0)) for c in self.children for key, share in c.shares().items()
        }
