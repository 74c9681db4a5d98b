"""Calibration: does a score of 0.7 mean that 70 % of such attempts are resolved?

Everything but top_label is about the positive class: the score is compared with the rate of resolved attempts, not the
larger of (s, 1 - s) with the rate of right answers. Scored and labelled rows only. Binned sums carry bins on the last axis, so
that one formula serves a table and a thousand resamples of it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from rmlab.metrics.table import Codes, Floats, sum_by

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
