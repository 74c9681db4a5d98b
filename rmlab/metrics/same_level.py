"""How often do the tests between levels reject when there is no difference? Compares half of a level's seeds with the other half."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from rmlab.errors import DataError
from rmlab.metrics.sweep_levels import FAMILY, LEAST_SEEDS, LEVEL, LevelTest, compare_halves
from rmlab.scores.scores import Scores

HALVES = "second half"


@dataclass(frozen=True)
class SameLevel:
    """declared: the tests of the split that was fixed before anything was seen, first half against second, in the order given.

    splits: how many ways there are to split in two halves. rejected: of each metric, the share of them with p <= 0.05;
    families: the share in which Holm's correction over the metrics still shows any difference.
    """

    seeds: int
    declared: list[LevelTest]
    splits: int
    rejected: dict[str, float]
    families: float


def same_level(tables: Sequence[Scores], *, replicates: int = 2000, seed: int = 0) -> SameLevel:
    """Compares the halves of one level's seeds, and all other ways to halve them.

    tables: one score table a seed, all on the same trajectories; an odd last one is left out.
    Raises DataError for fewer seeds than two halves need.
    """
    half = len(tables) // 2
    if half < LEAST_SEEDS:
        raise DataError(
            f"{len(tables)} seeds do not make two halves of at least {LEAST_SEEDS}: run {2 * LEAST_SEEDS} seeds or more"
        )
    tables = tables[: 2 * half]
    others = range(1, 2 * half)
    firsts = [
        (0, *rest) for rest in combinations(others, half - 1)
    ]  # with seed 0 in the first half, each split comes once
    halves = [(first, tuple(i for i in range(2 * half) if i not in first)) for first in firsts]
    halvings = compare_halves(tables, halves, HALVES, replicates=replicates, seed=seed)
    rejected = {
        metric: sum(
            test.p is not None and test.p <= LEVEL for tests in halvings for test in tests if test.metric == metric
        )
        / len(halvings)
        for metric in FAMILY
    }
    return SameLevel(
        2 * half,
        halvings[0],
        len(halvings),
        rejected,
        sum(any(test.shown for test in tests) for tests in halvings) / len(halvings),
    )
