"""What may be added to the part `rl` beside a tasks file whose five parts are final?

The cluster rule is asked over the functions of both files together. What is alike to a function of another part stays out,
and so does what would join two clusters that are apart in the file. Clusters that reach into the file keep its names.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rmlab.errors import DataError
from rmlab.microswe.build.clusters import clusters
from rmlab.microswe.build.functions import Function
from rmlab.microswe.build.trial import Tested
from rmlab.microswe.task import Task, read_tasks
from rmlab.trajectories.record import Split

ADDED: Split = "rl"
"""The only part that anything is added to."""


@dataclass(frozen=True)
class BaseTasks:
    """A finished tasks file. withheld: its family that stands in evaluation only, "" for none."""

    tasks: tuple[Task, ...]
    withheld: str = ""
    fingerprint: str = ""

    @cached_property
    def functions(self) -> dict[str, Task]:
        """Function id to a task of it, which holds its text, its inputs and its part."""
        return {task.function_id: task for task in reversed(self.tasks)}

    @cached_property
    def of_function(self) -> Counter[str]:
        """Tasks that are there, by function."""
        return Counter(task.function_id for task in self.tasks)

    @cached_property
    def codes(self) -> frozenset[tuple[str, str]]:
        """(function id, wrong text) of every task."""
        return frozenset((task.function_id, task.code) for task in self.tasks)


def read_base_tasks(path: Path) -> BaseTasks:
    """Reads the file. Raises DataError where it is not a tasks file or has no task of the part `rl`."""
    tasks, metadata = read_tasks(path)
    if not any(task.part == ADDED for task in tasks):
        raise DataError(
            f"beside={path} has no task of the part {ADDED}, which is the part that a file beside it adds to"
        )
    return BaseTasks(tuple(tasks), metadata.get("withheld", ""), metadata["fingerprint"])


def own_functions(base: BaseTasks) -> list[Tested]:
    """The functions of the file's part `rl`, with the inputs that they have there, by id."""
    return [tested for tested in functions_of(base) if base.functions[tested.function.function_id].part == ADDED]


def functions_of(base: BaseTasks) -> list[Tested]:
    """All functions of the file, with the inputs that they have there, by id."""
    return [
        Tested(
            Function(task.function_id, task.package, task.source, task.entry, task.context, task.original, "", (), ()),
            task.inputs,
            task.outputs,
            guessed=False,
        )
        for _, task in sorted(base.functions.items())
    ]


def admitted(candidates: Sequence[Tested], base: BaseTasks) -> tuple[list[Tested], dict[str, Counter[str]]]:
    """The candidates that may join, in order, and by source how many may not, by reason.

    Functions that are in the file's part `rl` are not among those returned: `own_functions` has them. A text is taken once.
    """
    left_out: dict[str, Counter[str]] = defaultdict(Counter)
    new: list[Tested] = []
    texts = {(task.original, task.context) for task in base.functions.values() if task.part == ADDED}
    for tested in candidates:
        function = tested.function
        there = base.functions.get(function.function_id)
        if there is not None and there.part != ADDED:
            left_out[function.source][f"in {there.part}"] += 1
        elif there is None and (function.code, function.context) in texts:
            left_out[function.source]["repeated"] += 1
        elif there is None:
            texts.add((function.code, function.context))
            new.append(tested)
    cluster_of = _clusters([t.function for t in new], base)
    parts: dict[str, set[Split]] = defaultdict(set)
    names: dict[str, set[str]] = defaultdict(set)
    for function_id, task in base.functions.items():
        parts[cluster_of[function_id]].add(task.part)
        names[cluster_of[function_id]].add(task.cluster)
    kept = []
    for tested in new:
        cluster = cluster_of[tested.function.function_id]
        others = sorted(part for part in parts[cluster] if part != ADDED)
        if others:
            left_out[tested.function.source][f"alike to {others[0]}"] += 1
        elif len(names[cluster]) > 1:
            left_out[tested.function.source]["would join two clusters"] += 1
        else:
            kept.append(tested)
    return kept, left_out


def cluster_names(functions: Iterable[Function], base: BaseTasks) -> dict[str, str]:
    """Function id of each given function to its cluster: the file's name where the cluster reaches into it."""
    given = list(functions)
    cluster_of = _clusters([f for f in given if f.function_id not in base.functions], base)
    names = {cluster_of[function_id]: task.cluster for function_id, task in base.functions.items()}
    return {f.function_id: names.get(cluster_of[f.function_id], cluster_of[f.function_id]) for f in given}


def _clusters(new: Sequence[Function], base: BaseTasks) -> dict[str, str]:
    """The cluster rule over the functions of both, by function id."""
    codes = {i: task.original for i, task in base.functions.items()} | {f.function_id: f.code for f in new}
    contexts = {i: task.context for i, task in base.functions.items()} | {f.function_id: f.context for f in new}
    return clusters(codes, contexts)


def check_joined(first: Sequence[Task], more: Sequence[Task], name: str) -> None:
    """Whether the tasks of `more`, the file `name`, may be joined to the part `rl` of `first`.

    Raises DataError where it has other parts, repeats a task, or has a function in one cluster with a function of another
    part of `first`.
    """
    others = sorted({task.part for task in more if task.part != ADDED})
    if others:
        raise DataError(
            f"{name}: it has tasks of the part {others[0]}, but only a file whose tasks are all of the part {ADDED} can be added. "
            "Build one with `rmlab tasks build beside=FILE`."
        )
    known = {task.task_id for task in first}
    repeated = next((task.task_id for task in more if task.task_id in known), None)
    if repeated is not None:
        raise DataError(
            f"{name}: the task {repeated} is also in another tasks file. Name each file once, or build it with beside=FILE."
        )
    base = BaseTasks(tuple(first))
    wrong = {i for i, task in base.functions.items() if task.part != ADDED}
    new = {task.function_id: task for task in more}
    shared = next((i for i in new if i in wrong), None)
    if shared is None:
        functions = [own.function for own in _functions(new) if own.function.function_id not in base.functions]
        cluster_of = _clusters(functions, base)
        held = {cluster_of[i] for i in wrong}
        shared = next((f.function_id for f in functions if cluster_of[f.function_id] in held), None)
    if shared is not None:
        raise DataError(
            f"{name}: the function {shared} is in one cluster with a function of another part than {ADDED}: the five parts "
            "never mix. Build the file again with beside=FILE."
        )


def _functions(tasks: Mapping[str, Task]) -> list[Tested]:
    return own_functions(BaseTasks(tuple(tasks.values())))
