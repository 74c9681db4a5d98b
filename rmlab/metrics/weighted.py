"""Metrics under integer weights of a table's clusters, for many weightings at once: the statistics that the registry names.

A bootstrap replicate gives each cluster the number of times it was drawn; copies of one task count as different tasks.
Most metrics are functions of sums over clusters, so a thousand replicates are one matrix product; weighted_sorted.py
has those that need the rows in order. Each value equals the definition (best_of_k.py, discrimination.py,
calibration.py) on the table that is actually resampled; for the coefficients of the recalibration this holds approximately.
The tests compare them.

Axes: R weightings, C clusters, P policies, J sizes of k, N rows.
"""

from collections.abc import Sequence

import numpy as np

from rmlab.metrics.best_of_k import pass_at_k_of_groups, rm_at_k_of_groups, sizes_of_k
from rmlab.metrics.calibration import (
    Bins,
    binned,
    ece,
    log_loss_rows,
    logit,
    mce,
    prior_corrected,
    top_label,
    width_bin,
)
from rmlab.metrics.discrimination import centred, cosine_all, pairs_in_groups
from rmlab.metrics.recalibration import recalibrate
from rmlab.metrics.table import Floats, Table, mean_where_defined, ratio, sum_by

Values = dict[str, Floats]
"""Metric name to value_R, or to value_RJ for a curve over k; NaN = undefined under that weighting."""


class Statistic:
    """Metrics of one table that are computed together. What does not depend on the weights is computed when it is made.

    sizes: the k of each metric that is a curve, by its name.
    contributing: clusters that a metric rests on, by its name; a metric that rests on all of them is not in it.
    across_clusters: whether rows of different clusters are ordered or binned together, so that the metric is no sum over clusters.
    """

    across_clusters = False

    def __init__(self, table: Table) -> None:
        self.sizes: dict[str, list[int]] = {}
        self.contributing: dict[str, int] = {}

    def values(self, weight_RC: Floats) -> Values:
        """weight_RC: whole numbers, float64. A metric that this table cannot have (of several policies, ...) is left out."""
        raise NotImplementedError


class Combined(Statistic):
    """The values of several statistics."""

    def __init__(self, table: Table, kinds: Sequence[type[Statistic]]) -> None:
        super().__init__(table)
        self.parts = [kind(table) for kind in kinds]
        for part in self.parts:
            self.sizes |= part.sizes
            self.contributing |= part.contributing

    def values(self, weight_RC: Floats) -> Values:
        return {name: value for part in self.parts for name, value in part.values(weight_RC).items()}


