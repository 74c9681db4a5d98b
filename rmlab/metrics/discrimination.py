"""Discrimination: does a resolved attempt score above an unresolved one, and how much of that reaches the gradient?

There are three AUCs, because they answer different questions. Pooled: any two attempts. Within task: two attempts at one task,
which is all that best-of-k and group-relative advantages see. Between tasks: two attempts at different tasks, where a
score that only knows how hard a task is already does well. Exactly: pooled = w·within + (1 - w)·between, with w the
share of pairs that lie within a task.

Advantages: how well do a verifier's group-relative advantages agree in direction with the true ones? GRPO and GSPO centre the rewards
of one task's attempts, so only the centred scores reach the policy. A spread of scores among attempts that are all resolved, or all
unresolved, is pure noise in the gradient.
"""

from dataclasses import dataclass

import numpy as np

from rmlab.metrics.table import Codes, Floats, Table, mean_where_defined, sum_by


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


@dataclass(frozen=True)
class Centred:
    """Products of centred scores ŝ and centred labels ŷ of G groups: ⟨ŝ,ŷ⟩, |ŝ|², |ŷ|². Energy is exactly 0 where max = min."""

    product_G: Floats
    score_energy_G: Floats
    label_energy_G: Floats

    @property
    def cosine_G(self) -> Floats:
        """Cosine of ŝ and ŷ; 0 where the scores are constant (and where the labels are: see mixed_G)."""
        norm_G = np.sqrt(self.score_energy_G * self.label_energy_G)
        return np.divide(self.product_G, norm_G, out=np.zeros_like(norm_G), where=norm_G > 0)

    @property
    def mixed_G(self) -> Floats:
        """1.0 for a group with both labels."""
        return (self.label_energy_G > 0).astype(float)


def centred(score_N: Floats, label_N: Floats, group_N: Codes, groups: int) -> Centred:
    """Centres scores and labels within groups. score_N: no NaN. group_N: codes below `groups`; a group may be empty."""
    score_N, label_N = _centre(score_N, group_N, groups), _centre(label_N, group_N, groups)
    return Centred(
        sum_by(group_N, score_N * label_N, groups),
        sum_by(group_N, score_N**2, groups),
        sum_by(group_N, label_N**2, groups),
    )


def _centre(value_N: Floats, group_N: Codes, groups: int) -> Floats:
    size_G = np.maximum(np.bincount(group_N, minlength=groups), 1)
    mean_G = sum_by(group_N, value_N, groups) / size_G
    low_G, high_G = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(low_G, group_N, value_N)
    np.maximum.at(high_G, group_N, value_N)
    # A mean of equal numbers may be off by a rounding error, which would pass for energy.
    return np.where((low_G == high_G)[group_N], 0.0, value_N - mean_G[group_N])


@dataclass(frozen=True)
class Advantage:
    """cosine: what std-normalised advantages see. cosine_all: what unnormalised ones see. noise_share: share of Σ|ŝ|²
    in one-label groups. Each per policy, averaged over the policies where it is defined; NaN = nowhere."""

    cosine: float
    cosine_all: float
    noise_share: float


def advantage(table: Table) -> Advantage:
    """The three measures over the scored rows of a table."""
    rows = table.scored
    groups = centred(rows.score_N, rows.label_N, rows.group_N, rows.groups)
    mixed_G = groups.mixed_G
    energies = [
        sum_by(rows.policy_G, value_G, rows.policies)
        for value_G in (groups.product_G, groups.score_energy_G, groups.label_energy_G)
    ]
    return Advantage(
        cosine=rows.over_policies(groups.cosine_G * mixed_G, mixed_G),
        cosine_all=float(mean_where_defined(cosine_all(*energies))),
        noise_share=rows.over_policies(groups.score_energy_G * (1 - mixed_G), groups.score_energy_G),
    )


def cosine_all(product: Floats, score_energy: Floats, label_energy: Floats) -> Floats:
    """Σ⟨ŝ,ŷ⟩ / √(Σ|ŝ|² Σ|ŷ|²) of sums of any one shape; NaN where an energy is 0."""
    norm = np.sqrt(score_energy * label_energy)
    return np.divide(product, norm, out=np.full_like(norm, np.nan), where=norm > 0)
