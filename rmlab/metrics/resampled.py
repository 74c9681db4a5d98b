"""Every metric of a table under integer weights of its clusters, for many weightings at once.

A bootstrap replicate gives each cluster the number of times it was drawn; copies of one task count as different tasks.
Most metrics are functions of sums over clusters, so a thousand replicates are one matrix product; pooled AUC and
equal-mass bins take one pass over the sorted rows. Each value equals the definition (best_of_k.py, discrimination.py,
calibration.py, advantage.py) on the table that is really resampled, the recalibration's coefficients nearly: the tests
compare them.

Axes: R weightings, C clusters, P policies, J sizes of k, N rows.
"""

from collections.abc import Callable, Sequence

import numpy as np

from rmlab.metrics.advantage import centred, cosine_all
from rmlab.metrics.best_of_k import pass_at_k_of_groups, rm_at_k_of_groups, sizes_of_k
from rmlab.metrics.calibration import (
    Bins,
    binned,
    ece,
    ece_debiased,
    log_loss_rows,
    logit,
    mce,
    prior_corrected,
    top_label,
    width_bin,
)
from rmlab.metrics.discrimination import pairs_in_groups
from rmlab.metrics.recalibration import recalibrate
from rmlab.metrics.risk_coverage import aurc_of_weighted, picks
from rmlab.metrics.table import Codes, Floats, Table, mean_where_defined, ratio, sum_by

Values = dict[str, Floats]
"""Metric name to value_R, or to value_RJ for a curve over k; NaN = undefined under that weighting."""
Part = Callable[[Floats], Values]
"""From weight_RC (whole numbers, float64) to values."""

ROWS_AT_ONCE = 1 << 18  # rows × weightings that one pass over the sorted rows holds in memory


def row_means(table: Table) -> Part:
    """score_rate, resolved_rate, brier, log_loss."""
    rows = table.scored
    columns = [
        (table, np.ones(len(table.label_N))),
        (table, table.label_N),
        (rows, np.ones(len(rows.label_N))),
        (rows, (rows.score_N - rows.label_N) ** 2),
        (rows, log_loss_rows(rows.score_N, rows.label_N)),
    ]
    sum_C5 = np.column_stack([sum_by(t.cluster_N, value_N, t.clusters) for t, value_N in columns])

    def values(weight_RC: Floats) -> Values:
        labelled, resolved, scored, squared, log_loss = (weight_RC @ sum_C5).T
        return {
            "score_rate": ratio(scored, labelled),
            "resolved_rate": ratio(resolved, labelled),
            "brier": ratio(squared, scored),
            "log_loss": ratio(log_loss, scored),
        }

    return values


def best_of_k(table: Table) -> Part:
    """rm_at_k and pass_at_k as curves over the sizes of k up to the most attempts."""
    k_J = sizes_of_k(table.most_attempts)
    value_GJ2 = np.stack(
        [
            rm_at_k_of_groups(table.score_N, table.label_N, table.group_N, k_J),
            pass_at_k_of_groups(table.label_N, table.group_N, k_J),
        ],
        axis=-1,
    )
    value_CPJ2 = _per_cluster(table, value_GJ2)
    count_CP = _per_cluster(table, np.ones(table.groups))

    def values(weight_RC: Floats) -> Values:
        sum_RPJ2 = np.tensordot(weight_RC, value_CPJ2, 1)
        count_RP = weight_RC @ count_CP
        mean_RPJ2 = ratio(sum_RPJ2, np.broadcast_to(count_RP[..., None, None], sum_RPJ2.shape))
        mean_RJ2 = mean_where_defined(np.moveaxis(mean_RPJ2, 1, -1))
        return {"rm_at_k": mean_RJ2[..., 0], "pass_at_k": mean_RJ2[..., 1]}

    return values


def best_of_k_across(table: Table) -> Part:
    """rm_at_k_across as a curve over the sizes of k up to the most attempts at a task; nothing where there is one policy."""
    if table.policies < 2:
        return lambda weight_RC: {}
    k_J = sizes_of_k(table.most_attempts_across)
    value_TJ = rm_at_k_of_groups(table.score_N, table.label_N, table.task_N, k_J)
    value_CJ = np.stack([sum_by(table.cluster_T, column_T, table.clusters) for column_T in value_TJ.T], axis=-1)
    tasks_C = np.bincount(table.cluster_T, minlength=table.clusters).astype(float)

    def values(weight_RC: Floats) -> Values:
        sum_RJ = weight_RC @ value_CJ
        return {"rm_at_k_across": ratio(sum_RJ, np.broadcast_to((weight_RC @ tasks_C)[:, None], sum_RJ.shape))}

    return values


def within_tasks(table: Table) -> Part:
    """auc_within_task."""
    rows = table.scored
    pairs = pairs_in_groups(rows.score_N, rows.label_N, rows.group_N, rows.groups)
    won_CP, all_CP = _per_cluster(table, pairs.won_G), _per_cluster(table, pairs.all_G)

    def values(weight_RC: Floats) -> Values:
        return {"auc_within_task": mean_where_defined(ratio(weight_RC @ won_CP, weight_RC @ all_CP))}

    return values


