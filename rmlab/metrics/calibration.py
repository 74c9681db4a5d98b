"""Calibration: does a score of 0.7 mean that 70 % of such attempts are resolved?

Everything except top_label is about the positive class: the score is compared with the rate of resolved attempts, not the
larger of (s, 1 - s) with the rate of correct answers. Scored and labelled rows only. Binned sums have the bins on the last axis, so
that one formula serves a table and a thousand resamples of it.

Selective use: how often is a verifier wrong when it may abstain where it is least confident?

Rows are accepted in order of decreasing confidence; coverage is the share accepted, risk the share of errors among them
(El-Yaniv and Wiener 2010). AURC is the mean risk over all coverages 1/n, 2/n, ..., 1; excess AURC (Geifman et al. 2019) is
what a perfect order of the same errors would save. Rows of equal confidence come in random order: values are exact
expectations over it. Two uses: every attempt (is the likelier answer wrong?) and the pick of best-of-all at each task
(is the pick unresolved?), where a low best score is a reason to pick nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, expit

from rmlab.metrics.best_of_k import rm_at_k_of_groups
from rmlab.metrics.table import Codes, Floats, Table, ratio, sum_by

CLIP = 1e-6  # of a probability before its logit is taken
EPS = float(np.finfo(np.float64).eps)  # of a probability before its logarithm is taken


@dataclass(frozen=True)
class Bins:
    """Rows, sum of scores and sum of labels of each bin, bins on the last axis (..., B). Weighted rows count by weight."""

    count: Floats
    score: Floats
    label: Floats

    @property
    def total(self) -> Floats:
        total: Floats = np.asarray(self.count.sum(axis=-1), dtype=float)
        return total

    @property
    def gap(self) -> Floats:
        """|mean score - mean label| of each bin; 0 for an empty one."""
        return np.abs(self.score - self.label) / np.maximum(self.count, 1.0)


def width_bin(score_N: Floats, bins: int) -> Codes:
    """Equal-width bin of each score; the first holds 0, the last holds 1. The 1e-12 keeps 0.3 out of the bin below."""
    bin_N: Codes = np.minimum(np.floor(score_N * bins + 1e-12), bins - 1).astype(np.intp)
    return bin_N


def mass_bin(score_N: Floats, bins: int) -> Codes:
    """Equal-mass bin of each score: all rows of one score go to bin floor(i·bins/n), i = their first position when sorted."""
    first_N = np.searchsorted(np.sort(score_N), score_N, side="left")
    bin_N: Codes = (first_N * bins // max(len(score_N), 1)).astype(np.intp)
    return bin_N


def binned(score_N: Floats, label_N: Floats, bin_N: Codes, bins: int) -> Bins:
    """Sums over the rows of each bin, shape (bins,)."""
    return Bins(
        np.bincount(bin_N, minlength=bins).astype(float), sum_by(bin_N, score_N, bins), sum_by(bin_N, label_N, bins)
    )


def ece(bins: Bins) -> Floats:
    """Expected calibration error: Σ n_b/n · |mean s_b - mean y_b|. NaN without rows."""
    total = bins.total
    error: Floats = np.divide(
        np.abs(bins.score - bins.label).sum(axis=-1), total, out=np.full_like(total, np.nan), where=total > 0
    )
    return error


def top_label(score_N: Floats, label_N: Floats) -> tuple[Floats, Floats]:
    """Confidence max(s, 1 - s) and whether the likelier answer was right (0.5 says resolved).

    Some tools call the ECE of these two "binary ECE"; here it is `ece_confidence`, and every other ECE is of the positive class.
    """
    return np.maximum(score_N, 1 - score_N), ((score_N >= 0.5) == (label_N > 0)).astype(float)


def mce(bins: Bins) -> Floats:
    """Maximum calibration error: the largest gap of a bin that has rows. NaN without rows."""
    return np.where(bins.total > 0, bins.gap.max(axis=-1), np.nan)


def ece_debiased(bins: Bins) -> Floats:
    """Σ n_b/n · [(mean s_b - mean y_b)² - mean y_b (1 - mean y_b)/(n_b - 1)], after Kumar et al. 2019 (arXiv 1909.10155).

    Squared units; may be negative. A bin of one row is merged with the bin before it, the first with the one after it.
    NaN with fewer than two rows.
    """
    merged = _without_single_rows(bins)
    safe = np.maximum(merged.count, 2.0)
    label = merged.label / safe
    squared = ((merged.score - merged.label) / safe) ** 2 - label * (1 - label) / (safe - 1)
    total = merged.total
    value: Floats = np.divide(
        (merged.count * squared).sum(axis=-1), total, out=np.full_like(total, np.nan), where=total > 1
    )
    return value


def _without_single_rows(bins: Bins) -> Bins:
    shape = bins.count.shape
    stacked = np.array([bins.count, bins.score, bins.label]).reshape(3, -1, shape[-1])
    _merge_forwards(stacked)  # into the bin before
    _merge_forwards(stacked[:, :, ::-1])  # only a first bin of one row can be left: into the bin after
    return Bins(*stacked.reshape(3, *shape))


def _merge_forwards(stacked_SRB: Floats) -> None:
    """Moves each bin of one row onto the last bin with rows before it, in place. S: count, score, label; R: resamples."""
    last_R = np.full(stacked_SRB.shape[1], -1)
    for b in range(stacked_SRB.shape[2]):
        moves = np.flatnonzero((stacked_SRB[0, :, b] == 1) & (last_R >= 0))
        stacked_SRB[:, moves, last_R[moves]] += stacked_SRB[:, moves, b]
        stacked_SRB[:, moves, b] = 0
        last_R = np.where(stacked_SRB[0, :, b] > 0, b, last_R)


def brier(score_N: Floats, label_N: Floats) -> float:
    """Mean squared difference of score and label. NaN without rows."""
    from sklearn.metrics import brier_score_loss

    return float(brier_score_loss(label_N, score_N, pos_label=1)) if len(score_N) else float("nan")


def log_loss_rows(score_N: Floats, label_N: Floats) -> Floats:
    """-log of the probability given to what happened, in nats, clipped to [eps, 1 - eps] of float64. Same shape."""
    clipped_N = np.clip(score_N, EPS, 1 - EPS)
    loss_N: Floats = -np.where(label_N > 0, np.log(clipped_N), np.log1p(-clipped_N))
    return loss_N


def log_loss(score_N: Floats, label_N: Floats) -> float:
    """Mean of log_loss_rows. NaN without rows."""
    return float(log_loss_rows(score_N, label_N).mean()) if len(score_N) else float("nan")


def logit(probability: Floats) -> Floats:
    """log(p / (1 - p)) after clipping p to [1e-6, 1 - 1e-6]."""
    clipped = np.clip(probability, CLIP, 1 - CLIP)
    value: Floats = np.log(clipped) - np.log1p(-clipped)
    return value


def prior_corrected(score_N: Floats, prior_train: float, prior_validation: float) -> Floats:
    """σ(logit s - logit π_train + logit π_validation): the score as if it had been trained at the other base rate."""
    shift = logit(np.asarray(prior_validation)) - logit(np.asarray(prior_train))
    corrected_N: Floats = expit(logit(score_N) + shift)
    return corrected_N


@dataclass(frozen=True)
class Decomposition:
    """Brier score = miscalibration - discrimination + uncertainty (CORP: Dimitriadis, Gneiting, Jordan 2021)."""

    miscalibration: float
    discrimination: float
    uncertainty: float


def brier_decomposition(score_N: Floats, label_N: Floats) -> Decomposition:
    """CORP decomposition: the calibrated forecast is the isotonic regression of label on score. NaN without rows."""
    from sklearn.isotonic import IsotonicRegression

    if not len(score_N):
        return Decomposition(float("nan"), float("nan"), float("nan"))
    # Ranks instead of scores: the same regression, without scikit-learn's NaN where two scores differ by a rounding error.
    rank_N = np.unique(score_N, return_inverse=True)[1]
    calibrated_N = IsotonicRegression(y_min=0.0, y_max=1.0).fit_transform(rank_N, label_N)
    best = brier(np.clip(calibrated_N, 0.0, 1.0), label_N)
    rate = float(label_N.mean())
    uncertainty = rate * (1 - rate)
    return Decomposition(brier(score_N, label_N) - best, uncertainty - best, uncertainty)


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
