"""Which attempts a collection consists of: of each part so many tasks, by which policies, how often."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rmlab.errors import UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.loading import LoadedTasks
from rmlab.microswe.task import Task
from rmlab.policies.rollout import PlannedTask
from rmlab.trajectories.record import SPLITS
from rmlab.wording import counted


@dataclass
class PartConfig:
    """What is collected of one part. policies: names, empty = all. tasks: null = all. attempts: number per policy and task."""

    policies: list[str] = field(default_factory=list)
    tasks: int | None = 0
    attempts: int = 1


@dataclass
class PartsConfig:
    """The five parts; by default nothing is collected of a part."""

    supervised: PartConfig = field(default_factory=PartConfig)
    verifier: PartConfig = field(default_factory=PartConfig)
    validation: PartConfig = field(default_factory=PartConfig)
    rl: PartConfig = field(default_factory=PartConfig)
    evaluation: PartConfig = field(default_factory=PartConfig)


def planned_attempts(loaded: LoadedTasks, parts: PartsConfig, names: Sequence[str], seed: int) -> list[PlannedTask]:
    """Every attempt that is to be made, part by part and task by task, as the set has them.

    names: of all policies. seed: of the choice of tasks. Raises UsageError where a part cannot be filled, or nothing is asked for.
    """
    planned: list[PlannedTask] = []
    for name in sorted(SPLITS):
        part: PartConfig = getattr(parts, name)
        if part.tasks == 0:
            continue
        unknown = set(part.policies) - set(names)
        if unknown:
            raise UsageError(
                f"parts.{name}.policies names {sorted(unknown)[0]}, which is not configured (there are "
                f"{', '.join(names)}). Add it to policy=[...], or set parts.{name}.policies=[] for all, "
                f"or parts.{name}.tasks=0 for none."
            )
        tasks = choose(loaded.part(name), part.tasks, seed)
        if part.tasks is not None and len(tasks) < part.tasks:
            raise UsageError(
                f"parts.{name}.tasks={part.tasks} cannot be filled: that part has {counted(len(tasks), 'task')} here. "
                "Lower it, or set it to null for all."
            )
        policies = tuple(sorted(part.policies or names))
        planned += (PlannedTask(task, policies, part.attempts) for task in sorted(tasks, key=lambda t: t.task_id))
    if not sum(map(len, planned)):
        raise UsageError(
            "there is nothing to collect: every part has tasks=0 or attempts=0. "
            + (
                f"Set parts.{asked[0]}.attempts to 1 or more."
                if (asked := [name for name in SPLITS if getattr(parts, name).tasks != 0])
                else "Set e.g. parts.verifier.tasks=20."
            )
        )
    return planned


def choose(tasks: Sequence[Task], number: int | None, seed: int) -> list[Task]:
    """So many tasks in an order drawn by seed: one of every cluster before the second of any; all where number is null."""
    drawn = sorted(tasks, key=lambda t: fingerprint([seed, t.task_id]))
    seen: Counter[str] = Counter()
    ranked = []
    for task in drawn:
        ranked.append((seen[task.cluster], task))
        seen[task.cluster] += 1
    ordered = [task for _, task in sorted(ranked, key=lambda pair: pair[0])]
    return ordered if number is None else ordered[:number]
