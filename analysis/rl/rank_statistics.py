"""Does a metric of verifiers order what came of them? Rank correlation within strata, permutation, bootstrap, and the cost of a choice.

A stratum is what is never compared across (a start of reinforcement learning). Ranks are taken within it, so that a start that is
better in itself adds nothing. A block is what a permutation stays within (a start and a column of the design). A unit is what is drawn
together by a bootstrap (one training of a verifier, with all its repeats).

Arrays: N verifiers, R resamples or permutations (the first is the data themselves), M metrics.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from rmlab.metrics.table import Floats, ratio
from rmlab.metrics.uncertainty import cluster_weights, interval

REPLICATES = 2000
PERMUTATIONS = 20_000
SET = 4
"""Verifiers among which one is chosen by a metric."""
SAME = 1e-9
"""Spread of ranks, a row, that is 0 but for rounding."""
Codes = NDArray[np.intp]
Labels = Sequence[Any] | NDArray[Any]
"""Names or numbers, one a row."""


def unit_weights(
    unit_N: Labels | None, stratum_N: Labels | None, count: int, replicates: int = REPLICATES, seed: int = 0
) -> Floats:
    """How often each of N = count rows is drawn: weight_RN, all ones first, then `replicates` resamples of the units of each stratum.

    unit_N, stratum_N: None = every row is a unit, all are one stratum.
    """
    code_N = codes(range(count) if unit_N is None else unit_N)[0]
    stratum_of = codes(np.zeros(count) if stratum_N is None else stratum_N)[0]
    return _weights(tuple(code_N.tolist()), tuple(stratum_of.tolist()), replicates, seed)


@lru_cache(maxsize=2)
def _weights(code_of: tuple[int, ...], stratum_of: tuple[int, ...], replicates: int, seed: int) -> Floats:
    """Weights of units and strata by their numbers: weight_RN, read-only, since all metrics of one set of verifiers share it."""
    code_N, stratum_N = np.array(code_of, dtype=np.intp), np.array(stratum_of, dtype=np.intp)
    weight_RN = np.ones((replicates + 1, len(code_N)))
    for stratum in np.unique(stratum_N) if replicates else ():
        rows = np.flatnonzero(stratum_N == stratum)
        own, place = np.unique(code_N[rows], return_inverse=True)
        weight_RN[1:, rows] = np.vstack(list(cluster_weights(len(own), replicates, seed + int(stratum))))[:, place]
    weight_RN.flags.writeable = False
    return weight_RN


def codes(value_N: Labels) -> tuple[Codes, int]:
    """Values as numbers 0, 1, ..., and how many there are."""
    _, code_N = np.unique(np.asarray(value_N), return_inverse=True)
    return code_N.astype(np.intp), int(code_N.max(initial=-1)) + 1


def centred_ranks(value_N: ArrayLike, weight_RN: Floats, stratum_N: Labels | None = None) -> Floats:
    """Mean ranks within strata of N values, each repeated weight times; less their mean, as shares of the stratum: rank_RN."""
    value = np.asarray(value_N, dtype=float)
    stratum_of, strata = codes(np.zeros(len(value)) if stratum_N is None else stratum_N)
    rank_RN = np.zeros_like(weight_RN)
    for stratum in range(strata):
        rows = np.flatnonzero(stratum_of == stratum)
        value_V, code_N = np.unique(value[rows], return_inverse=True)
        own_RN = weight_RN[:, rows]
        weight_RV = own_RN @ np.eye(len(value_V))[code_N]
        total_R1 = np.maximum(own_RN.sum(axis=1, keepdims=True), 1)
        rank_RN[:, rows] = ((np.cumsum(weight_RV, axis=1) - weight_RV / 2)[:, code_N] - total_R1 / 2) / total_R1
    return rank_RN


def rank_correlations(x_N: ArrayLike, y_N: ArrayLike, weight_RN: Floats, stratum_N: Labels | None = None) -> Floats:
    """Spearman's coefficient within strata for every row of weights, NaN where a side does not vary: rho_R."""
    a_RN, b_RN = (centred_ranks(side, weight_RN, stratum_N) for side in (x_N, y_N))
    return _correlation(a_RN, b_RN, weight_RN)


def _correlation(a_RN: Floats, b_RN: Floats, weight_RN: Floats) -> Floats:
    energy_R = np.sqrt((weight_RN * a_RN**2).sum(axis=1) * (weight_RN * b_RN**2).sum(axis=1))
    varies_R = np.where(energy_R > SAME * weight_RN.sum(axis=1), energy_R, 0.0)
    return ratio((weight_RN * a_RN * b_RN).sum(axis=1), varies_R)


def permutation_p(
    x_N: ArrayLike, y_N: ArrayLike, stratum_N: Labels, block_N: Labels, permutations: int = PERMUTATIONS, seed: int = 0
) -> float:
    """Two-sided p of Spearman's coefficient within strata, the outcomes y being exchanged within blocks; twice the smaller tail.

    Every block lies in one stratum. What the blocks themselves differ by is the same in all permutations, so it is not tested.
    NaN where a side does not vary.
    """
    one_1N = np.ones((1, len(np.asarray(x_N))))
    a_N, b_N = (centred_ranks(side, one_1N, stratum_N)[0] for side in (x_N, y_N))
    if not a_N.any() or not b_N.any():
        return float("nan")
    permuted_PN = b_N[_permuted(tuple(codes(block_N)[0].tolist()), permutations, seed)]
    found, by_chance_P = float(a_N @ b_N), permuted_PN @ a_N
    tails = (np.sum(by_chance_P >= found - SAME), np.sum(by_chance_P <= found + SAME))
    return float(min(1.0, 2 * (1 + min(tails)) / (1 + permutations)))


