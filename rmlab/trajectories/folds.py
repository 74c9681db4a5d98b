"""Which repositories are judged by a verifier that never saw them? Folds over whole repositories, each left out once.

Every fold has three parts that share no cluster: the judged part (its own repositories) and, from the repositories of the other
folds, a training part and a validation part. Each attempt is judged in exactly one fold, so that the scores of all folds form
one table: out-of-fold scores. Unseen policies are only judged.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from rmlab.errors import DataError, UsageError
from rmlab.trajectories.leakage import issues_of, near_duplicates
from rmlab.trajectories.record import Split, Trajectory
from rmlab.trajectories.splitting import by_size, group_name, groups_of

SEMANTICS = 1
"""Bumped when the same pool and configuration give other folds."""


@dataclass
class FoldsConfig:
    """number: folds, at least 2. validation: share of the tasks outside the judged fold that goes to validation (whole repositories).

    seed: breaks ties between repositories of the same size; separate from the cell's seed, so that all cells have the same folds.
    least: overlap from which issues count as the same, so that their repositories stay together; 0 = do not compare. unseen:
    policies that are judged in every fold but never trained on.
    """

    number: int = 3
    validation: float = 0.15
    seed: int = 0
    least: float = 0.8
    unseen: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Fold:
    """number: from 1. trajectories: of the whole pool, with the part that each has in this fold (None = not read)."""

    number: int
    trajectories: tuple[Trajectory, ...]

    def clusters(self, part: Split) -> list[str]:
        """Repositories of a part, in order."""
        return sorted({t.cluster for t in self.trajectories if t.split == part})


def folds_of(trajectories: Sequence[Trajectory], config: FoldsConfig) -> list[Fold]:
    """The folds of a pool; parts that it already has do not count.

    Folds are as even as whole repositories allow, counted in tasks of the policies that are trained on. Raises UsageError for
    settings that make no sense, DataError where there are too few repositories.
    """
    check_folds({t.policy for t in trajectories}, config)
    unseen = set(config.unseen)
    ordered = sorted(trajectories, key=lambda t: (t.policy in unseen, t.task_id, t.policy, t.attempt))
    cluster = {t.task_id: t.cluster for t in reversed(ordered)}  # as the first attempt at a task has it
    counted = {t.task_id for t in ordered if t.policy not in unseen}
    groups = groups_of(cluster, near_duplicates(issues_of(ordered), config.least) if config.least > 0 else [])
    # A group weighs as many tasks as verifiers are trained on. Those that only unseen policies tried are placed by themselves.
    taught = [[task for task in group if task in counted] for group in groups]
    heavy, others = (
        [own for own in taught if own],
        [group for group, own in zip(groups, taught, strict=True) if not own],
    )
    if len(heavy) < config.number + 1:
        raise DataError(
            f"{len(heavy)} groups of repositories cannot make {config.number} folds with a validation part: "
            "lower folds.number, or use attempts at more repositories"
        )
    shares = [(number, 1 / config.number) for number in range(1, config.number + 1)]
    placed = by_size(heavy, shares, config.seed) | by_size(others, shares, config.seed)
    name = {task: group_name(group, cluster, task) for group in groups for task in group}
    return [_fold(number, trajectories, groups, taught, placed, name, config) for number, _ in shares]


def _fold(
    number: int,
    trajectories: Sequence[Trajectory],
    groups: Sequence[Sequence[str]],
    taught: Sequence[Sequence[str]],
    placed: dict[str, int],
    name: dict[str, str],
    config: FoldsConfig,
) -> Fold:
    """taught: of each group, in order, the tasks that verifiers are trained on. placed: task → the fold that judges it."""
    rest = [tasks for tasks in taught if tasks and placed[tasks[0]] != number]
    shares: list[tuple[Split, float]] = [("verifier", 1 - config.validation), ("validation", config.validation)]
    if len(rest) < len(shares):
        raise DataError(
            f"fold {number} leaves a single group of repositories for both training and validation: raise folds.number, or "
            "use attempts at more repositories"
        )
    part_of = by_size(rest, shares, config.seed)
    part: dict[str, Split | None] = {}
    for group, tasks in zip(groups, taught, strict=True):
        first = (tasks or group)[0]
        own = "evaluation" if placed[first] == number else part_of.get(first)
        part.update((task, own) for task in group)
    unseen = set(config.unseen)

    def of_fold(t: Trajectory) -> Trajectory:
        own = part[t.task_id]
        return replace(t, cluster=name[t.task_id], split=own if own == "evaluation" or t.policy not in unseen else None)

    return Fold(number, tuple(of_fold(t) for t in trajectories))


def check_folds(policies: Collection[str], config: FoldsConfig) -> None:
    """Raises UsageError for settings that make no sense. policies: those of the pool."""
    if config.number < 2:
        raise UsageError(f"folds.number={config.number}: must be at least 2, or nothing is left to train on")
    if not 0 < config.validation < 1:
        raise UsageError(f"folds.validation={config.validation}: must be a share between 0 and 1")
    for name in config.unseen:
        if name not in policies:
            raise UsageError(
                f"folds.unseen names {name!r}, which the pool does not have; it has {', '.join(sorted(policies))}. Name "
                "policies of the pool, or none (folds.unseen=[])."
            )
    if policies and set(policies) <= set(config.unseen):
        raise UsageError(f"folds.unseen={list(config.unseen)} names every policy of the pool: none is left to train on")
