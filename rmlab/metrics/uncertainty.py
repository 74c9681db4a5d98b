"""How far may a metric be off because these tasks were drawn and not others?

Attempts at one task (and at near-copies of its function, or at one repository) stand or fall together, so whole
clusters are resampled, never rows. Intervals are percentile intervals, except for calibration errors: their bootstrap
is biased upwards (resampled bins are noisier), which basic intervals turn around.
"""

from collections.abc import Iterator
from enum import Enum

import numpy as np

from rmlab.metrics.table import Floats
from rmlab.metrics.weighted import Statistic, Values

WEIGHTS_AT_ONCE = 1 << 21  # weights held in memory at once


class Rule(Enum):
    """How an interval follows from replicates."""

    PERCENTILE = "percentile"
    BASIC = "basic, cut to [0, 1]"
    BASIC_UNCUT = "basic"  # of what may be negative


def cluster_weights(clusters: int, replicates: int, seed: int) -> Iterator[Floats]:
    """How often each cluster is drawn when as many are drawn with replacement as there are: weight_RC, in chunks of R."""
    rng = np.random.default_rng(seed)
    chunk = max(1, WEIGHTS_AT_ONCE // max(clusters, 1))
    for start in range(0, replicates, chunk):
        size = min(chunk, replicates - start)
        yield rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=size).astype(float)


def bootstrap(statistic: Statistic, clusters: int, replicates: int, seed: int) -> Values:
    """Values of `replicates` resamples. Equal arguments give equal values, on any machine."""
    chunks = [statistic.values(weight_RC) for weight_RC in cluster_weights(clusters, replicates, seed)]
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def interval(
    estimate: float, value_R: Floats, rule: Rule = Rule.PERCENTILE, *, difference: bool = False
) -> tuple[float, float] | None:
    """95 % interval of one metric. Replicates where it is undefined are left out; None if all are,
    or the estimate is. difference: of the metric between two tables, which may be negative."""
    defined = value_R[~np.isnan(value_R)]
    if not len(defined) or np.isnan(estimate):
        return None
    low, high = (float(q) for q in np.quantile(defined, [0.025, 0.975]))
    if rule is Rule.PERCENTILE:
        return low, high
    low, high = 2 * estimate - high, 2 * estimate - low
    return (
        (low, high) if difference or rule is Rule.BASIC_UNCUT else (min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0))
    )