@lru_cache(maxsize=2)
def _permuted(block_of: tuple[int, ...], permutations: int, seed: int) -> NDArray[np.intp]:
    """Rows exchanged within blocks: index_PN, read-only, since all metrics of one set of verifiers share it."""
    block_N, rng = np.array(block_of), np.random.default_rng(seed)
    index_PN = np.tile(np.arange(len(block_N)), (permutations, 1))
    for block in np.unique(block_N):
        rows = np.flatnonzero(block_N == block)
        index_PN[:, rows] = rng.permuted(np.tile(rows, (permutations, 1)), axis=1)
    index_PN.flags.writeable = False
    return index_PN


@dataclass(frozen=True)
class Relation:
    """A metric and an outcome over the verifiers of n trainings. rho: Spearman's coefficient within strata with its 95 % bootstrap
    interval; p: by permutation within blocks. None where it is undefined."""

    metric: str
    rho: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int


def relation(
    metric: str,
    x_N: ArrayLike,
    y_N: ArrayLike,
    unit_N: Labels,
    stratum_N: Labels,
    block_N: Labels,
    replicates: int = REPLICATES,
    permutations: int = PERMUTATIONS,
) -> Relation:
    """The rank correlation of one metric with the outcome."""
    n = codes(unit_N)[1]
    rho_R = rank_correlations(x_N, y_N, unit_weights(unit_N, stratum_N, len(unit_N), replicates), stratum_N)
    rho, ends = float(rho_R[0]), interval(float(rho_R[0]), rho_R[1:])
    if np.isnan(rho) or ends is None:
        return Relation(metric, None, None, None, None, n)
    return Relation(metric, rho, *ends, permutation_p(x_N, y_N, stratum_N, block_N, permutations), n)


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value_R: Floats) -> "Interval":
        """The first value, and the quantiles of the others."""
        return cls(float(value_R[0]), *(interval(float(value_R[0]), value_R[1:]) or (np.nan, np.nan)))


def stronger(x_N: ArrayLike, other_N: ArrayLike, y_N: ArrayLike, weight_RN: Floats, stratum_N: Labels) -> Interval:
    """|rho| of one metric less that of another, with its bootstrap interval."""
    first_R, second_R = (np.abs(rank_correlations(side, y_N, weight_RN, stratum_N)) for side in (x_N, other_N))
    return Interval.of(first_R - second_R)


def rank_regression(x_MN: Sequence[ArrayLike], y_N: ArrayLike, stratum_N: Labels) -> list[Interval]:
    """Coefficients of M metrics' ranks in a least-squares regression of the outcome's ranks, all within strata: what each says given
    the others. Intervals by t (ranks in place of values, Iman and Conover 1979); every row has to be a training of its own."""
    one_1N = np.ones((1, len(np.asarray(y_N))))
    x_NM = np.stack([centred_ranks(x_N, one_1N, stratum_N)[0] for x_N in x_MN], axis=1)
    rank_N = centred_ranks(y_N, one_1N, stratum_N)[0]
    degrees = len(rank_N) - x_NM.shape[1] - codes(stratum_N)[1]
    gram_MM = x_NM.T @ x_NM
    if degrees < 1 or np.linalg.matrix_rank(gram_MM, tol=SAME) < len(x_MN):
        return [Interval(np.nan, np.nan, np.nan) for _ in x_MN]
    coefficient_M = np.linalg.solve(gram_MM, x_NM.T @ rank_N)
    variance = float(((rank_N - x_NM @ coefficient_M) ** 2).sum()) / degrees
    half_M = float(stats.t.ppf(0.975, degrees)) * np.sqrt(variance * np.diag(np.linalg.inv(gram_MM)))
    return [Interval(float(c), float(c - h), float(c + h)) for c, h in zip(coefficient_M, half_M, strict=True)]


def sets_of(stratum_N: Labels, size: int = SET) -> NDArray[np.intp]:
    """All sets of `size` rows of one stratum: set_SK."""
    stratum_of, strata = codes(stratum_N)
    rows = [np.flatnonzero(stratum_of == stratum) for stratum in range(strata)]
    return np.array([chosen for own in rows for chosen in combinations(own, size)], dtype=np.intp).reshape(-1, size)


def losses(liked_N: ArrayLike, y_N: ArrayLike, set_SK: NDArray[np.intp]) -> Floats:
    """Of each set: its best outcome less that of the verifier that is liked best. Ties count as their mean; all alike: of any verifier."""
    liked_SK, outcome_SK = (np.asarray(side, dtype=float)[set_SK] for side in (liked_N, y_N))
    best_SK = liked_SK == liked_SK.max(axis=1, keepdims=True)
    lost_S: Floats = outcome_SK.max(axis=1) - (best_SK * outcome_SK).sum(axis=1) / best_SK.sum(axis=1)
    return lost_S


def regret(loss_S: Floats, set_SK: NDArray[np.intp], count: int) -> Interval:
    """The mean loss over sets of `count` rows, or the mean difference of two losses, with the 95 % interval of a jackknife over rows (t).

    A mean over sets is a U statistic: resamples, which hold a verifier twice, would be biased downwards.
    """
    if not len(loss_S):
        return Interval(np.nan, np.nan, np.nan)
    mean = float(loss_S.mean())
    left_N = np.array([_mean(loss_S[~(set_SK == row).any(axis=1)]) for row in range(count)])
    error = float(np.sqrt((count - 1) / count * np.nansum((left_N - np.nanmean(left_N)) ** 2)))
    half = float(stats.t.ppf(0.975, count - 1)) * error
    return Interval(mean, mean - half, mean + half)


def _mean(value_S: Floats) -> float:
    return float(value_S.mean()) if len(value_S) else float("nan")
