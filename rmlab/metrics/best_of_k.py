"""Best of k: how good is the attempt that a score picks from k attempts at a task?

All values are exact expectations over draws without replacement (hypergeometric); nothing is sampled.
RM@k and pass@k as in SWE-RM (arXiv 2512.21919) and Chen et al. 2021 (arXiv 2107.03374).

Score-weighted majority: of k attempts drawn from one task's, the label of the patch with the largest sum of scores.

Exact: for every sum that a patch can reach, count the draws in which no other patch reaches more, by convolution over
the number of attempts that each patch contributes. This enumerates the subsets of each patch's attempts, 2^n for n of them, so with
many copies of one patch 1,000 seeded draws are used instead. Sums are compared to 12 decimals: 0.1 + 0.2 ties with 0.3.

Axes: N attempts of one task, P patches, V sums, T patches that tie at a sum, K attempts drawn, S draws, J sizes of k.
"""

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from rmlab.metrics.table import Codes, Floats, Table


def sizes_of_k(most: int) -> list[int]:
    """1, 2, 4, ... up to `most`, and `most` itself. `most`: the most attempts that any group has."""
    powers = [1 << i for i in range(most.bit_length())]
    return sorted({*powers, most} - {0})


def log_choose(n: ArrayLike, k: ArrayLike) -> Floats:
    """Logarithm of "n choose k", -inf where k > n. n, k: broadcast against each other."""
    n, k = np.asarray(n, dtype=float), np.asarray(k, dtype=float)
    safe = np.maximum(n, k)
    log: Floats = np.where(n >= k, gammaln(safe + 1) - gammaln(k + 1) - gammaln(safe - k + 1), -np.inf)
    return log


def rm_at_k_of_groups(score_N: Floats, label_N: Floats, group_N: Codes, k_J: Sequence[int]) -> Floats:
    """RM@k of every group for every k at once. value_GJ.

    score_N, label_N, group_N: N rows of G groups, all codes 0 .. G-1 in use, in any order. NaN score = not scored.
    """
    if not len(score_N):
        return np.zeros((0, len(k_J)))
    ranked_N = np.where(np.isnan(score_N), -np.inf, score_N)
    order = np.lexsort((ranked_N, group_N))
    group_N, ranked_N, label_N = group_N[order], ranked_N[order], label_N[order]
    # Attempts with one score in one group are a tie U; ties of a group follow each other, worst first.
    starts_U = np.flatnonzero(np.r_[True, (np.diff(group_N) != 0) | (ranked_N[1:] != ranked_N[:-1])])
    size_U = np.diff(np.r_[starts_U, len(group_N)])
    group_U = group_N[starts_U]
    size_G = np.bincount(group_N)
    first_G = np.cumsum(size_G) - size_G
    upto_U = starts_U + size_U - first_G[group_U]
    k_GJ = np.minimum(np.asarray(k_J), size_G[:, None])
    # P(best is in tie u) = P(all k within ties <= u) - P(all k within ties < u)
    all_GJ = log_choose(size_G[:, None], k_GJ)
    within_UJ = np.exp(log_choose(upto_U[:, None], k_GJ[group_U]) - all_GJ[group_U])
    below_UJ = np.exp(log_choose((upto_U - size_U)[:, None], k_GJ[group_U]) - all_GJ[group_U])
    mean_U = np.add.reduceat(label_N, starts_U) / size_U
    first_U = np.flatnonzero(np.r_[True, np.diff(group_U) != 0])
    value_GJ: Floats = np.add.reduceat((within_UJ - below_UJ) * mean_U[:, None], first_U, axis=0)
    return value_GJ


def pass_at_k_of_groups(label_N: Floats, group_N: Codes, k_J: Sequence[int]) -> Floats:
    """pass@k of every group for every k at once: P(at least one of k is resolved). value_GJ. Codes as in rm_at_k_of_groups."""
    size_G = np.bincount(group_N)
    failed_G = size_G - np.bincount(group_N, label_N)
    k_GJ = np.minimum(np.asarray(k_J), size_G[:, None])
    value_GJ: Floats = 1.0 - np.exp(log_choose(failed_G[:, None], k_GJ) - log_choose(size_G[:, None], k_GJ))
    return value_GJ


