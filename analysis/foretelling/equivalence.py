"""Does a change of the reward change what becomes of a policy, or is any change smaller than a margin? Paired by RL seed and task.

Two conditions are run from one start with the same seeds. The mean difference varies for the reasons that levels of a sweep do (other
seeds, other tasks, counted once: `rmlab.metrics.sweep_levels`). "Alike" is shown by two one-sided t tests against the margin
(Schuirmann 1987): then the 90 % interval lies within it. Neither shown nor alike is a possible answer, and then it is the answer.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from rmlab.errors import DataError
from rmlab.metrics.sweep_levels import LEAST_SEEDS, LEVEL, Spread, detectable_difference, mean_error, spread
from rmlab.metrics.table import Floats
from rmlab.metrics.uncertainty import cluster_weights

REPLICATES = 2000


@dataclass(frozen=True)
class Equivalence:
    """A difference between two conditions. low, high: of its 90 % interval. p_alike: that it is less than the margin in size;
    p: that it is not 0, two-sided. least_shown: what a test of 0 shows with a power of 80 %. seeds: RL seeds that it is the mean over."""

    difference: float
    low: float
    high: float
    p_alike: float
    p: float
    error: float
    degrees: float
    least_shown: float
    margin: float
    seeds: int

    @property
    def differs(self) -> bool:
        """Whether a difference is shown."""
        return self.p <= LEVEL

    @property
    def words(self) -> str:
        """What may be said."""
        if self.p_alike <= LEVEL:
            return "alike, though not equal" if self.differs else "alike"
        return "differs" if self.differs else "neither a difference nor likeness shown"


def equivalence(own: Spread, levels_LS: Sequence[Floats], margin: float) -> Equivalence:
    """levels_LS: differences by seed of all conditions beside one reference, whose variance is pooled."""
    found, difference = mean_error(own, levels_LS), float(own.seed_S.mean())
    if found is None:
        if difference:
            raise DataError("two conditions differ alike in every seed and task: they are no runs of this study")
        return Equivalence(
            0.0, 0.0, 0.0, 0.0, 1.0, 0.0, float("inf"), 0.0, margin, len(own.seed_S)
        )  # the same policies, to the last weight
    error, degrees = found
    half = float(stats.t.ppf(0.95, degrees)) * error
    return Equivalence(
        difference,
        difference - half,
        difference + half,
        float(stats.t.sf((margin - abs(difference)) / error, degrees)),
        float(2 * stats.t.sf(abs(difference) / error, degrees)),
        error,
        degrees,
        detectable_difference(error, degrees),
        margin,
        len(own.seed_S),
    )


Rates = Mapping[str, float]
"""task_id to the share of its attempts that are resolved."""


def paired_spread(pairs: Sequence[tuple[Rates, Rates]], cluster_of: Mapping[str, str], seed: int = 0) -> Spread:
    """Where the difference of two conditions comes from. pairs: (reference, condition) of each RL seed, at least two, on the same tasks.

    Raises DataError where a pair's tasks are not those of the first: a mean over other tasks is no paired difference.
    """
    tasks = sorted(pairs[0][0])
    for one in (side for pair in pairs for side in pair):
        if sorted(one) != tasks:
            raise DataError(f"two runs were judged on other tasks ({len(tasks)} and {len(one)}): they cannot be paired")
    names, code_T = np.unique([cluster_of[task] for task in tasks], return_inverse=True)
    difference_ST = np.array([[now[task] - then[task] for task in tasks] for then, now in pairs])
    count_C = np.bincount(code_T).astype(float)
    sum_SC = np.stack([np.bincount(code_T, row_T, len(names)) for row_T in difference_ST])
    weight_RC = np.vstack(list(cluster_weights(len(names), REPLICATES, seed)))
    return spread(difference_ST.mean(axis=1), (sum_SC @ weight_RC.T) / (weight_RC @ count_C), len(names))


def compared(
    spreads: Mapping[str, Spread], margin: float, pooled: Collection[str] | None = None
) -> dict[str, Equivalence]:
    """Every condition beside its reference; fewer than LEAST_SEEDS seeds are left out. pooled: conditions whose seeds' variances are
    pooled (default: all)."""
    tested = {name: one for name, one in spreads.items() if len(one.seed_S) >= LEAST_SEEDS}
    levels_LS = [one.seed_S for name, one in tested.items() if pooled is None or name in pooled]
    return {name: equivalence(one, levels_LS or [one.seed_S], margin) for name, one in tested.items()}
