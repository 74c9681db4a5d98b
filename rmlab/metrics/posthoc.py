"""Post-hoc calibration: can the scores be made honest without training again?

A calibrator is fitted on validation and applied to evaluation, or, where there is no validation, fitted on the other folds of
the same table, whole clusters a fold; metrics are reported before and after. Temperature
(Guo et al. 2017) rescales the logit, Platt's scaling (1999) shifts it too, isotonic regression bends it freely. None of
them changes the order of two scores (isotonic may tie them), so best-of-k and AUC are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from rmlab.metrics.calibration import log_loss, logit
from rmlab.metrics.recalibration import fit_logistic
from rmlab.metrics.table import Codes, Floats

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


def calibrated_on(fit: Fit, validation: tuple[Floats, Floats], score_N: Floats) -> tuple[Floats, dict[str, float]]:
    """(calibrated scores of N rows, what was fitted). validation: scores and labels of other rows, at least one."""
    calibrator = fit(*validation)
    return calibrator.apply(score_N), calibrator.parameters


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