def rm_curve(table: Table, k_J: Sequence[int]) -> list[float]:
    """RM@k of a table for each k: mean over the tasks of each policy, averaged over policies."""
    return _means(table, rm_at_k_of_groups(table.score_N, table.label_N, table.group_N, k_J))


def pass_curve(table: Table, k_J: Sequence[int]) -> list[float]:
    """pass@k of a table for each k: mean over the tasks of each policy, averaged over policies."""
    return _means(table, pass_at_k_of_groups(table.label_N, table.group_N, k_J))


def rm_curve_across(table: Table, k_J: Sequence[int]) -> list[float]:
    """RM@k where the k attempts are drawn from those of all policies at a task: mean over tasks."""
    return [float(mean) for mean in rm_at_k_of_groups(table.score_N, table.label_N, table.task_N, k_J).mean(axis=0)]


def _means(table: Table, value_GJ: Floats) -> list[float]:
    return [table.over_policies(value_G, np.ones(table.groups)) for value_G in value_GJ.T]


def groups_at_k(group_N: Codes, k_J: Sequence[int]) -> list[int]:
    """How many groups have at least k attempts, for each k: the number that has to stand beside a curve."""
    size_G = np.bincount(group_N)
    return [int((size_G >= k).sum()) for k in k_J]


Points = NDArray[np.int64]
"""Scores in units of 1e-12, so that sums are exact."""
UNSCORED = -1
POINT = 1e12
SUBSETS = 1000
LARGEST_WORK = 1 << 25  # additions that one task may take; all tasks of up to 16 attempts take fewer


def weighted_vote(
    score_N: Floats, label_N: Floats, patch_N: Codes, k_J: Sequence[int], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """(value_J, variance_J): the expected label of the pick and the variance of that by drawing, 0 where it is exact.

    score_N: NaN = not scored; a patch of unscored attempts alone ranks below all others. patch_N: codes 0 .. P-1, all in use. The
    label of a patch is the mean of its attempts'. A tie at the top counts as the mean of the tied. k above N draws all.
    """
    size_P = np.bincount(patch_N)
    label_P = np.bincount(patch_N, label_N) / size_P
    point_N = np.where(np.isnan(score_N), UNSCORED, np.round(score_N * POINT)).astype(np.int64)
    drawn_J = [min(k, len(patch_N)) for k in k_J]
    if label_P.min() == label_P.max():  # whichever is picked
        return np.full(len(drawn_J), label_P[0]), np.zeros(len(drawn_J))
    value_K = _exact(point_N, label_P, patch_N)
    if value_K is not None:
        return value_K[drawn_J], np.zeros(len(drawn_J))
    pairs = [_by_draws(point_N, label_P[patch_N], patch_N, k, rng) for k in drawn_J]
    return np.array([value for value, _ in pairs]), np.array([variance for _, variance in pairs])


def _exact(point_N: Points, label_P: Floats, patch_N: Codes) -> Floats | None:
    """The value for each number of attempts drawn, 0 .. N; None where it takes too long."""
    attempts, size_P = len(point_N), np.bincount(patch_N)
    if 2.0 ** size_P.max() * attempts > LARGEST_WORK:
        return None
    subsets = [_subsets(point_N[patch_N == p]) for p in range(len(size_P))]
    most_P = np.array([sum_S.max() for sum_S, _ in subsets])
    top = int(most_P.argmax())
    second = int(np.delete(most_P, top).max())
    # Beyond what the others can reach, the top patch wins whatever they are.
    sum_S, count_S = subsets[top]
    rest = attempts - size_P[top]
    sure_K = np.zeros(attempts + 1)
    for a, ways in enumerate(np.bincount(count_S[sum_S > second], minlength=size_P[top] + 1)):
        sure_K[a : a + rest + 1] += ways * np.array([comb(rest, b) for b in range(rest + 1)], dtype=float)
    reached_V = np.unique(np.concatenate([sum_S[sum_S <= second] for sum_S, _ in subsets]))
    tied = int(np.sum([np.isin(reached_V, sum_S) for sum_S, _ in subsets], axis=0).max())
    if len(reached_V) * (tied + 1) * (attempts + 1) * attempts > LARGEST_WORK:
        return None
    # ways: draws in which t patches are at the sum and no patch is above it; right: the same, times the sum of their labels.
    ways_VTK = np.zeros((len(reached_V), tied + 1, attempts + 1))
    ways_VTK[:, 0, 0] = 1.0
    right_VTK = np.zeros_like(ways_VTK)
    for (sum_S, count_S), label in zip(subsets, label_P, strict=True):
        new_ways, new_right = ways_VTK.copy(), right_VTK.copy()  # none of this patch is drawn
        for size in range(1, int(count_S.max()) + 1):
            sorted_S = np.sort(sum_S[count_S == size])
            below_V = np.searchsorted(sorted_S, reached_V, side="left")
            at_V = (np.searchsorted(sorted_S, reached_V, side="right") - below_V)[:, None, None]
            below_V = below_V[:, None, None]
            ways, right = ways_VTK[..., :-size], right_VTK[..., :-size]
            new_ways[..., size:] += below_V * ways
            new_right[..., size:] += below_V * right
            new_ways[:, 1:, size:] += at_V * ways[:, :-1]
            new_right[:, 1:, size:] += at_V * (right + label * ways)[:, :-1]
        ways_VTK, right_VTK = new_ways, new_right
    mean_K = (right_VTK[:, 1:] / np.arange(1, tied + 1)[:, None]).sum(axis=(0, 1))
    draws_K = np.array([comb(attempts, k) for k in range(attempts + 1)], dtype=float)
    value_K: Floats = (mean_K + label_P[top] * sure_K) / draws_K
    return value_K


def _subsets(point_N: Points) -> tuple[Points, Codes]:
    """Sum of the scored and number of attempts of each subset but the empty one; UNSCORED where none of it is scored."""
    sum_S, count_S, scored_S = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.intp), np.zeros(1, dtype=bool)
    for point in point_N:
        is_scored = point != UNSCORED
        sum_S = np.concatenate([sum_S, sum_S + (point if is_scored else 0)])
        count_S, scored_S = np.concatenate([count_S, count_S + 1]), np.concatenate([scored_S, scored_S | is_scored])
    return np.where(scored_S, sum_S, UNSCORED)[1:], count_S[1:]


