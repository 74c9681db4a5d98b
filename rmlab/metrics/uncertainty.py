"""How far can a metric be off because these tasks were drawn and not others?

Attempts at one task (and at near-copies of its function, or in one repository) tend to succeed or fail together, so whole
clusters are resampled, never rows. Intervals are percentile intervals, except for calibration errors: their bootstrap
is biased upwards (resampled bins are noisier), which basic intervals correct. Where two errors are compared, or the
noise floor is subtracted from an error, the quantiles are shifted by that bias instead (recentred): the bias of both sides is
similar, or is what the floor measures. Every interval contains its estimate.

Two measurements on the same tasks: by how much did a mean change? Clusters are resampled, with both measurements at once.

Percentile intervals of 2,000 resamples.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from rmlab.errors import DataError
from rmlab.metrics.table import Floats, ratio
from rmlab.metrics.weighted import Statistic, Values
from rmlab.wording import counted

WEIGHTS_AT_ONCE = 1 << 21  # weights held in memory at once


class Rule(Enum):
    """How an interval follows from replicates."""

    PERCENTILE = "percentile"
    BASIC = "basic, cut to [0, 1]"
    BASIC_UNCUT = "basic"  # of what may be negative
    LESS_FLOOR = "recentred, the floor added above"


def cluster_weights(clusters: int, replicates: int, seed: int) -> Iterator[Floats]:
    """How often each cluster is drawn when as many are drawn with replacement as there are: weight_RC, in chunks of R, read-only."""
    chunk = max(1, WEIGHTS_AT_ONCE // max(clusters, 1))
    if replicates <= chunk:
        yield _all_weights(clusters, replicates, seed)
        return
    rng = np.random.default_rng(seed)
    for start in range(0, replicates, chunk):
        yield _weights(rng, clusters, min(chunk, replicates - start))


@lru_cache(maxsize=2)
def _all_weights(clusters: int, replicates: int, seed: int) -> Floats:
    """Those that fit into one chunk: all tables of a comparison share them, and to draw them is much of a bootstrap's time."""
    return _weights(np.random.default_rng(seed), clusters, replicates)


def _weights(rng: np.random.Generator, clusters: int, replicates: int) -> Floats:
    weight_RC = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=replicates).astype(float)
    weight_RC.flags.writeable = False
    return weight_RC


def bootstrap(statistic: Statistic, clusters: int, replicates: int, seed: int) -> Values:
    """Values of `replicates` resamples. Equal arguments give equal values, on any machine."""
    chunks = [statistic.values(weight_RC) for weight_RC in cluster_weights(clusters, replicates, seed)]
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def interval(
    estimate: float,
    value_R: Floats,
    rule: Rule = Rule.PERCENTILE,
    *,
    difference: bool = False,
    floor: float | None = None,
) -> tuple[float, float] | None:
    """95 % interval of one metric. Replicates where it is undefined are left out; None if all are,
    or the estimate is.

    difference: of the metric between two tables, which may be negative.
    floor: that was taken off the estimate, for Rule.LESS_FLOOR. All of it is bias where scores are calibrated and none of it
    where they are far off, so the interval reaches up by the floor: it holds the error that a table without end would show.

    Where the bootstrap is biased by more than it spreads (the ECE of scores that were just calibrated: hardly anything is
    left, and every resample has more), all of it lies on one side of the estimate, and so would the interval. It then ends
    at the estimate, which makes it longer and never shorter.
    """
    defined = value_R[~np.isnan(value_R)]
    if not len(defined) or np.isnan(estimate):
        return None
    low, high = (float(q) for q in np.quantile(defined, [0.025, 0.975]))
    if rule is not Rule.PERCENTILE and (difference or rule is Rule.LESS_FLOOR):
        shift = estimate - float(defined.mean())
        low, high = low + shift, high + shift + (floor or 0.0)
    elif rule is not Rule.PERCENTILE:
        low, high = 2 * estimate - high, 2 * estimate - low
        if rule is Rule.BASIC:
            low, high = max(low, 0.0), min(high, 1.0)
    return min(low, estimate), max(high, estimate)


REPLICATES = 2000
FEW_CLUSTERS = 10
"""Of fewer clusters a bootstrap's interval is too narrow, and may be of no width at all."""