class RowMeans(Statistic):
    """score_rate, resolved_rate, brier, log_loss."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        rows = table.scored
        columns = [
            (table, np.ones(len(table.label_N))),
            (table, table.label_N),
            (rows, np.ones(len(rows.label_N))),
            (rows, (rows.score_N - rows.label_N) ** 2),
            (rows, log_loss_rows(rows.score_N, rows.label_N)),
        ]
        self.sum_C5 = np.column_stack([sum_by(t.cluster_N, value_N, t.clusters) for t, value_N in columns])

    def values(self, weight_RC: Floats) -> Values:
        labelled, resolved, scored, squared, log_loss = (weight_RC @ self.sum_C5).T
        return {
            "score_rate": ratio(scored, labelled),
            "resolved_rate": ratio(resolved, labelled),
            "brier": ratio(squared, scored),
            "log_loss": ratio(log_loss, scored),
        }


class GroupMeans(Statistic):
    """Curves over k that are means over the (task, policy) groups of each policy, averaged over policies."""

    def __init__(self, table: Table, curves: dict[str, Floats], k_J: list[int]) -> None:
        """curves: name to value_GJ; none where the table cannot have them."""
        super().__init__(table)
        self.sizes = dict.fromkeys(curves, k_J)
        if not curves:
            return
        self.value_CPJM = per_cluster(table, np.stack(list(curves.values()), axis=-1))
        self.count_CP = per_cluster(table, np.ones(table.groups))

    def values(self, weight_RC: Floats) -> Values:
        if not self.sizes:
            return {}
        sum_RPJM = np.tensordot(weight_RC, self.value_CPJM, 1)
        count_RP = weight_RC @ self.count_CP
        mean_RPJM = ratio(sum_RPJM, np.broadcast_to(count_RP[..., None, None], sum_RPJM.shape))
        mean_RJM = mean_where_defined(np.moveaxis(mean_RPJM, 1, -1))
        return {name: mean_RJM[..., m] for m, name in enumerate(self.sizes)}


class BestOfK(GroupMeans):
    """rm_at_k and pass_at_k as curves over the sizes of k up to the most attempts."""

    def __init__(self, table: Table) -> None:
        k_J = sizes_of_k(table.most_attempts)
        curves = {
            "rm_at_k": rm_at_k_of_groups(table.score_N, table.label_N, table.group_N, k_J),
            "pass_at_k": pass_at_k_of_groups(table.label_N, table.group_N, k_J),
        }
        super().__init__(table, curves, k_J)


class BestOfKAcross(Statistic):
    """rm_at_k_across as a curve over the sizes of k up to the most attempts at a task; nothing where there is one policy."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        if table.policies < 2:
            return
        self.sizes = {"rm_at_k_across": sizes_of_k(table.most_attempts_across)}
        value_TJ = rm_at_k_of_groups(table.score_N, table.label_N, table.task_N, self.sizes["rm_at_k_across"])
        self.value_CJ = np.stack(
            [sum_by(table.cluster_T, column_T, table.clusters) for column_T in value_TJ.T], axis=-1
        )
        self.tasks_C = np.bincount(table.cluster_T, minlength=table.clusters).astype(float)

    def values(self, weight_RC: Floats) -> Values:
        if not self.sizes:
            return {}
        sum_RJ = weight_RC @ self.value_CJ
        return {"rm_at_k_across": ratio(sum_RJ, np.broadcast_to((weight_RC @ self.tasks_C)[:, None], sum_RJ.shape))}


class WithinTasks(Statistic):
    """auc_within_task, and auc_within_task_across where there are several policies."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        rows = table.scored
        pairs = pairs_in_groups(rows.score_N, rows.label_N, rows.group_N, rows.groups)
        self.won_CP, self.all_CP = per_cluster(table, pairs.won_G), per_cluster(table, pairs.all_G)
        self.across_C2 = pairs_by_cluster(table) if table.policies > 1 else None
        self.contributing["auc_within_task"] = contributors(self.all_CP)
        if self.across_C2 is not None:
            self.contributing["auc_within_task_across"] = contributors(self.across_C2[:, 1:])

    def values(self, weight_RC: Floats) -> Values:
        aucs = {"auc_within_task": mean_where_defined(ratio(weight_RC @ self.won_CP, weight_RC @ self.all_CP))}
        if self.across_C2 is not None:
            aucs["auc_within_task_across"] = ratio(*(weight_RC @ self.across_C2).T)
        return aucs


class AdvantageMeasures(Statistic):
    """advantage_cosine, advantage_cosine_all, advantage_noise_share."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        rows = table.scored
        groups = centred(rows.score_N, rows.label_N, rows.group_N, rows.groups)
        mixed_G = groups.mixed_G
        self.sums_CP = [
            per_cluster(table, value_G)
            for value_G in (
                groups.cosine_G * mixed_G,
                mixed_G,
                groups.product_G,
                groups.score_energy_G,
                groups.label_energy_G,
                groups.score_energy_G * (1 - mixed_G),
            )
        ]
        mixed, spread = (contributors(self.sums_CP[i]) for i in (1, 3))
        self.contributing = {"advantage_cosine": mixed, "advantage_cosine_all": mixed, "advantage_noise_share": spread}

    def values(self, weight_RC: Floats) -> Values:
        cosine, mixed, product, score_energy, label_energy, noise = (weight_RC @ sum_CP for sum_CP in self.sums_CP)
        return {
            "advantage_cosine": mean_where_defined(ratio(cosine, mixed)),
            "advantage_cosine_all": mean_where_defined(cosine_all(product, score_energy, label_energy)),
            "advantage_noise_share": mean_where_defined(ratio(noise, score_energy)),
        }