def advantages(table: Table) -> Part:
    """advantage_cosine, advantage_cosine_all, advantage_noise_share."""
    rows = table.scored
    groups = centred(rows.score_N, rows.label_N, rows.group_N, rows.groups)
    mixed_G = groups.mixed_G
    sums_CP = [
        _per_cluster(table, value_G)
        for value_G in (
            groups.cosine_G * mixed_G,
            mixed_G,
            groups.product_G,
            groups.score_energy_G,
            groups.label_energy_G,
            groups.score_energy_G * (1 - mixed_G),
        )
    ]

    def values(weight_RC: Floats) -> Values:
        cosine, mixed, product, score_energy, label_energy, noise = (weight_RC @ sum_CP for sum_CP in sums_CP)
        return {
            "advantage_cosine": mean_where_defined(ratio(cosine, mixed)),
            "advantage_cosine_all": mean_where_defined(cosine_all(product, score_energy, label_energy)),
            "advantage_noise_share": mean_where_defined(ratio(noise, score_energy)),
        }

    return values


def width_bins(table: Table) -> Part:
    """ece_width_10, ece_width_15, mce, ece_confidence."""
    rows = table.scored
    ten_SCB, fifteen_SCB = (_width_sums(rows, rows.score_N, rows.label_N, bins) for bins in (10, 15))
    confidence_SCB = _width_sums(rows, *top_label(rows.score_N, rows.label_N), 10)

    def values(weight_RC: Floats) -> Values:
        ten, fifteen, confidence = (Bins(*(weight_RC @ sum_SCB)) for sum_SCB in (ten_SCB, fifteen_SCB, confidence_SCB))
        return {
            "ece_width_10": ece(ten),
            "ece_width_15": ece(fifteen),
            "mce": mce(ten),
            "ece_confidence": ece(confidence),
        }

    return values


def prior_corrected_bins(table: Table, prior_train: float, prior_validation: float) -> Part:
    """ece_prior_corrected."""
    rows = table.scored
    ten_SCB = _width_sums(rows, prior_corrected(rows.score_N, prior_train, prior_validation), rows.label_N, 10)
    return lambda weight_RC: {"ece_prior_corrected": ece(Bins(*(weight_RC @ ten_SCB)))}


def recalibrations(table: Table) -> Part:
    """calibration_intercept, calibration_slope: one Newton step from the table's own fit, not a fit for every weighting.

    So it holds for weightings near 1 (a bootstrap), not for 0 and 1 (a comparison).
    """
    rows = table.scored
    fit = recalibrate(rows.score_N, rows.label_N)
    logit_N, spread_N = logit(rows.score_N), fit.fitted_N * (1 - fit.fitted_N)
    residual_N = rows.label_N - fit.fitted_N
    sum_C5 = np.column_stack(
        [
            sum_by(rows.cluster_N, value_N, rows.clusters)
            for value_N in (spread_N, spread_N * logit_N, spread_N * logit_N**2, residual_N, residual_N * logit_N)
        ]
    )

    def values(weight_RC: Floats) -> Values:
        h00, h01, h11, g0, g1 = (weight_RC @ sum_C5).T
        determinant = h00 * h11 - h01**2
        return {
            "calibration_intercept": fit.intercept + ratio(h11 * g0 - h01 * g1, determinant),
            "calibration_slope": fit.slope + ratio(h00 * g1 - h01 * g0, determinant),
        }

    return values


def _width_sums(rows: Table, score_N: Floats, label_N: Floats, bins: int) -> Floats:
    """Rows, scores and labels of each cluster and equal-width bin, shape (3, C, B)."""
    flat = binned(score_N, label_N, rows.cluster_N * bins + width_bin(score_N, bins), rows.clusters * bins)
    return np.array([flat.count, flat.score, flat.label]).reshape(3, rows.clusters, bins)


