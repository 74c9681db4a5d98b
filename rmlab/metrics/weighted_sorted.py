"""Metrics under cluster weights that need one pass over the rows, sorted by score or by confidence.

Axes as in weighted.py; E edges between runs of rows with one value, S sums, B bins.
"""

import numpy as np

from rmlab.metrics.calibration import Bins, aurc_of_weighted, ece, ece_debiased, picks, top_label
from rmlab.metrics.table import Codes, Floats, Table, ratio
from rmlab.metrics.weighted import Statistic, Values, pairs_by_cluster

ROWS_AT_ONCE = 1 << 18  # rows × weightings that one pass holds in memory


class SortedRows(Statistic):
    """auc_pooled, auc_between_tasks, within_pair_share, ece_mass_10, ece_debiased: one pass over the rows by score."""

    across_clusters = True

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        rows = table.scored
        order = np.argsort(rows.score_N, kind="stable")
        self.score_N, self.label_N, self.cluster_N = rows.score_N[order], rows.label_N[order], rows.cluster_N[order]
        self.edge_E = _edges(self.score_N)
        self.within_C2 = pairs_by_cluster(table)

    def values(self, weight_RC: Floats) -> Values:
        size = max(1, ROWS_AT_ONCE // max(len(self.score_N), 1))
        chunks = [
            _one_pass(weight_RC[i : i + size][:, self.cluster_N], self.score_N, self.label_N, self.edge_E)
            for i in range(0, len(weight_RC), size)
        ]
        sums = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
        won, pairs = sums.pop("won"), sums.pop("pairs")
        won_within, within = (weight_RC @ self.within_C2).T
        return sums | {
            "auc_pooled": ratio(won, pairs),
            "auc_between_tasks": ratio(won - won_within, pairs - within),
            "within_pair_share": ratio(within, pairs),
        }


class ConfidenceOrder(Statistic):
    """aurc, aurc_picks: passes over attempts and picks from the most confident on."""

    across_clusters = True

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        rows = table.scored
        confidence_N, right_N = top_label(rows.score_N, rows.label_N)
        best_G, picked_G, scored_G = picks(table)
        self.curves = {
            "aurc": _by_confidence(confidence_N, 1 - right_N, rows.cluster_N),
            "aurc_picks": _by_confidence(best_G[scored_G], 1 - picked_G[scored_G], table.cluster_G[scored_G]),
        }

    def values(self, weight_RC: Floats) -> Values:
        return {name: self._aurc(weight_RC, *columns) for name, columns in self.curves.items()}

    def _aurc(self, weight_RC: Floats, error_N: Floats, cluster_N: Codes, edge_E: Codes) -> Floats:
        size = max(1, ROWS_AT_ONCE // max(len(error_N), 1))
        chunks = []
        for i in range(0, len(weight_RC), size):
            weight_RN = weight_RC[i : i + size][:, cluster_N]
            chunks.append(aurc_of_weighted(_below(weight_RN, edge_E), _below(weight_RN * error_N, edge_E)))
        return np.concatenate(chunks)


def _by_confidence(confidence_N: Floats, error_N: Floats, cluster_N: Codes) -> tuple[Floats, Codes, Codes]:
    order = np.argsort(-confidence_N, kind="stable")
    return error_N[order], cluster_N[order], _edges(confidence_N[order])


def _edges(sorted_N: Floats) -> Codes:
    """Where runs of one value begin, and the end."""
    if not len(sorted_N):
        return np.zeros(1, dtype=int)
    edge_E: Codes = np.r_[np.flatnonzero(np.r_[True, np.diff(sorted_N) != 0]), len(sorted_N)]
    return edge_E


def _one_pass(weight_RN: Floats, score_N: Floats, label_N: Floats, edge_E: Codes) -> Values:
    below_SRE = _below(weight_RN * np.stack([np.ones_like(score_N), score_N, label_N])[:, None], edge_E)
    below_RE, _, resolved_RE = below_SRE
    unresolved_RE = below_RE - resolved_RE
    return {
        "won": (np.diff(resolved_RE) * (unresolved_RE[:, :-1] + unresolved_RE[:, 1:])).sum(axis=1) / 2,
        "pairs": resolved_RE[:, -1] * unresolved_RE[:, -1],
        "ece_mass_10": ece(_mass_bins(below_SRE, 10)),
        "ece_debiased": ece_debiased(_mass_bins(below_SRE, 15)),
    }


def _below(value_RN: Floats, edge_E: Codes) -> Floats:
    """Sum of the rows before each edge. value_RN: (..., N), with any axes before the rows'."""
    cumulated = np.zeros((*value_RN.shape[:-1], value_RN.shape[-1] + 1))
    np.cumsum(value_RN, axis=-1, out=cumulated[..., 1:])
    return cumulated if len(edge_E) == cumulated.shape[-1] else cumulated[..., edge_E]


def _mass_bins(below_SRE: Floats, bins: int) -> Bins:
    """Equal-mass bins of each weighting: a step goes to bin floor(i·bins/n), i = rows below it, so bins are runs of steps."""
    below_RE = below_SRE[0]
    weightings, steps = below_RE.shape[0], below_RE.shape[1] - 1
    # Step e is in bin b or later where below·bins >= b·n: whole numbers, so the comparison is exact. One search finds the edges of
    # all weightings: each one's numbers are moved above those of the one before.
    apart_R1 = (np.arange(weightings) * (bins * below_RE[:, -1].max(initial=0.0) + 1))[:, None]
    first_RB = below_RE[:, -1:] * np.arange(bins + 1) + apart_R1
    edges_RB = (
        np.searchsorted((below_RE[:, :-1] * bins + apart_R1).ravel(), first_RB) - np.arange(weightings)[:, None] * steps
    )
    edges_RB[:, -1] = steps
    at_SRB = np.take_along_axis(below_SRE, edges_RB[None], axis=2)
    return Bins(*np.diff(at_SRB, axis=-1))
