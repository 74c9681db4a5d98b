"""Logistic recalibration: which intercept and slope on the logit would make the scores right?

P(resolved) = σ(intercept + slope · logit s), both fitted jointly by maximum likelihood. Slope 1 and intercept 0 mean a
calibrated score; a slope below 1 means an overconfident one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from rmlab.metrics.calibration import log_loss, logit
from rmlab.metrics.table import Codes, Floats


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


COLDEST, HOTTEST = 0.01, 100.0
DIGITS = 12  # scores closer than this are one score to the isotonic regression


@dataclass(frozen=True)
class Calibrator:
    """apply: from scores to scores, any number, no NaN. parameters: what was fitted, by name."""

    apply: Callable[[Floats], Floats]
    parameters: dict[str, float]


def temperature(score_N: Floats, label_N: Floats) -> Calibrator:
    """σ(logit s / T) with the T of least log loss, between 0.01 and 100. At least one row, no NaN."""
    logit_N = logit(score_N)

    def loss(log_temperature: float) -> float:
        return log_loss(expit(logit_N / np.exp(log_temperature)), label_N)

    best = float(
        np.exp(
            minimize_scalar(
                loss, bounds=(np.log(COLDEST), np.log(HOTTEST)), method="bounded", options={"xatol": 1e-8}
            ).x
        )
    )
    return Calibrator(lambda score: np.asarray(expit(logit(score) / best), dtype=np.float64), {"temperature": best})


def platt(score_N: Floats, label_N: Floats) -> Calibrator:
    """σ(intercept + slope · logit s), fitted to Platt's softened labels, which keep it finite for separable classes."""
    resolved, unresolved = label_N.sum(), (1 - label_N).sum()
    soft_N = np.where(label_N > 0, (resolved + 1) / (resolved + 2), 1 / (unresolved + 2))
    intercept, slope = fit_logistic(logit(score_N), soft_N)
    return Calibrator(
        lambda score: np.asarray(expit(intercept + slope * logit(score)), dtype=np.float64),
        {"intercept": intercept, "slope": slope},
    )


def isotonic(score_N: Floats, label_N: Floats) -> Calibrator:
    """The rising step function of least squares, linear between the fitted scores, constant beyond them."""
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(np.round(score_N, DIGITS), label_N)
    knots = len(model.X_thresholds_)
    return Calibrator(
        lambda score: np.clip(model.predict(np.round(score, DIGITS)), 0.0, 1.0) if len(score) else score,
        {"knots": float(knots)},
    )


CALIBRATORS: Mapping[str, Callable[[Floats, Floats], Calibrator]] = {
    "temperature": temperature,
    "platt": platt,
    "isotonic": isotonic,
}

Fit = Callable[[Floats, Floats], Calibrator]


def fold_of_clusters(clusters: int, folds: int) -> Codes:
    """The fold of each cluster, as even as can be, in an order drawn with seed 0. fold_C."""
    fold_C = np.empty(clusters, dtype=np.intp)
    fold_C[np.random.default_rng(0).permutation(clusters)] = np.arange(clusters) % folds
    return fold_C


def calibrated_across(fit: Fit, score_N: Floats, label_N: Floats, fold_N: Codes) -> tuple[Floats, dict[str, float]]:
    """(scores of N rows, each calibrated by a fit to the other folds; means of what was fitted). At least two folds have rows."""
    calibrated_N = np.empty(len(score_N))
    fitted: Sequence[dict[str, float]] = []
    for fold in np.unique(fold_N):
        inside_N = fold_N == fold
        calibrator = fit(score_N[~inside_N], label_N[~inside_N])
        calibrated_N[inside_N] = calibrator.apply(score_N[inside_N])
        fitted = [*fitted, calibrator.parameters]
    return calibrated_N, {name: float(np.mean([one[name] for one in fitted])) for name in fitted[0]}
