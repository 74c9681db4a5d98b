"""Is one verifier better than another on the same trajectories?

Paired: both tables score the same attempts, so the luck with tasks that they share cancels. If there is no difference, it
does not matter which of the two scores of a cluster is called A; the test swaps them for whole clusters at random.

Where rows of different clusters are ordered or binned together (pooled AUC, AURC, every ECE), a swap would mix two
calibrations: with equal ranks but different calibration it never rejects, with equal calibration errors of opposite sign too often.
These metrics use a bootstrap test: how often is a replicate as far from the replicates' mean as the difference is from 0?
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rmlab.errors import DataError
from rmlab.metrics import registry
from rmlab.metrics.noise_floor import noise_floor_task
from rmlab.metrics.table import Floats, table
from rmlab.metrics.uncertainty import bootstrap, interval
from rmlab.metrics.weighted import Combined, Statistic, Values
from rmlab.scores.scores import Scores

SWAPS = 10_000
REPLICATES = 2000
WEIGHTS_AT_ONCE = 1 << 21


def compare(
    a: Scores,
    b: Scores,
    *,
    swaps: int = SWAPS,
    replicates: int = REPLICATES,
    seed: int = 0,
    kinds: Sequence[type[Statistic]] | None = None,
) -> dict[str, Any]:
    """{trajectories, clusters, swaps, replicates, seed, metrics}: what A is above B.

    metrics: name -> {a, b, difference (a - b), ci95 of the difference, p}; curves nested by k; undefined = None.
    ci95: paired bootstrap of clusters. p: two-sided, at least 1 / (swaps + 1); where rows are ordered or binned across clusters, of
    the bootstrap, at least 1 / (replicates + 1). Both are None where the metric rests on fewer than two clusters.
    ece_less_floor: each table's ECE less its own floor.
    kinds: the statistics whose metrics are compared, by default all of the registry.

    Raises DataError unless both tables hold the same trajectories with the same labels, one of them at least labelled.
    """
    b = aligned(a, b)
    sides = [table(own) for own in (a, b)]
    clusters = sides[0].clusters
    if not clusters:
        raise DataError("none of the attempts has a label: there is nothing to compare")
    kinds = registry.statistics(compared=True) if kinds is None else kinds
    statistics = [Combined(side, kinds) for side in sides]
    of_a, of_b = (statistic.values(np.ones((1, clusters))) for statistic in statistics)
    drawn_a, drawn_b = (
        bootstrap(statistic, clusters, replicates, seed) for statistic in statistics
    )  # the same clusters
    drawn = {name: drawn_a[name] - drawn_b[name] for name in drawn_a}
    swapped = _swapped(a, b, [kind for kind in kinds if not kind.across_clusters], swaps, seed)
    metrics: dict[str, Any] = {}

    def thin(name: str) -> bool:
        return min(side.contributing.get(name, clusters) for side in statistics) < 2

    for name in of_a:
        if name in statistics[0].sizes:
            of_j = zip(*(values[name].T for values in (of_a, of_b, drawn, swapped)), strict=True)
            metrics[name] = {
                str(k): _result(name, *curve, thin=thin(name))
                for k, curve in zip(statistics[0].sizes[name], of_j, strict=True)
            }
        else:
            metrics[name] = _result(name, of_a[name], of_b[name], drawn[name], swapped.get(name), thin=thin(name))
    if (name := "ece_width_10") in metrics:
        floor_a, floor_b = (noise_floor_task(side).mean for side in sides)
        less_a, less_b = of_a[name] - floor_a, of_b[name] - floor_b
        metrics["ece_less_floor"] = _result("ece_less_floor", less_a, less_b, drawn[name], None, thin=thin(name))
    return {
        "trajectories": len(sides[0].label_N),
        "clusters": clusters,
        "swaps": swaps,
        "replicates": replicates,
        "seed": seed,
        "metrics": metrics,
    }


def aligned(a: Scores, b: Scores) -> Scores:
    """The rows of b in the order of a. Raises DataError where the two do not hold the same trajectories with the same labels.

    Attempts are matched by trajectory_id; tables without it must have the same tasks and policies row by row.
    """
    if len(a) != len(b):
        raise DataError(
            f"the tables hold {len(a)} and {len(b)} attempts: only tables on the same trajectories can be compared"
        )
    named = (a.trajectory_id != "").all() and (b.trajectory_id != "").all()
    if named and not np.array_equal(a.trajectory_id, b.trajectory_id):  # tables of one sweep mostly have one order
        order_a, order_b = np.argsort(a.trajectory_id), np.argsort(b.trajectory_id)
        differ = a.trajectory_id[order_a] != b.trajectory_id[order_b]
        if differ.any():
            name = a.trajectory_id[order_a][int(np.flatnonzero(differ)[0])]
            raise DataError(
                f"{int(differ.sum())} or more trajectories are in one table only (near {name}): "
                "only tables on the same trajectories can be compared"
            )
        b = b.select(order_b[np.argsort(order_a)])
    for name in ("task_id", "policy", "cluster", "resolved"):
        mine, other = getattr(a, name), getattr(b, name)
        differ = (mine != other) & ~((mine != mine) & (other != other))
        if differ.any():
            row = int(np.flatnonzero(differ)[0])
            raise DataError(
                f"row {row + 1} (task {a.task_id[row]}, trajectory {a.trajectory_id[row] or 'without id'}): {name} is "
                f"{mine[row]} in one table and {other[row]} in the other: only tables on the same trajectories can be compared"
            )
    return b


def _stacked(a: Scores, b: Scores) -> Scores:
    """Both tables as one, tasks and clusters told apart: A's clusters first, B's after them in the same order."""

    def both(name: str, prefix: str = "") -> Any:
        if not prefix:
            return np.concatenate([getattr(a, name), getattr(b, name)])
        return np.concatenate(
            [np.char.add(f"{letter}{prefix}", getattr(scores, name)) for letter, scores in (("a", a), ("b", b))]
        )

    return Scores.of(
        both("task_id", "/"),
        both("score"),
        both("resolved"),
        policy=both("policy"),
        cluster=both("cluster", "/"),
        patch=both("patch"),
    )


def _swapped(a: Scores, b: Scores, kinds: Sequence[type[Statistic]], swaps: int, seed: int) -> Values:
    """Differences, A - B, where each cluster's scores change sides or do not, at random."""
    both = table(_stacked(a, b))
    statistic, clusters, rng = Combined(both, kinds), both.clusters // 2, np.random.default_rng(seed)
    chunk = max(1, WEIGHTS_AT_ONCE // max(clusters, 1))
    chunks: list[Values] = []
    for start in range(0, swaps, chunk):
        swap_RC = rng.integers(0, 2, (min(chunk, swaps - start), clusters)).astype(float)
        this, other = (statistic.values(np.hstack(pair)) for pair in ([1 - swap_RC, swap_RC], [swap_RC, 1 - swap_RC]))
        chunks.append({name: this[name] - other[name] for name in this})
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]} if chunks else {}


