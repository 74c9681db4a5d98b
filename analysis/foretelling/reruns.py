"""How far does a run of which_metric_foretells_rl end from where it ended, when it is repeated from another start with another RL seed?

The causal experiments repeat each condition so: their starts were trained again, and their verifier too. What they deviate by gives an
interval for any other rerun (a prediction interval by t), and reruns beyond the plan are held against it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import stats

from analysis.foretelling.causal import BLOCKS
from analysis.foretelling.runs import Study


@dataclass(frozen=True)
class RerunSpread:
    """deviation: standard deviation of pass@1 over the runs of one condition, pooled over `conditions` with `runs` runs in all. Runs of
    one RL seed share a start across conditions, so the degrees of freedom are an upper bound."""

    deviation: float
    conditions: int
    runs: int

    @property
    def degrees(self) -> int:
        """Of freedom."""
        return self.runs - self.conditions

    def interval(self, outcomes: Sequence[float]) -> tuple[float, float]:
        """Where one further run of a cell should end in 95 % of cases, after runs with these outcomes."""
        half = float(stats.t.ppf(0.975, self.degrees)) * self.deviation * sqrt(1 + 1 / len(outcomes))
        return float(np.mean(outcomes)) - half, float(np.mean(outcomes)) + half


@dataclass(frozen=True)
class Rerun:
    """A run that the plan does not have, of a cell that it has. outcomes: of how many runs of the plan the interval is."""

    name: str
    block: str
    outcome: float
    low: float
    high: float
    outcomes: int

    @property
    def inside(self) -> bool:
        """Whether it ended where it should."""
        return self.low <= self.outcome <= self.high


def rerun_spread(study: Study) -> RerunSpread | None:
    """Of the causal experiments; None where no condition has been run from two starts."""
    found: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for block in BLOCKS:
        for run in study.of(block):
            found.setdefault(_condition(run.cell), {}).setdefault(run.start, []).append(run.outcome)
    repeated = [
        [value for own in by_start.values() for value in own] for by_start in found.values() if len(by_start) > 1
    ]
    runs = sum(map(len, repeated))
    if not repeated:
        return None
    squares = sum(float(np.var(own)) * len(own) for own in repeated)
    return RerunSpread(sqrt(squares / (runs - len(repeated))), len(repeated), runs)


def reruns(study: Study) -> list[Rerun]:
    """Every rerun beside the interval that the plan's own runs give for it."""
    spread = rerun_spread(study)
    if spread is None:
        return []
    found = []
    for run in study.again:
        block = run.cell["block"]
        outcomes = [one.outcome for one in study.of(block) if _condition(one.cell) == _condition(run.cell)]
        if outcomes:
            low, high = spread.interval(outcomes)
            found.append(Rerun(run.policy.run.name, block, run.outcome, max(low, 0.0), high, len(outcomes)))
    return found


def _condition(cell: Mapping[str, str]) -> tuple[str, ...]:
    """What a cell is besides its start and its RL seed."""
    return cell["block"], cell["verifier"], cell["condition"]
