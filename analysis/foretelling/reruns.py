"""How far does a run of which_metric_foretells_rl end from where it ended, when it is repeated from another start with another RL seed?

The causal experiments repeat each condition so: their starts were trained again, and their verifier too. What they deviate by gives an
interval for any other rerun (a prediction interval by t), and reruns beyond the plan are held against it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from analysis.foretelling.causal import BLOCKS
from analysis.foretelling.runs import PaidRun, Study
from rmlab.metrics.uncertainty import prediction_interval


@dataclass(frozen=True)
class RerunSpread:
    """deviation: standard deviation of pass@1 over the runs of one condition, pooled over `conditions` with `runs` runs in all."""

    deviation: float
    conditions: int
    runs: int

    @property
    def degrees(self) -> int:
        """Degrees of freedom, if the runs of one RL seed were independent. They share a start across conditions, so there are fewer."""
        return self.runs - self.conditions

    def interval(self, outcomes_by_start: Mapping[str, Sequence[float]]) -> tuple[float, float]:
        """Where one further run of a cell from another start should end in 95 % of cases. outcomes_by_start: of its runs so far, by the
        start that they began from: what a start adds to its runs is averaged over starts, not over runs."""
        middle = float(np.mean([outcome for own in outcomes_by_start.values() for outcome in own]))
        return prediction_interval(middle, self.deviation, self.degrees, len(outcomes_by_start))


@dataclass(frozen=True)
class Rerun:
    """A run that the plan does not have, of a cell that it has. name: of the run. block: of its cell. outcome: pass@1 after RL. low,
    high: of the 95 % interval for it. outcomes: how many runs of the plan the interval lies around."""

    name: str
    block: str
    outcome: float
    low: float
    high: float
    outcomes: int

    @property
    def inside(self) -> bool:
        """Whether it ended within its interval."""
        return self.low <= self.outcome <= self.high


def rerun_spread(study: Study, verifier: str | None = None) -> RerunSpread | None:
    """Of the causal experiments, or of those that a role of a verifier pays; None where no condition has been run from two starts."""
    found: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for run in (run for block in BLOCKS for run in study.of(block)):
        if verifier in (None, run.cell["verifier"]):
            condition = (run.cell["block"], run.cell["verifier"], run.cell["condition"])
            found.setdefault(condition, {}).setdefault(run.start, []).append(run.outcome)
    repeated = [
        [value for own in by_start.values() for value in own] for by_start in found.values() if len(by_start) > 1
    ]
    if not repeated:
        return None
    runs = sum(map(len, repeated))
    squares = sum(float(np.var(own)) * len(own) for own in repeated)
    return RerunSpread(sqrt(squares / (runs - len(repeated))), len(repeated), runs)


def reruns(study: Study) -> list[Rerun]:
    """Every rerun beside the interval that the plan's own runs give for it."""
    spread = rerun_spread(study)
    if spread is None:
        return []
    found = []
    for run in study.again:
        by_start: dict[str, list[float]] = {}
        for one in repeated_by(study, run):
            by_start.setdefault(one.start, []).append(one.outcome)
        if by_start:
            low, high = spread.interval(by_start)
            outcomes = sum(map(len, by_start.values()))
            found.append(Rerun(run.policy.run.name, run.cell["block"], run.outcome, max(low, 0.0), high, outcomes))
    return found


def repeated_by(study: Study, rerun: PaidRun) -> list[PaidRun]:
    """The runs of the plan that are the rerun's cell but for their RL seed."""
    same = ("start", "verifier", "condition")
    return [one for one in study.of(rerun.cell["block"]) if all(one.cell[key] == rerun.cell[key] for key in same)]
