"""How good is a policy on tasks that it was not trained on, and did training make it better or worse?

Four held-out benchmarks, all of the evaluation part (functions that no part shares): `new` functions of the sources that it was
trained on, the `withheld` family of functions, `two_bugs` (two changed lines: nobody mends them where edits start over, and they
stay in what is said of all), and `long` functions. A task stands in one of them. Two looks at the
same tasks are compared in pairs: clusters of tasks are resampled, and the difference with them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rmlab.errors import DataError
from rmlab.fingerprint import fingerprint
from rmlab.metrics.uncertainty import cluster_weights
from rmlab.microswe.task import Task
from rmlab.trajectories.record import Trajectory

NAMES = ("new", "withheld", "two_bugs", "long")
REPLICATES = 2000


def benchmarks(tasks: Sequence[Task], number: int | None, long_lines: int, seed: int = 0) -> dict[str, list[Task]]:
    """Name to tasks of the evaluation part, at most `number` each (None = all), in an order drawn by seed.

    tasks: of all parts; the withheld sources are those that the RL part does not have. A benchmark without tasks is left out.
    """
    trained = {task.source for task in tasks if task.part == "rl"}
    found: dict[str, list[Task]] = {name: [] for name in NAMES}
    for task in tasks:
        if task.part == "evaluation":
            found[_name(task, trained, long_lines)].append(task)
    drawn = {name: sorted(own, key=lambda t: fingerprint([seed, t.task_id]))[:number] for name, own in found.items()}
    return {name: own for name, own in drawn.items() if own}


def _name(task: Task, trained: set[str], long_lines: int) -> str:
    if len(task.lines) > 1:
        return "two_bugs"
    if task.source not in trained:
        return "withheld"
    return "long" if task.code.count("\n") + 1 >= long_lines else "new"


def task_rates(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """task_id to the share of its labelled attempts that are resolved."""
    labels: dict[str, list[bool]] = {}
    for trajectory in trajectories:
        if trajectory.resolved is not None:
            labels.setdefault(trajectory.task_id, []).append(trajectory.resolved)
    return {task: sum(own) / len(own) for task, own in labels.items()}


@dataclass(frozen=True)
class Difference:
    """pass@1 now minus then, on the tasks of both, with the 2.5 % and 97.5 % quantiles of its cluster bootstrap."""

    before: float
    after: float
    difference: float
    low: float
    high: float
    tasks: int

    @property
    def collapsed(self) -> bool:
        """Lower than before, one-sided at 97.5 % (design.md section 5)."""
        return self.high < 0


def paired_difference(before: Mapping[str, float], after: Mapping[str, float], cluster_of: Mapping[str, str], seed: int = 0) -> Difference:
    """Two looks at the same tasks. before, after: task_id to resolved share. Raises DataError where no task is in both."""
    tasks = sorted(before.keys() & after.keys())
    if not tasks:
        raise DataError("the two looks have no task in common: there is nothing to compare")
    names = sorted({cluster_of[task] for task in tasks})
    code = {name: i for i, name in enumerate(names)}
    cluster_K = np.array([code[cluster_of[task]] for task in tasks])
    before_K, after_K = np.array([before[t] for t in tasks]), np.array([after[t] for t in tasks])
    sum_C = np.bincount(cluster_K, after_K - before_K, len(names))
    count_C = np.bincount(cluster_K, minlength=len(names)).astype(float)
    value_R = np.concatenate([(w_RC @ sum_C) / (w_RC @ count_C) for w_RC in cluster_weights(len(names), REPLICATES, seed)])
    low, high = np.quantile(value_R, [0.025, 0.975])
    first, last = float(before_K.mean()), float(after_K.mean())
    return Difference(first, last, last - first, float(low), float(high), len(tasks))