@dataclass(frozen=True)
class Difference:
    """A mean over tasks now minus then, on the tasks of both, with the 2.5 % and 97.5 % quantiles of its cluster bootstrap."""

    before: float
    after: float
    difference: float
    low: float
    high: float
    tasks: int
    clusters: int | None = None  # a record of an earlier version has none

    @property
    def falls(self) -> bool:
        """Lower than before, one-sided at 97.5 %."""
        return self.high < 0

    @property
    def detectable(self) -> float:
        """The fall, above 0, that `falls` says with a power of 80 %."""
        return detectable_fall(self.low, self.high)


def prediction_interval(middle: float, deviation: float, degrees: int, values: int) -> tuple[float, float]:
    """Where one further value should lie in 95 % of cases (two-sided, by t), beside the mean of `values` independent ones.

    deviation: their standard deviation, of so many degrees of freedom.
    """
    from scipy import stats  # heavy, and most users of this module need no t

    half = float(stats.t.ppf(0.975, degrees) * deviation * (1 + 1 / values) ** 0.5)
    return middle - half, middle + half


def detectable_fall(low: float, high: float) -> float:
    """The fall, above 0, by which a 95 % interval of this width lies below 0 with a probability of 80 %."""
    return float((high - low) / 2 * (1 + ndtri(0.8) / ndtri(0.975)))


def paired_difference(
    before: Mapping[str, float], after: Mapping[str, float], cluster_of: Mapping[str, str], seed: int = 0
) -> Difference:
    """Every task alike. before, after: task_id to its value at a look. Raises DataError where no task is in both."""
    tasks = sorted(before.keys() & after.keys())
    if not tasks:
        raise DataError("the two looks have no task in common: there is nothing to compare")
    cluster_K = np.array([cluster_of[task] for task in tasks])
    before_K, after_K = np.array([before[t] for t in tasks]), np.array([after[t] for t in tasks])
    difference, low, high = row_difference((before_K, cluster_K), (after_K, cluster_K), seed)
    return Difference(
        float(before_K.mean()), float(after_K.mean()), difference, low, high, len(tasks), len(set(cluster_K.tolist()))
    )


def too_few(difference: Mapping[str, Any]) -> str:
    """Why nothing is said of the interval of a `Difference` (as JSON has it): `4 tasks are too few for an interval`; empty where
    there are enough."""
    tasks = int(difference["tasks"])
    clusters = difference.get("clusters") or tasks
    if clusters >= FEW_CLUSTERS:
        return ""
    of_clusters = f" of {counted(clusters, 'cluster')}" if clusters != tasks else ""
    return f"{counted(tasks, 'task')}{of_clusters} {'is' if tasks == 1 else 'are'} too few for an interval"


def row_difference(
    before: tuple[ArrayLike, NDArray[np.str_]], after: tuple[ArrayLike, NDArray[np.str_]], seed: int = 0
) -> tuple[float, float, float]:
    """Every row alike: the mean of the rows of `after` minus that of `before`, and the ends of its interval.

    before, after: the rows' values, none missing, and their clusters; the rows need not be as many. Raises DataError without rows.
    """
    sides = [(np.asarray(value_N, dtype=np.float64), cluster_N) for value_N, cluster_N in (before, after)]
    if not all(len(value_N) for value_N, _ in sides):
        raise DataError("a look has no rows: there is nothing to compare")
    names, code_N = np.unique(np.concatenate([cluster_N for _, cluster_N in sides]), return_inverse=True)
    codes = np.split(code_N, [len(sides[0][0])])
    sums = [np.bincount(code, value_N, len(names)) for code, (value_N, _) in zip(codes, sides, strict=True)]
    counts = [np.bincount(code, minlength=len(names)).astype(float) for code in codes]

    def mean(weight_RC: Floats, side: int) -> Floats:
        return ratio(weight_RC @ sums[side], weight_RC @ counts[side])

    value_R = np.concatenate(
        [mean(weight_RC, 1) - mean(weight_RC, 0) for weight_RC in cluster_weights(len(names), REPLICATES, seed)]
    )
    difference = float(sides[1][0].mean() - sides[0][0].mean())
    low, high = interval(difference, value_R) or (np.nan, np.nan)
    return difference, low, high