def sorted_rows(table: Table) -> Part:
    """auc_pooled, auc_between_tasks, within_pair_share, ece_mass_10, ece_debiased: one pass over the rows by score."""
    rows = table.scored
    order = np.argsort(rows.score_N, kind="stable")
    score_N, label_N, cluster_N = rows.score_N[order], rows.label_N[order], rows.cluster_N[order]
    # Rows of one score are a step; edge_E are where steps begin, and the end.
    edge_E = (
        np.r_[np.flatnonzero(np.r_[True, np.diff(score_N) != 0]), len(score_N)]
        if len(score_N)
        else np.zeros(1, dtype=int)
    )
    task = pairs_in_groups(rows.score_N, rows.label_N, rows.task_N, rows.tasks)
    within_C2 = np.column_stack(
        [sum_by(rows.cluster_T, value_T, rows.clusters) for value_T in (task.won_G, task.all_G)]
    )

    def values(weight_RC: Floats) -> Values:
        size = max(1, ROWS_AT_ONCE // max(len(score_N), 1))
        chunks = [
            _one_pass(weight_RC[i : i + size][:, cluster_N], score_N, label_N, edge_E)
            for i in range(0, len(weight_RC), size)
        ]
        found = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
        won, pairs = found.pop("won"), found.pop("pairs")
        won_within, within = (weight_RC @ within_C2).T
        return found | {
            "auc_pooled": ratio(won, pairs),
            "auc_between_tasks": ratio(won - won_within, pairs - within),
            "within_pair_share": ratio(within, pairs),
        }

    return values


def confidence_order(table: Table) -> Part:
    """aurc, aurc_picks: passes over attempts and picks from the most confident on."""
    rows = table.scored
    confidence_N, right_N = top_label(rows.score_N, rows.label_N)
    best_G, picked_G, scored_G = picks(table)
    curves = {
        "aurc": (confidence_N, 1 - right_N, rows.cluster_N),
        "aurc_picks": (best_G[scored_G], 1 - picked_G[scored_G], table.cluster_G[scored_G]),
    }

    def aurc(weight_RC: Floats, confidence_N: Floats, error_N: Floats, cluster_N: Codes) -> Floats:
        order = np.argsort(-confidence_N, kind="stable")
        error_N, cluster_N = error_N[order], cluster_N[order]
        edge_E = (
            np.r_[np.flatnonzero(np.r_[True, np.diff(confidence_N[order]) != 0]), len(order)]
            if len(order)
            else np.zeros(1, dtype=int)
        )
        size = max(1, ROWS_AT_ONCE // max(len(order), 1))
        found = []
        for i in range(0, len(weight_RC), size):
            weight_RN = weight_RC[i : i + size][:, cluster_N]
            found.append(aurc_of_weighted(_below(weight_RN, edge_E), _below(weight_RN * error_N, edge_E)))
        return np.concatenate(found)

    return lambda weight_RC: {name: aurc(weight_RC, *columns) for name, columns in curves.items()}


ALL: tuple[Callable[[Table], Part], ...] = (
    row_means,
    best_of_k,
    best_of_k_across,
    within_tasks,
    sorted_rows,
    width_bins,
    confidence_order,
    advantages,
)
"""The exact ones."""


def joined(table: Table, makers: Sequence[Callable[[Table], Part]] = ALL) -> Part:
    """One part that gives the values of several."""
    parts = [make(table) for make in makers]

    def values(weight_RC: Floats) -> Values:
        return {name: value for part in parts for name, value in part(weight_RC).items()}

    return values


def _one_pass(weight_RN: Floats, score_N: Floats, label_N: Floats, edge_E: Codes) -> Values:
    below_SRE = np.stack(
        [_below(value_RN, edge_E) for value_RN in (weight_RN, weight_RN * score_N, weight_RN * label_N)]
    )
    below_RE, _, resolved_RE = below_SRE
    unresolved_RE = below_RE - resolved_RE
    return {
        "won": (np.diff(resolved_RE) * (unresolved_RE[:, :-1] + unresolved_RE[:, 1:])).sum(axis=1) / 2,
        "pairs": resolved_RE[:, -1] * unresolved_RE[:, -1],
        "ece_mass_10": ece(_mass_bins(below_SRE, 10)),
        "ece_debiased": ece_debiased(_mass_bins(below_SRE, 15)),
    }


def _below(value_RN: Floats, edge_E: Codes) -> Floats:
    """Sum of the rows before each edge."""
    cumulated = np.zeros((len(value_RN), value_RN.shape[1] + 1))
    np.cumsum(value_RN, axis=1, out=cumulated[:, 1:])
    return cumulated[:, edge_E]


def _mass_bins(below_SRE: Floats, bins: int) -> Bins:
    """Equal-mass bins of each weighting: a step goes to bin floor(i·bins/n), i = rows below it, so bins are runs of steps."""
    below_RE = below_SRE[0]
    # Step e is in bin b or later where below·bins >= b·n: whole numbers, so the comparison is exact.
    edges_RB = np.array(
        [np.searchsorted(below_E[:-1] * bins, np.arange(bins + 1) * below_E[-1], side="left") for below_E in below_RE]
    )
    edges_RB[:, -1] = below_RE.shape[1] - 1
    at_SRB = np.take_along_axis(below_SRE, edges_RB[None], axis=2)
    return Bins(*np.diff(at_SRB, axis=-1))


def _per_cluster(table: Table, value_G: Floats) -> Floats:
    """Sums of group values over the groups of each cluster and policy: (G, ...) to (C, P, ...)."""
    sum_CP = np.zeros((table.clusters, table.policies, *value_G.shape[1:]))
    np.add.at(sum_CP, (table.cluster_G, table.policy_G), value_G)
    return sum_CP
