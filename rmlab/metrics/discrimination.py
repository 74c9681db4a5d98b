"""Discrimination: does a resolved attempt score above an unresolved one?

Three AUCs, since they answer different questions. Pooled: any two attempts. Within task: two attempts at one task,
which is all that best-of-k and group-relative advantages see. Between tasks: two attempts at different tasks, which a
score that only knows how hard a task is already does well. Exactly: pooled = w·within + (1 - w)·between, with w the
share of pairs that lie within a task.
"""

from dataclasses import dataclass

import numpy as np

from rmlab.metrics.table import Codes, Floats, Table, sum_by


@dataclass(frozen=True)
class Pairs:
    """Pairs of a resolved and an unresolved attempt in each of G groups, and those won by the resolved one (a tie = 1/2)."""

    won_G: Floats
    all_G: Floats

    @property
    def auc(self) -> float:
        """Share of pairs won, every pair alike; NaN without a pair."""
        return float(self.won_G.sum() / self.all_G.sum()) if self.all_G.sum() else float("nan")


def pairs_in_groups(score_N: Floats, label_N: Floats, group_N: Codes, groups: int) -> Pairs:
    """Counts the pairs of each group. score_N: no NaN. group_N: codes below `groups`; a code without rows has no pairs."""
    order = np.lexsort((score_N, group_N))
    score_N, label_N, group_N = score_N[order], label_N[order], group_N[order]
    if not len(score_N):
        return Pairs(np.zeros(groups), np.zeros(groups))
    starts_U = np.flatnonzero(np.r_[True, (np.diff(group_N) != 0) | (np.diff(score_N) != 0)])
    group_U = group_N[starts_U]
    resolved_U = np.add.reduceat(label_N, starts_U)
    unresolved_U = np.add.reduceat(1.0 - label_N, starts_U)
    unresolved_G = sum_by(group_N, 1.0 - label_N, groups)
    resolved_G = sum_by(group_N, label_N, groups)
    below_U = np.cumsum(unresolved_U) - unresolved_U - (np.cumsum(unresolved_G) - unresolved_G)[group_U]
    won_G = sum_by(group_U, resolved_U * (below_U + unresolved_U / 2), groups)
    return Pairs(won_G, resolved_G * unresolved_G)


@dataclass(frozen=True)
class Discrimination:
    """The AUCs of a table; NaN = undefined.

    within_task: per policy, averaged. within_task_across: the same over pairs of one task and any policies, which is
    what the identity holds with (equal to within_task where there is one policy). pairs: pairs within groups.
    mixed: groups with both labels among their scored attempts.
    """

    pooled: float
    within_task: float
    within_task_across: float
    between_tasks: float
    within_pair_share: float
    mixed: int
    pairs: int


def discrimination(table: Table) -> Discrimination:
    """All AUCs over the scored rows of a table."""
    rows = table.scored
    pooled = auc(rows.score_N, rows.label_N)
    group = pairs_in_groups(rows.score_N, rows.label_N, rows.group_N, rows.groups)
    task = pairs_in_groups(rows.score_N, rows.label_N, rows.task_N, rows.tasks)
    pairs = float(rows.label_N.sum() * (1.0 - rows.label_N).sum())
    between = pairs - task.all_G.sum()
    return Discrimination(
        pooled=pooled,
        within_task=rows.over_policies(group.won_G, group.all_G),
        within_task_across=task.auc,
        between_tasks=float((pooled * pairs - task.won_G.sum()) / between) if between else float("nan"),
        within_pair_share=float(task.all_G.sum() / pairs) if pairs else float("nan"),
        mixed=int((group.all_G > 0).sum()),
        pairs=int(group.all_G.sum()),
    )


def auc(score_N: Floats, label_N: Floats) -> float:
    """Area under the ROC curve; NaN where only one class is there. score_N: no NaN."""
    from sklearn.metrics import roc_auc_score

    if len(np.unique(label_N)) < 2:
        return float("nan")
    return float(roc_auc_score(label_N, score_N))
