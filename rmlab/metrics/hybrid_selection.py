"""Selection by tests, by a score, and by both: what do test results add to a verifier?

R2E-Gym's three selectors (Jain et al. 2025, arXiv 2504.07164, and its published notebook) of k drawn attempts:
execution_free: the best score. execution_based: the most regression tests passed, then the best on generated tests.
hybrid: of the max(3, floor(k/2)) best scores (ties by regression, then generated tests), the most regression tests passed, then
the best on generated tests, then the best score. Remaining ties count as the mean of the tied attempts. The notebook draws 1,000
subsets per task and k; here all values are exact expectations over draws without replacement.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rmlab.metrics.best_of_k import log_choose, rm_at_k_of_groups, sizes_of_k
from rmlab.metrics.table import Codes, Floats, mean_where_defined, ratio, sum_by
from rmlab.scores.scores import Scores

LEAST_KEPT = 3


@dataclass(frozen=True)
class SelectionCurves:
    """{"k": expected label of the pick} of each selector, means over the tasks of each policy, averaged over policies.

    untested: labelled attempts without a result of tests; they rank below every tested one.
    """

    execution_free: dict[str, float]
    execution_based: dict[str, float]
    hybrid: dict[str, float]
    untested: int


def kept(k: int) -> int:
    """How many of k drawn attempts the hybrid keeps by score."""
    return min(max(LEAST_KEPT, k // 2), k)


def select_by_tests(
    scores: Scores, regression_N: Floats, reproduction_N: Floats, k_J: Sequence[int] | None = None
) -> SelectionCurves:
    """The three curves over the labelled rows. regression_N, reproduction_N: results of tests, one a row, NaN = not run.

    k_J: sizes of k; None = as in the report.
    """
    labelled = ~np.isnan(scores.resolved)
    rows = scores.select(labelled)
    regression_N, reproduction_N = regression_N[labelled], reproduction_N[labelled]
    _, policy_N = np.unique(rows.policy, return_inverse=True)
    _, task_N = np.unique(rows.task_id, return_inverse=True)
    policies = int(policy_N.max(initial=-1)) + 1
    pair_G, group_N = np.unique(task_N * max(policies, 1) + policy_N, return_inverse=True)
    policy_G = pair_G % max(policies, 1)
    k_J = sizes_of_k(int(np.bincount(group_N).max(initial=0))) if k_J is None else list(k_J)

    def ranked(value_N: Floats) -> Floats:
        return np.where(np.isnan(value_N), -np.inf, value_N)

    score_N, regression_N, reproduction_N = ranked(rows.score), ranked(regression_N), ranked(reproduction_N)
    by_tests_N = _dense(regression_N, reproduction_N)
    hybrid_GJ = np.array(
        [
            hybrid_of_group(
                _dense(score_N[g], regression_N[g], reproduction_N[g]),
                _dense(regression_N[g], reproduction_N[g], score_N[g]),
                rows.resolved[g],
                k_J,
            )
            for g in _members(group_N)
        ]
    ).reshape(-1, len(k_J))
    values = {
        "execution_free": rm_at_k_of_groups(score_N, rows.resolved, group_N, k_J),
        "execution_based": rm_at_k_of_groups(by_tests_N.astype(float), rows.resolved, group_N, k_J),
        "hybrid": hybrid_GJ,
    }

    def curve(value_GJ: Floats) -> dict[str, float]:
        count_P = np.bincount(policy_G, minlength=policies).astype(float)
        return {
            str(k): float(mean_where_defined(ratio(sum_by(policy_G, value_G, policies), count_P)))
            for k, value_G in zip(k_J, value_GJ.T, strict=True)
        }

    untested = int((~np.isfinite(regression_N) | ~np.isfinite(reproduction_N)).sum())
    return SelectionCurves(**{name: curve(value_GJ) for name, value_GJ in values.items()}, untested=untested)


def hybrid_of_group(first_N: Codes, second_N: Codes, label_N: Floats, k_J: Sequence[int]) -> Floats:
    """Expected label of the hybrid's pick from one group, for each k. value_J.

    first_N, second_N: dense ranks (0 = worst) by (score, regression, generated) and by (regression, generated, score): equal
    where all three are, so both order the same classes of equal rows.

    f(S) = P(no row of S among the kept) for S = the classes from the best by the second order on; a class is picked with
    probability f(S without it) - f(S with it). No row of S is kept where none is drawn, or where the first drawn one, by the
    first order, comes after as many drawn others as are kept.
    """
    count = len(label_N)
    by_first = np.argsort(-first_N, kind="stable")
    second_N, label_N = second_N[by_first], label_N[by_first]
    classes = np.unique(second_N)[::-1]  # the best by the second order first
    # inside_CN: row n (by the first order) is in S = the best c + 1 classes.
    inside_CN = second_N[None, :] >= classes[:, None]
    ahead_CN: Codes = np.cumsum(~inside_CN, axis=1) - ~inside_CN  # others ahead of each row
    after_N = count - 1 - np.arange(count)
    mean_C = np.array([label_N[second_N == c].mean() for c in classes])
    value_J = np.zeros(len(k_J))
    for j, size in enumerate(k_J):
        k = min(size, count)
        table_AB = _enough_ahead(count, k, kept(k))
        none_drawn_C = np.exp(log_choose(count - inside_CN.sum(axis=1), k) - log_choose(count, k))
        missed_C = none_drawn_C + (table_AB[ahead_CN, after_N[None, :]] * inside_CN).sum(axis=1)
        value_J[j] = -np.diff(missed_C, prepend=1.0) @ mean_C
    return value_J


_tables: dict[tuple[int, int, int], Floats] = {}


def _enough_ahead(count: int, k: int, keep: int) -> Floats:
    """P(a row is drawn, at least `keep` of the a others ahead of it are, none of S ahead is, the rest comes from b rows after it).

    Draws of k from `count` rows. table_AB for a, b = 0 .. count - 1.
    """
    key = (count, k, keep)
    if key not in _tables:
        a, b = np.arange(count)[:, None], np.arange(count)[None, :]
        table = np.zeros((count, count))
        for ahead in range(keep, k):
            table += np.exp(log_choose(a, ahead) + log_choose(b, k - 1 - ahead) - log_choose(count, k))
        if len(_tables) > 1000:
            _tables.clear()
        _tables[key] = table
    return _tables[key]


def _dense(*columns: Floats) -> Codes:
    """Dense ranks of rows by the first column, then the second, ...: 0 = the least."""
    if not len(columns[0]):
        return np.zeros(0, dtype=np.intp)
    order = np.lexsort(columns[::-1])
    changes = np.zeros(len(order), dtype=np.intp)
    for column in columns:
        ordered = column[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.cumsum(changes)
    return rank


def _members(group_N: Codes) -> list[Codes]:
    order = np.argsort(group_N, kind="stable")
    return [np.asarray(rows) for rows in np.split(order, np.cumsum(np.bincount(group_N))[:-1])] if len(group_N) else []
