"""The labelled rows of a score table, with the groups that every metric needs.

Attempts are grouped by (task, policy): a verifier must not win by telling policies apart, so a grouped value is taken
per policy and averaged over the policies where it is defined. Clusters are what the bootstrap resamples.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rmlab.errors import DataError
from rmlab.scores.scores import Scores

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


def sum_by(code_N: Codes, value_N: Floats, codes: int) -> Floats:
    """Sum of the values of each code 0 .. codes - 1; 0 for a code without rows."""
    return np.asarray(np.bincount(code_N, value_N, codes), dtype=np.float64)


def ratio(part: Floats, whole: Floats) -> Floats:
    """part / whole of one shape; NaN where the whole is not above 0."""
    quotient: Floats = np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole > 0)
    return quotient


def mean_where_defined(value: Floats) -> Floats:
    """Mean over the last axis (policies) of what is not NaN; NaN where nothing is."""
    defined = ~np.isnan(value)
    count = defined.sum(axis=-1)
    total = np.where(defined, value, 0.0).sum(axis=-1)
    mean: Floats = np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)
    return mean


@dataclass(frozen=True, eq=False)
class Table:
    """N labelled rows, sorted by (task_id, policy, score, label, patch), so that no number depends on the order of a file.

    score_N: NaN = not scored. label_N: 1.0 = resolved. task_N, group_N, cluster_N: codes 0, 1, ... of the row's task,
    (task, policy) group and cluster. policy_G, cluster_G: policy and cluster of each group; cluster_T: of each task.
    unlabelled: rows of the score table without a label; they are in nothing else.
    patch_N: code of the row's patch, each within one group, an attempt without a patch with a code of its own; None where no
    attempt has a patch. priors: share of resolved attempts in training and in validation, where both are known.
    """

    score_N: Floats
    label_N: Floats
    task_N: Codes
    group_N: Codes
    cluster_N: Codes
    policy_G: Codes
    cluster_G: Codes
    cluster_T: Codes
    policies: int
    clusters: int
    unlabelled: int
    patch_N: Codes | None = None
    priors: tuple[float, float] | None = None

    @property
    def groups(self) -> int:
        return len(self.policy_G)

    @property
    def tasks(self) -> int:
        return len(self.cluster_T)

    @property
    def most_attempts(self) -> int:
        """The most attempts that one policy has at one task."""
        return int(np.bincount(self.group_N).max(initial=0))

    @property
    def most_attempts_across(self) -> int:
        """The most attempts at one task, of all policies."""
        return int(np.bincount(self.task_N).max(initial=0))

    @cached_property
    def scored(self) -> "Table":
        """The same table without the rows that have no score; groups, tasks and clusters keep their codes."""
        keep = ~np.isnan(self.score_N)
        return replace(
            self,
            score_N=self.score_N[keep],
            label_N=self.label_N[keep],
            task_N=self.task_N[keep],
            group_N=self.group_N[keep],
            cluster_N=self.cluster_N[keep],
            patch_N=None if self.patch_N is None else self.patch_N[keep],
        )

    def over_policies(self, sum_G: Floats, count_G: Floats) -> float:
        """Mean over policies of (sum over the policy's groups) / (count over them), where the count is above 0; NaN if nowhere."""
        count_P = sum_by(self.policy_G, count_G, self.policies)
        sum_P = sum_by(self.policy_G, sum_G, self.policies)
        return float(mean_where_defined(ratio(sum_P, count_P)))


def table(scores: Scores, priors: tuple[float, float] | None = None) -> Table:
    """Groups the labelled rows. Raises DataError where the attempts of one task lie in two clusters."""
    labelled = ~np.isnan(scores.resolved)
    unlabelled = int((~labelled).sum())
    rows = scores.select(labelled)
    _, task_N = np.unique(rows.task_id, return_inverse=True)
    _, policy_N = np.unique(rows.policy, return_inverse=True)
    names_C, cluster_N = np.unique(rows.cluster, return_inverse=True)
    policies = int(policy_N.max(initial=-1)) + 1
    pair_G, first_G, group_N = np.unique(task_N * max(policies, 1) + policy_N, return_index=True, return_inverse=True)
    _, first_T = np.unique(task_N, return_index=True)
    cluster_T = cluster_N[first_T]
    split = cluster_N != cluster_T[task_N]
    if split.any():
        row = int(np.flatnonzero(split)[0])
        raise DataError(
            f"task {rows.task_id[row]} lies in cluster {names_C[cluster_T[task_N[row]]]} and in cluster {rows.cluster[row]}: "
            "all attempts at a task belong to one cluster"
        )
    order = np.lexsort((rows.patch, rows.resolved, rows.score, group_N))
    return Table(
        score_N=rows.score[order],
        label_N=rows.resolved[order],
        task_N=task_N[order],
        group_N=group_N[order],
        cluster_N=cluster_N[order],
        policy_G=(pair_G % max(policies, 1)).astype(np.intp),
        cluster_G=cluster_N[first_G],
        cluster_T=cluster_T,
        policies=policies,
        clusters=len(names_C),
        unlabelled=unlabelled,
        patch_N=_patches(rows.patch[order], group_N[order]),
        priors=priors,
    )


def _patches(patch_N: NDArray[np.str_], group_N: Codes) -> Codes | None:
    """Codes 0, 1, ... of the (group, patch) pairs; None where there is no patch."""
    none_N = patch_N == ""
    if none_N.all():
        return None
    names, code_N = np.unique(patch_N, return_inverse=True)
    code_N = np.where(none_N, len(names) + np.arange(len(code_N)), code_N)
    return np.asarray(np.unique(group_N * (len(names) + len(code_N)) + code_N, return_inverse=True)[1], dtype=np.intp)
