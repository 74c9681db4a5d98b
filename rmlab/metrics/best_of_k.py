"""Best of k: how good is the attempt that a score picks from k attempts at a task?

All values are exact expectations over draws without replacement (hypergeometric); nothing is sampled.
RM@k and pass@k as in SWE-RM (arXiv 2512.21919) and Chen et al. 2021 (arXiv 2107.03374).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
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