class WidthBins(Statistic):
    """ece_width_10, ece_width_15, mce, ece_confidence."""

    across_clusters = True

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        rows = table.scored
        self.ten_SCB, self.fifteen_SCB = (_width_sums(rows, rows.score_N, rows.label_N, bins) for bins in (10, 15))
        self.confidence_SCB = _width_sums(rows, *top_label(rows.score_N, rows.label_N), 10)

    def values(self, weight_RC: Floats) -> Values:
        ten, fifteen, confidence = (
            Bins(*(weight_RC @ sum_SCB)) for sum_SCB in (self.ten_SCB, self.fifteen_SCB, self.confidence_SCB)
        )
        return {
            "ece_width_10": ece(ten),
            "ece_width_15": ece(fifteen),
            "mce": mce(ten),
            "ece_confidence": ece(confidence),
        }


class PriorCorrectedBins(Statistic):
    """ece_prior_corrected; nothing where the table does not know both priors."""

    across_clusters = True

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        rows = table.scored
        self.ten_SCB = (
            None
            if rows.priors is None
            else _width_sums(rows, prior_corrected(rows.score_N, *rows.priors), rows.label_N, 10)
        )

    def values(self, weight_RC: Floats) -> Values:
        return {} if self.ten_SCB is None else {"ece_prior_corrected": ece(Bins(*(weight_RC @ self.ten_SCB)))}


class Recalibrations(Statistic):
    """calibration_intercept, calibration_slope: one Newton step from the table's own fit, not a fit for every weighting.

    So it holds for weightings near 1 (a bootstrap), not for 0 and 1 (a comparison).
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        rows = table.scored
        self.fit = recalibrate(rows.score_N, rows.label_N)
        logit_N, spread_N = logit(rows.score_N), self.fit.fitted_N * (1 - self.fit.fitted_N)
        residual_N = rows.label_N - self.fit.fitted_N
        self.sum_C5 = np.column_stack(
            [
                sum_by(rows.cluster_N, value_N, rows.clusters)
                for value_N in (spread_N, spread_N * logit_N, spread_N * logit_N**2, residual_N, residual_N * logit_N)
            ]
        )

    def values(self, weight_RC: Floats) -> Values:
        h00, h01, h11, g0, g1 = (weight_RC @ self.sum_C5).T
        determinant = h00 * h11 - h01**2
        return {
            "calibration_intercept": self.fit.intercept + ratio(h11 * g0 - h01 * g1, determinant),
            "calibration_slope": self.fit.slope + ratio(h00 * g1 - h01 * g0, determinant),
        }


def _width_sums(rows: Table, score_N: Floats, label_N: Floats, bins: int) -> Floats:
    """Rows, scores and labels of each cluster and equal-width bin, shape (3, C, B)."""
    flat = binned(score_N, label_N, rows.cluster_N * bins + width_bin(score_N, bins), rows.clusters * bins)
    return np.array([flat.count, flat.score, flat.label]).reshape(3, rows.clusters, bins)


def pairs_by_cluster(table: Table) -> Floats:
    """Pairs of one task and any policies that the resolved attempt wins, and all of them, of each cluster: shape (C, 2)."""
    rows = table.scored
    task = pairs_in_groups(rows.score_N, rows.label_N, rows.task_N, rows.tasks)
    return np.column_stack([sum_by(rows.cluster_T, value_T, rows.clusters) for value_T in (task.won_G, task.all_G)])


def contributors(count_CP: Floats) -> int:
    """Clusters with anything to count. Where there is only one, resamples that draw it are all alike and the others undefined."""
    return int((count_CP > 0).any(axis=1).sum())


def per_cluster(table: Table, value_G: Floats) -> Floats:
    """Sums of group values over the groups of each cluster and policy: (G, ...) to (C, P, ...)."""
    sum_CP = np.zeros((table.clusters, table.policies, *value_G.shape[1:]))
    np.add.at(sum_CP, (table.cluster_G, table.policy_G), value_G)
    return sum_CP
