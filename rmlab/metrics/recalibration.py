"""Logistic recalibration: which intercept and slope on the logit would make the scores right?

P(resolved) = σ(intercept + slope · logit s), both fitted at once by maximum likelihood. Slope 1 and intercept 0 are a
calibrated score; a slope below 1 is an overconfident one.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from rmlab.metrics.calibration import logit
from rmlab.metrics.table import Floats


@dataclass(frozen=True)
class Recalibration:
    """intercept, slope: NaN where the maximum of the likelihood is not at finite values (the classes are separable by the
    score) or is not one point (one class, one score). fitted_N: probabilities of the rows in the limit."""

    intercept: float
    slope: float
    fitted_N: Floats


def recalibrate(score_N: Floats, label_N: Floats) -> Recalibration:
    """Fits the recalibration of N scored rows. score_N: no NaN, clipped to [1e-6, 1 - 1e-6]."""
    logit_N = logit(score_N)
    if not len(logit_N) or logit_N.min() == logit_N.max():
        rate = label_N.mean() if len(label_N) else np.nan
        return Recalibration(np.nan, np.nan, np.full(len(label_N), rate))
    boundary = _boundary(logit_N, label_N)
    if boundary is not None:
        tied_N = logit_N == boundary
        return Recalibration(np.nan, np.nan, np.where(tied_N, label_N[tied_N].mean() if tied_N.any() else 0.0, label_N))
    intercept, slope = fit_logistic(logit_N, label_N)
    return Recalibration(intercept, slope, expit(intercept + slope * logit_N))


def _boundary(value_N: Floats, label_N: Floats) -> float | None:
    """The value at which the classes touch, if one side of it is all resolved and the other all unresolved; None if they overlap.

    Classes with a gap between them (or one class alone) give a value that no row has.
    """
    resolved, unresolved = value_N[label_N > 0], value_N[label_N == 0]
    if not len(resolved) or not len(unresolved):
        return float("inf")
    for low, high in ((unresolved, resolved), (resolved, unresolved)):
        if low.max() <= high.min():
            return float(low.max()) if low.max() == high.min() else float("inf")
    return None


def fit_logistic(value_N: Floats, label_N: Floats) -> tuple[float, float]:
    """Maximum-likelihood intercept and slope of label on one value, by Newton steps that are halved until they help.

    label_N: 0, 1, or between (soft labels). Hard classes must overlap: see recalibrate.
    """
    design_N2 = np.column_stack([np.ones(len(value_N)), value_N])

    def log_likelihood(coefficient_2: Floats) -> float:
        linear_N = design_N2 @ coefficient_2
        return float(label_N @ linear_N - np.logaddexp(0.0, linear_N).sum())

    coefficient_2 = np.zeros(2)
    value = log_likelihood(coefficient_2)
    for _ in range(100):
        fitted_N = expit(design_N2 @ coefficient_2)
        weight_N = fitted_N * (1 - fitted_N)
        step_2 = np.linalg.lstsq(
            design_N2.T @ (design_N2 * weight_N[:, None]), design_N2.T @ (label_N - fitted_N), rcond=None
        )[0]
        new = log_likelihood(coefficient_2 + step_2)
        while new < value - 1e-12 * abs(value) and np.abs(step_2).max() > 1e-12:
            step_2 = step_2 / 2
            new = log_likelihood(coefficient_2 + step_2)
        coefficient_2, value = coefficient_2 + step_2, new
        if np.abs(step_2).max() < 1e-10:
            break
    return float(coefficient_2[0]), float(coefficient_2[1])
