"""Which tasks of a file of further RL tasks teach demonstrations instead?

How an attempt goes is learned from demonstrations, and of too few functions it is learned for these alone. Whole clusters are
set apart, so that what a policy is shown and what it practises on never mix. A cluster that reaches into the file that the
tasks were built beside stays, since that file's parts are final.
"""

from collections.abc import Sequence
from dataclasses import replace

from rmlab.errors import UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.task import Task


def set_apart(
    tasks: Sequence[Task], beside: Sequence[Task], share: float, seed: int = 0
) -> tuple[list[Task], list[Task]]:
    """(those that stay, those that go to the part `supervised`). Deterministic by seed, in the order of `tasks`.

    beside: the tasks that they were built beside. share: of the tasks, reached by whole clusters in the order of their hash.
    Raises UsageError for a share that is not between 0 and 1, or that no whole cluster fits in.
    """
    if not 0 < share < 1:
        raise UsageError(f"share={share}: it must lie between 0 and 1")
    there = {task.cluster for task in beside}
    free = sorted({task.cluster for task in tasks} - there, key=lambda name: fingerprint(["apart", seed, name]))
    sizes = dict.fromkeys(free, 0)
    for task in tasks:
        if task.cluster in sizes:
            sizes[task.cluster] += 1
    going, taken = set[str](), 0
    for name in free:
        if taken + sizes[name] <= share * len(tasks):
            going.add(name)
            taken += sizes[name]
    if not going:
        raise UsageError(
            f"share={share}: no whole cluster is that small, so nothing would be set apart. Take a larger share."
        )
    stay = [task for task in tasks if task.cluster not in going]
    return stay, [replace(task, part="supervised") for task in tasks if task.cluster in going]