def _by_draws(
    point_N: Points, label_N: Floats, patch_N: Codes, k: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean over all draws of k attempts where there are at most SUBSETS, else over as many seeded ones, and its variance."""
    if comb(len(point_N), k) <= SUBSETS:
        drawn_SK = np.array(list(combinations(range(len(point_N)), k)))
        return float(picked(patch_N, point_N, label_N, drawn_SK).mean()), 0.0
    drawn_SK = rng.permuted(np.tile(np.arange(len(point_N)), (SUBSETS, 1)), axis=1)[:, :k]
    value_S = picked(patch_N, point_N, label_N, drawn_SK)
    return float(value_S.mean()), float(value_S.var() / SUBSETS)


def picked(patch_N: Codes, point_N: Points, label_N: Floats, drawn_SK: Codes) -> Floats:
    """Expected label of the pick in each of S draws: the mean label of the drawn attempts of the patch with the most points."""
    draws, k = drawn_SK.shape
    shape = (draws, int(patch_N.max()) + 1)
    count_SP, right_SP, scored_SP = np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=bool)
    point_SP = np.zeros(shape, dtype=np.int64)
    at = (np.repeat(np.arange(draws), k), patch_N[drawn_SK].ravel())
    point = point_N[drawn_SK].ravel()
    np.add.at(count_SP, at, 1.0)
    np.add.at(right_SP, at, label_N[drawn_SK].ravel())
    np.add.at(point_SP, at, np.maximum(point, 0))
    np.logical_or.at(scored_SP, at, point != UNSCORED)
    rank_SP = np.where(count_SP > 0, np.where(scored_SP, point_SP, UNSCORED), UNSCORED - 1)
    most_SP = rank_SP == rank_SP.max(axis=1, keepdims=True)
    rate_SP = np.divide(right_SP, count_SP, out=np.zeros_like(count_SP), where=count_SP > 0)
    return np.asarray((rate_SP * most_SP).sum(axis=1) / most_SP.sum(axis=1), dtype=np.float64)
