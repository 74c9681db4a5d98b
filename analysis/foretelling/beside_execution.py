"""Do policies that a verifier and execution pay end above or below one that execution alone pays, from the very same weights?

Exploratory: in the plan no run of execution begins from the weights that the hybrid runs begin from. A rerun beyond the plan began from
those of one start. It is one policy with one RL seed, so every difference to it carries the deviation of that one run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.foretelling.runs import PaidRun, Study
from rmlab.metrics.uncertainty import Difference, paired_difference

BLOCK = "hybrid"


@dataclass(frozen=True)
class BesideExecution:
    """differences: pass@1 after RL of each hybrid run of a start, less that of execution, by the name of the run, paired by task.
    execution: the runs that execution pays and that began from the same weights; of several the mean of each task's rates is taken.
    other_seed: whether no hybrid run has the RL seed of one of them."""

    differences: Mapping[str, Difference]
    execution: Sequence[str]
    other_seed: bool

    @property
    def mean(self) -> float:
        return float(np.mean([one.difference for one in self.differences.values()]))

    @property
    def below(self) -> int:
        """How many are shown to end below (95 % interval)."""
        return sum(one.high < 0 for one in self.differences.values())

    @property
    def above(self) -> int:
        """How many are shown to end above."""
        return sum(one.low > 0 for one in self.differences.values())

    def rows(self, start: str) -> list[dict[str, Any]]:
        """The mean and both counts, a row each."""
        values = {"": self.mean, "_below": self.below, "_above": self.above}
        about = {"block": BLOCK, "start": start, "n": len(self.differences)}
        return [{**about, "kind": f"beside_execution{end}", "value": value} for end, value in values.items()]


def beside_execution(study: Study) -> dict[str, BesideExecution]:
    """By start of the plan, where some hybrid run began from the weights of a run that execution pays, of the plan or beyond it."""
    paid = [run for run in (*study.of("execution"), *study.again) if run.cell["block"] == "execution"]
    found = {}
    for start in sorted({run.cell["start"] for run in paid}):
        from_weights: dict[str, list[PaidRun]] = {}
        for run in paid:
            if run.cell["start"] == start:
                from_weights.setdefault(run.start, []).append(run)
        hybrids = [run for run in study.of(BLOCK) if run.start in from_weights]
        if not hybrids:
            continue
        used = [run for weights in dict.fromkeys(run.start for run in hybrids) for run in from_weights[weights]]
        differences = {
            run.cell["name"]: paired_difference(_mean_rates(from_weights[run.start]), run.rates, run.clusters)
            for run in hybrids
        }
        seeds = {run.cell["seed"] for run in hybrids}
        other_seed = not seeds & {run.cell["seed"] for run in used}
        found[start] = BesideExecution(differences, [run.policy.run.name for run in used], other_seed)
    return found


def _mean_rates(runs: Sequence[PaidRun]) -> dict[str, float]:
    """By task that all of them were judged on."""
    tasks = set.intersection(*(set(run.rates) for run in runs))
    return {task: float(np.mean([run.rates[task] for run in runs])) for task in sorted(tasks)}
