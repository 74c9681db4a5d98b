"""How good is a policy on tasks that it was not trained on?

Four held-out benchmarks, all of the evaluation part (functions that no part shares): `new` functions of the sources that it was
trained on, the `withheld` family of functions, `two_bugs` (two changed lines: hardly any is mended where edits start over, and they
stay in what is said of all), and `long` functions. A task stands in one of them.
"""

from collections.abc import Sequence

from rmlab.fingerprint import fingerprint
from rmlab.microswe.task import Task
from rmlab.trajectories.record import Trajectory

NAMES = ("new", "withheld", "two_bugs", "long")


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


def rates_by_task(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """task_id to the share of its labelled attempts that are resolved."""
    labels: dict[str, list[bool]] = {}
    for trajectory in trajectories:
        if trajectory.resolved is not None:
            labels.setdefault(trajectory.task_id, []).append(trajectory.resolved)
    return {task: sum(own) / len(own) for task, own in labels.items()}