def _result(
    name: str, a_1: Floats, b_1: Floats, drawn_R: Floats, swapped_R: Floats | None, *, thin: bool
) -> dict[str, Any]:
    """swapped_R: None where the bootstrap is the test. thin: rests on too few clusters for an interval or a test."""
    a, b = float(a_1[0]), float(b_1[0])
    difference = a - b
    if np.isnan(difference):
        return {
            "a": None if np.isnan(a) else a,
            "b": None if np.isnan(b) else b,
            "difference": None,
            "ci95": None,
            "p": None,
        }
    if thin:
        return {"a": a, "b": b, "difference": difference, "ci95": None, "p": None}
    ends = interval(difference, drawn_R, registry.named(name).rule, difference=True)
    chance_R = drawn_R - np.nanmean(drawn_R) if swapped_R is None and ends is not None else swapped_R
    if chance_R is None:
        return {"a": a, "b": b, "difference": difference, "ci95": None, "p": None}
    defined_R = chance_R[~np.isnan(chance_R)]
    as_large = int((np.abs(defined_R) >= abs(difference) - 1e-12).sum())
    return {
        "a": a,
        "b": b,
        "difference": difference,
        "ci95": None if ends is None else list(ends),
        "p": (1 + as_large) / (1 + len(defined_R)),
    }
