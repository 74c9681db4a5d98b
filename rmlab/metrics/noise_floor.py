"""Noise floor of the ECE: what would a perfectly calibrated verifier show on a table of this size?

The ECE of finitely many rows is above 0 even when every score is the true probability. The plain floor draws labels
independently. The task floor adds what independent draws leave out: attempts at one task share its difficulty, which
makes bin means noisier. A score is called miscalibrated only above the task floor's 95th percentile.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.special import expit

from rmlab.metrics.calibration import Bins, ece, logit, width_bin
from rmlab.metrics.recalibration import recalibrate
from rmlab.metrics.table import Codes, Floats, Table, sum_by

DRAWS = 1000
BINS = 10
ROWS_AT_ONCE = 1 << 20  # rows × draws held in memory at once
LARGEST_DEVIATION = 10.0  # of the task effect on the logit: beyond it labels of a task are all but equal


@dataclass(frozen=True)
class NoiseFloor:
    """Mean and 95th percentile of the ECE (10 equal-width bins) of calibrated labels; NaN without rows.

    task_variance: τ², the variance of the task effect on the logit; 0 for the plain floor.
    """

    mean: float
    p95: float
    task_variance: float = 0.0


def noise_floor(table: Table) -> NoiseFloor:
    """The plain floor: labels y ~ Bernoulli(s), independent. Seed 0; rows in the table's order (task_id, policy, score)."""
    rows = table.scored
    rng = np.random.default_rng(0)
    return _floor(rows.score_N, lambda draws: np.asarray(rng.random((draws, len(rows.score_N))) < rows.score_N))


def noise_floor_task(table: Table) -> NoiseFloor:
    """The floor with a normal task effect u of variance τ²: y ~ Bernoulli(σ(a + u_task)), a such that the mean over u is s."""
    rows = table.scored
    variance = task_variance(rows.score_N, rows.label_N, rows.task_N)
    if not variance > 0:
        plain = noise_floor(table)
        return NoiseFloor(plain.mean, plain.p95, variance)
    deviation = float(np.sqrt(variance))
    _, task_N = np.unique(rows.task_N, return_inverse=True)
    intercept_N = intercepts(rows.score_N, deviation)
    # Two streams, so that the labels' draws are those of the plain floor.
    rng, effects = np.random.default_rng(0), np.random.default_rng([0, 1])

    def draw(draws: int) -> NDArray[np.bool_]:
        effect_DT = effects.normal(0.0, deviation, (draws, int(task_N.max()) + 1))
        return np.asarray(rng.random((draws, len(task_N))) < expit(intercept_N + effect_DT[:, task_N]))

    floor = _floor(rows.score_N, draw)
    return NoiseFloor(floor.mean, floor.p95, variance)


def _floor(score_N: Floats, draw: Callable[[int], NDArray[np.bool_]]) -> NoiseFloor:
    if not len(score_N):
        return NoiseFloor(np.nan, np.nan, np.nan)
    bin_N = width_bin(score_N, BINS)
    member_NB = np.zeros((len(score_N), BINS), dtype=np.float32)  # exact: counts stay below 2^24
    member_NB[np.arange(len(score_N)), bin_N] = 1.0
    count_B, score_B = np.bincount(bin_N, minlength=BINS).astype(float), sum_by(bin_N, score_N, BINS)
    errors = []
    chunk = max(1, ROWS_AT_ONCE // len(score_N))
    for start in range(0, DRAWS, chunk):
        label_DB = (draw(min(chunk, DRAWS - start)).astype(np.float32) @ member_NB).astype(float)
        errors.append(
            ece(Bins(np.broadcast_to(count_B, label_DB.shape), np.broadcast_to(score_B, label_DB.shape), label_DB))
        )
    error_D = np.concatenate(errors)
    return NoiseFloor(float(error_D.mean()), float(np.quantile(error_D, 0.95)))


def task_variance(score_N: Floats, label_N: Floats, task_N: Codes) -> float:
    """τ²: the variance of a normal task effect on the logit that explains how alike the attempts at one task turn out.

    Σ over pairs within a task of the products of residuals, after logistic recalibration of the table, is set equal to
    its expectation under the effect. At least 0, at most LARGEST_DEVIATION². NaN without rows.
    """
    if not len(score_N):
        return float("nan")
    fitted_N = recalibrate(score_N, label_N).fitted_N
    observed = _pair_products(label_N - fitted_N, task_N)
    if observed <= 0:
        return 0.0
    independent = _pair_products(fitted_N, task_N)

    @cache  # the search below begins with both ends
    def excess(deviation: float) -> float:
        node_Q, weight_Q = _normal_nodes(deviation)
        intercept_N = intercepts(fitted_N, deviation)
        joint = sum(
            weight * _pair_products(expit(intercept_N + deviation * node), task_N)
            for node, weight in zip(node_Q, weight_Q, strict=True)
        )
        return float(joint - independent - observed)

    if excess(LARGEST_DEVIATION) <= 0:
        return LARGEST_DEVIATION**2
    return float(brentq(excess, 0.0, LARGEST_DEVIATION, xtol=1e-6)) ** 2


def _pair_products(value_N: Floats, task_N: Codes) -> float:
    """Σ over tasks and pairs i < j of value_i · value_j."""
    return float(((np.bincount(task_N, value_N) ** 2).sum() - (value_N**2).sum()) / 2)


def intercepts(mean_N: Floats, deviation: float) -> Floats:
    """a with E[σ(a + deviation·z)] = mean, z standard normal. mean_N: clipped to [1e-6, 1 - 1e-6]. Same shape."""
    logit_N = logit(mean_N)
    if deviation == 0:
        return logit_N
    node_Q, weight_Q = _normal_nodes(deviation)
    # The logit of the mean is a smooth, odd, rising function of a: a spline through its lower half inverts it to 1e-7.
    grid_A = np.linspace(-16.0, 0.0, 321) * np.sqrt(1 + deviation**2)
    mean_A = expit(grid_A[:, None] + deviation * node_Q) @ weight_Q
    spline = CubicSpline(np.log(mean_A) - np.log1p(-mean_A), grid_A)
    return np.asarray(-np.sign(logit_N) * spline(-np.abs(logit_N)), dtype=np.float64)


def _normal_nodes(deviation: float) -> tuple[Floats, Floats]:
    """Trapezoid rule for E f(z) of σ(a + deviation·z): errors fall exponentially with the step, here below 1e-9."""
    step = min(0.5, 0.8 / max(deviation, 1e-9))
    count = int(np.ceil(7.0 / step))
    node_Q = np.asarray(step * np.arange(-count, count + 1), dtype=np.float64)
    weight_Q = np.exp(-(node_Q**2) / 2)
    return node_Q, np.asarray(weight_Q / weight_Q.sum(), dtype=np.float64)
