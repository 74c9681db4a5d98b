"""Selection and discrimination by patch: attempts at one task with the same patch succeed or fail together.

RM@k over attempts can fall with k even if the AUC is high, because copies of the right patch count as one candidate while wrong
patches are many. So the same metrics are computed over distinct patches, and for the patch with the largest sum of scores
(score-weighted majority). An attempt without a patch counts as a patch of its own.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rmlab.metrics.best_of_k import rm_at_k_of_groups, sizes_of_k, weighted_vote
from rmlab.metrics.discrimination import pairs_in_groups
from rmlab.metrics.table import Codes, Floats, Table, mean_where_defined, ratio, sum_by
from rmlab.metrics.weighted import GroupMeans, Statistic, Values, contributors, per_cluster


@dataclass(frozen=True)
class Patches:
    """U distinct patches. group_U: the (task, policy) group of each. score_U: mean score of its scored attempts, NaN = none is.
    label_U: mean label of its attempts; between 0 and 1 where they have both labels."""

    group_U: Codes
    score_U: Floats
    label_U: Floats

    @property
    def mixed_U(self) -> NDArray[np.bool_]:
        """Whether the attempts of a patch have both labels."""
        return (self.label_U > 0) & (self.label_U < 1)


def patches(table: Table) -> Patches | None:
    """The patches of a table; None where it has none."""
    if table.patch_N is None:
        return None
    count = int(table.patch_N.max(initial=-1)) + 1
    first_U = np.unique(table.patch_N, return_index=True)[1]
    score_U = np.full(count, np.nan)
    if len(table.scored.label_N):
        rows = table.scored
        codes = np.asarray(rows.patch_N)
        mean_U = ratio(sum_by(codes, rows.score_N, count), np.bincount(codes, minlength=count).astype(float))
        score_U = np.round(mean_U, 12)  # as sums are compared: the mean of 0.3, 0.2 and 0.1 ties with 0.2
    label_U = sum_by(table.patch_N, table.label_N, count) / np.bincount(table.patch_N, minlength=count)
    return Patches(table.group_N[first_U], score_U, label_U)


class WithinTasksOfPatches(Statistic):
    """auc_within_task_patches: patches with both labels, and without a score, are left out."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        distinct = patches(table)
        self.sums_CP: list[Floats] = []
        if distinct is not None:
            keep_U = ~distinct.mixed_U & ~np.isnan(distinct.score_U)
            columns = (distinct.score_U[keep_U], distinct.label_U[keep_U], distinct.group_U[keep_U])
            pairs = pairs_in_groups(*columns, table.groups)
            self.sums_CP = [per_cluster(table, value_G) for value_G in (pairs.won_G, pairs.all_G)]
            self.contributing["auc_within_task_patches"] = contributors(self.sums_CP[1])

    def values(self, weight_RC: Floats) -> Values:
        if not self.sums_CP:
            return {}
        won_RP, all_RP = (weight_RC @ sum_CP for sum_CP in self.sums_CP)
        return {"auc_within_task_patches": mean_where_defined(ratio(won_RP, all_RP))}


class BestOfPatches(GroupMeans):
    """rm_at_k_patches: RM@k where k distinct patches are drawn; that of a patch with both labels counts as its mean label."""

    def __init__(self, table: Table) -> None:
        distinct = patches(table)
        if distinct is None:
            super().__init__(table, {}, [])
            return
        k_J = sizes_of_k(int(np.bincount(distinct.group_U).max(initial=0)))
        curve_GJ = rm_at_k_of_groups(distinct.score_U, distinct.label_U, distinct.group_U, k_J)
        super().__init__(table, {"rm_at_k_patches": curve_GJ}, k_J)


class WeightedMajority(GroupMeans):
    """rm_at_k_weighted: the mean label of the patch with the largest sum of scores among k attempts, ties averaged."""

    def __init__(self, table: Table) -> None:
        if table.patch_N is None:
            super().__init__(table, {}, [])
            return
        super().__init__(table, {"rm_at_k_weighted": votes(table)[0]}, sizes_of_k(table.most_attempts))


@lru_cache(maxsize=1)  # asked for the value, its error and its interval
def votes(table: Table) -> tuple[Floats, Floats]:
    """(value_GJ of the weighted majority, variance_GJ by drawing) for the sizes of k. The table has patches."""
    k_J = sizes_of_k(table.most_attempts)
    rng = np.random.default_rng(0)
    value_GJ, variance_GJ = np.zeros((table.groups, len(k_J))), np.zeros((table.groups, len(k_J)))
    first_G = np.searchsorted(table.group_N, np.arange(table.groups + 1))
    for g, (start, end) in enumerate(pairwise(first_G)):
        _, patch_N = np.unique(np.asarray(table.patch_N)[start:end], return_inverse=True)
        value_GJ[g], variance_GJ[g] = weighted_vote(
            table.score_N[start:end], table.label_N[start:end], patch_N, k_J, rng
        )
    return value_GJ, variance_GJ


def vote_error(table: Table) -> list[float]:
    """Standard error of rm_at_k_weighted by drawing for the sizes of k; 0 where it is exact."""
    _, variance_GJ = votes(table)
    groups_P = np.bincount(table.policy_G, minlength=table.policies)
    mean_GJ = variance_GJ / groups_P[table.policy_G][:, None] ** 2
    error_J: list[float] = (np.sqrt(mean_GJ.sum(axis=0)) / table.policies).tolist()
    return error_J
