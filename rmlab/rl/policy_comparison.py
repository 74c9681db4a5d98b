"""Did one reward make a better policy than another, on the same held-out tasks?

Paired by task: pass@1 after training of A minus that of B, by benchmark and over all, with a cluster bootstrap's interval. What
another seed of RL would give is not in the interval.
"""

import json
from collections.abc import Collection
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rmlab.errors import DataError, MissingArtifact
from rmlab.metrics.uncertainty import paired_difference
from rmlab.rl.held_out import pooled_benchmarks

if TYPE_CHECKING:
    from rmlab.tracking.query import TrackedRun

RATES = "held_out.json"


def compare_policies(a: "TrackedRun", b: "TrackedRun", without: Collection[str] = ()) -> dict[str, Any]:
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


def _rates(run: "TrackedRun") -> Any:
    try:
        return json.loads(run.artifact(RATES).read_text(encoding="utf-8"))
    except MissingArtifact as error:
        raise DataError(
            f"{run.name} ({run.run_id}) kept no rates by task, so it cannot be compared in pairs: it is not finished, or "
            "older than this comparison. `rmlab figures rl_table` shows it beside the others."
        ) from error
