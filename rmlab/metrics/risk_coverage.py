"""Selective use: how often is a verifier wrong when it may abstain where it is least sure?

Rows are taken from the most confident on; coverage is the share that is taken, risk the share of errors among them
(El-Yaniv and Wiener 2010). AURC is the mean risk over all coverages 1/n, 2/n, ..., 1; excess AURC (Geifman et al. 2019) is
what a perfect order of the same errors would save. Rows of one confidence come in random order: values are exact
expectations over it. Two uses: of every attempt (is the likelier answer wrong?) and of what best-of-all picks at each task
(is the pick unresolved?), where a low best score is a reason to pick nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from rmlab.metrics.best_of_k import rm_at_k_of_groups
from rmlab.metrics.calibration import top_label
from rmlab.metrics.table import Floats, Table, ratio

COVERAGES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class RiskCoverage:
    """risk_N: expected risk of the first 1, 2, ..., n rows. aurc: their mean. excess: aurc less that of a perfect order.
    NaN without rows."""

    risk_N: Floats
    aurc: float
    excess: float

    def at(self, coverages: Sequence[float] = COVERAGES) -> list[float]:
        """Risk at shares of the rows; the number of rows is rounded up, at least one."""
        count = len(self.risk_N)
        return [
            float(self.risk_N[max(int(np.ceil(share * count - 1e-9)), 1) - 1]) if count else float("nan")
            for share in coverages
        ]


def risk_coverage(confidence_N: Floats, error_N: Floats) -> RiskCoverage:
    """The curve of N rows. confidence_N: no NaN. error_N: 1 = wrong, 0 = right, or between (a tie of picks)."""
    count = len(confidence_N)
    if not count:
        return RiskCoverage(np.zeros(0), float("nan"), float("nan"))
    order = np.argsort(-confidence_N, kind="stable")
    confidence_N, error_N = confidence_N[order], error_N[order]
    starts_U = np.flatnonzero(np.r_[True, np.diff(confidence_N) != 0])
    size_U = np.diff(np.r_[starts_U, count])
    expected_N = np.repeat(np.add.reduceat(error_N, starts_U) / size_U, size_U)
    taken_N = np.arange(1, count + 1)
    risk_N: Floats = np.cumsum(expected_N) / taken_N
    perfect_N = np.cumsum(np.sort(error_N)) / taken_N
    return RiskCoverage(risk_N, float(risk_N.mean()), float(risk_N.mean() - perfect_N.mean()))


def of_attempts(table: Table) -> RiskCoverage:
    """Every scored attempt: confidence max(s, 1 - s), an error where the likelier answer is wrong."""
    confidence_N, right_N = top_label(table.scored.score_N, table.scored.label_N)
    return risk_coverage(confidence_N, 1 - right_N)


def of_picks(table: Table) -> RiskCoverage:
    """The best-scored of all attempts of each (task, policy): confidence its score, an error where it is unresolved.

    Groups without a scored attempt are left out.
    """
    best_G, picked_G, scored_G = picks(table)
    return risk_coverage(best_G[scored_G], 1 - picked_G[scored_G])


def picks(table: Table) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """(best score, expected label of the pick, whether any attempt is scored) of each group."""
    rows = table.scored
    best_G = np.full(table.groups, -np.inf)
    np.maximum.at(best_G, rows.group_N, rows.score_N)
    picked_GJ = rm_at_k_of_groups(table.score_N, table.label_N, table.group_N, [max(table.most_attempts, 1)])
    return best_G, picked_GJ[:, 0] if len(picked_GJ) else np.zeros(table.groups), np.isfinite(best_G)


def aurc_of_weighted(below_RE: Floats, error_RE: Floats) -> Floats:
    """AURC of R weightings of rows sorted from the most confident on. below_RE: weight before each of E edges between
    confidences, and all of it; error_RE: weight of errors before them. Whole numbers. NaN where all weights are 0.

    Within a tie of m rows after n with e errors, risk after j of them is (e + j·r)/(n + j), r = its error rate: the sum over
    j is m·r + (e - n·r)·(ψ(n + m + 1) - ψ(n + 1)).
    """
    start_RU, size_RU = below_RE[:, :-1], np.diff(below_RE, axis=1)
    rate_RU = np.divide(np.diff(error_RE, axis=1), size_RU, out=np.zeros_like(size_RU), where=size_RU > 0)
    # One table of ψ at whole numbers: weights are counts.
    psi = digamma(np.arange(1, int(below_RE[:, -1].max(initial=0)) + 2))
    place = below_RE.astype(np.intp)
    harmonic_RU = psi[place[:, 1:]] - psi[place[:, :-1]]
    sum_RU = size_RU * rate_RU + (error_RE[:, :-1] - start_RU * rate_RU) * harmonic_RU
    return ratio(sum_RU.sum(axis=1), below_RE[:, -1])
