"""In which of the five parts does each cluster stand?

Whole clusters are dealt out, source by source, to the part that is furthest below its share of tasks. One source is
withheld: it stands in evaluation only, so that evaluation also asks about functions of a kind never trained on.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from rmlab.errors import UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.task import Task
from rmlab.trajectories.record import Split

SHARES: dict[Split, float] = {"supervised": 0.22, "verifier": 0.38, "validation": 0.06, "rl": 0.16, "evaluation": 0.18}
"""Share of the tasks of every source that is not withheld."""


def deal(
    sizes: Mapping[str, Mapping[str, int]], withheld: str, seed: int, shares: Mapping[Split, float] = SHARES
) -> dict[str, Split]:
    """Cluster to part.

    sizes: source -> cluster -> tasks. A cluster that reaches over several sources counts where most of its tasks are,
    and goes to evaluation where any of them is withheld. withheld: a source, or "" for none. Deterministic by seed.
    """
    parts: dict[str, Split] = dict.fromkeys(sizes.get(withheld, {}), "evaluation")
    home: dict[str, str] = {}
    total: dict[str, int] = {}
    for source, clusters in sizes.items():
        for cluster, tasks in clusters.items():
            total[cluster] = total.get(cluster, 0) + tasks
            if tasks > sizes.get(home.get(cluster, ""), {}).get(cluster, 0):
                home[cluster] = source
    for source in sorted(sizes):
        names = [c for c in home if home[c] == source and c not in parts]
        # large clusters first: the small ones that follow even the shares out
        names.sort(key=lambda c: (-total[c] // 24, fingerprint([seed, c])))
        dealt: dict[Split, Fraction] = dict.fromkeys(shares, Fraction(0))
        for cluster in names:
            part = min(shares, key=lambda p: (dealt[p] + total[cluster] / 2) / Fraction(shares[p]))
            dealt[part] += total[cluster]
            parts[cluster] = part
    return parts


def counted(tasks: Sequence[Task]) -> dict[str, Any]:
    """What a tasks file states of its tasks: how many there are of what, by part, source and operator."""
    cluster_of = {task.function_id: task.cluster for task in tasks}
    sizes = Counter(cluster_of.values())
    largest, most = min(sizes.items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "tasks": len(tasks),
        "functions": len(cluster_of),
        "clusters": len(sizes),
        "largest_cluster": {"name": largest, "functions": most},
        "tasks_of_largest_cluster": sum(t.cluster == largest for t in tasks),
        "by_part": {part: Counter(t.source for t in tasks if t.part == part) for part in SHARES},
        "by_source": dict(sorted(Counter(t.source for t in tasks).items())),
        "functions_by_part": {part: len({t.function_id for t in tasks if t.part == part}) for part in SHARES},
        "two_bugs": sum(len(t.lines) == 2 for t in tasks),
        "operators": Counter(name for t in tasks for name in t.operators),
    }


def demonstration_split(
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
