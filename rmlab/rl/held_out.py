"""How good is a policy on tasks that it was not trained on?

Four held-out benchmarks, all of the evaluation part (functions that no part shares): `new` functions of the sources that it was
trained on, the `withheld` family of functions, `two_bugs` (two changed lines: hardly any is mended where edits start over, and they
stay in what is said of all), and `long` functions. A task stands in one of them.
"""

from collections.abc import Collection, Sequence

from rmlab.errors import UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.task import Task

NAMES = ("new", "withheld", "two_bugs", "long")


def benchmarks(tasks: Sequence[Task], number: int | None, long_lines: int, seed: int = 0) -> dict[str, list[Task]]:
    """Name to tasks of the evaluation part, at most `number` each (None = all), in an order drawn by seed.

    tasks: of all parts; the withheld sources are those that the RL part does not have. A benchmark without tasks is left out.
    """
    trained = {task.source for task in tasks if task.part == "rl"}
    tasks_of: dict[str, list[Task]] = {name: [] for name in NAMES}
    for task in tasks:
        if task.part == "evaluation":
            tasks_of[_name(task, trained, long_lines)].append(task)
    drawn = {name: sorted(own, key=lambda t: fingerprint([seed, t.task_id]))[:number] for name, own in tasks_of.items()}
    return {name: own for name, own in drawn.items() if own}


def _name(task: Task, trained: set[str], long_lines: int) -> str:
    if len(task.lines) > 1:
        return "two_bugs"
    if task.source not in trained:
        return "withheld"
    return "long" if task.code.count("\n") + 1 >= long_lines else "new"


def pooled_benchmarks(held_out: Collection[str], without: Collection[str]) -> list[str]:
    """The benchmarks that `all` is over. Raises UsageError for one to leave out that is none, or where none is left."""
    if unknown := sorted(set(without) - set(NAMES)):
        raise UsageError(f"{', '.join(unknown)} is no held-out benchmark: they are {', '.join(NAMES)}")
    left = [name for name in held_out if name not in without]
    if held_out and not left:
        raise UsageError(f"without {', '.join(sorted(without))} no held-out benchmark is left of {', '.join(held_out)}")
    return left
