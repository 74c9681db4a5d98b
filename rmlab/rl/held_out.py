"""How good is a policy on tasks that it was not trained on, and is it better than another policy there?

Four held-out benchmarks, all from the evaluation part (whose functions no other part shares): `new` functions from the sources that it
was trained on, the `withheld` family of functions, `two_bugs` (two changed lines; hardly any is solved where edits start over, but
they count in `all`), and `long` functions. Each task is in one of them.

Two policies are compared in pairs by task: pass@1 of A after training minus that of B, by benchmark and over all, with a
cluster-bootstrap interval. The interval does not include the variation between RL seeds.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rmlab.errors import DataError, MissingArtifact, UsageError
from rmlab.fingerprint import fingerprint
from rmlab.metrics.uncertainty import paired_difference
from rmlab.microswe.task import Task

if TYPE_CHECKING:
    from rmlab.tracking.bundles.reading import AnyRun

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
        raise UsageError(f"{', '.join(unknown)} is not a held-out benchmark; there are: {', '.join(NAMES)}")
    left = [name for name in held_out if name not in without]
    if held_out and not left:
        raise UsageError(
            f"without {', '.join(sorted(without))}, none of the held-out benchmarks {', '.join(held_out)} is left"
        )
    return left


RATES = "held_out.json"


def compare_policies(a: "AnyRun", b: "AnyRun", without: Collection[str] = ()) -> dict[str, Any]:
    """benchmarks: benchmark → way → before (B), after (A), difference. `all` is over all benchmarks but those in `without`.

    Tasks that only one of them was held out with are left out and counted (`unpaired`). Raises DataError where a run has no rates by
    task, or they have no task in common.
    """
    rates: dict[str, Any] = {}
    clusters: dict[str, str] = {}
    for name, run in (("a", a), ("b", b)):
        record = _rates(run)
        rates[name], clusters = record["after"], clusters | record["clusters"]
    ways = {
        benchmark: [way for way in own if way in rates["b"].get(benchmark, {})] for benchmark, own in rates["a"].items()
    }
    if not any(ways.values()):
        raise DataError(f"{a.name} and {b.name} have no held-out benchmark in common: there is nothing to compare")
    pooled = pooled_benchmarks([name for name, both in ways.items() if both], without)
    differences: dict[str, Any] = {}
    then_of: dict[str, dict[str, float]] = {}
    now_of: dict[str, dict[str, float]] = {}
    unpaired = len(_tasks(rates["a"]) ^ _tasks(rates["b"]))
    for benchmark, both in ways.items():
        for way in both:
            then, now = rates["b"][benchmark][way], rates["a"][benchmark][way]
            differences.setdefault(benchmark, {})[way] = asdict(paired_difference(then, now, clusters))
            if benchmark in pooled:
                then_of.setdefault(way, {}).update(then)
                now_of.setdefault(way, {}).update(now)
    differences["all"] = {way: asdict(paired_difference(then_of[way], now_of[way], clusters)) for way in now_of}
    return {"a": a.run_id, "b": b.run_id, "unpaired": unpaired, "benchmarks": differences}


def _tasks(rates: Any) -> set[str]:
    return {task for ways in rates.values() for by_task in ways.values() for task in by_task}


def _rates(run: "AnyRun") -> Any:
    try:
        return json.loads(run.artifact(RATES).read_text(encoding="utf-8"))
    except MissingArtifact as error:
        raise DataError(
            f"{run.name} ({run.run_id}) kept no rates by task, so it cannot be compared in pairs: it is not finished, too "
            "old for this comparison, or in a bundle that leaves them out. `rmlab figures rl_table` shows it beside the others."
        ) from error
