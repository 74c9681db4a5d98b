"""The statistics of which_metric_foretells_rl: correlations with the outcome, what a choice by a metric costs, corrected p-values.

One verifier is one training is one unit; ranks are taken within a start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.foretelling.design import known
from analysis.foretelling.runs import PaidRun, Study, column
from analysis.rl.rank_statistics import (
    Interval,
    Relation,
    losses,
    rank_correlations,
    rank_regression,
    regret,
    relation,
    sets_of,
    stronger,
    unit_weights,
)
from rmlab.metrics.sweep_levels import LevelTest, holm

FEWEST = 16
"""Verifiers with an outcome; the plan has the power with so many."""
PRIMARY, RIVAL = "auc_within_task", "ece_width_10"
ANY = "any verifier"
FACTORIAL = ("execution_free", "hybrid")
GOOD = 0.70
"""AUC within task below which policies lose nearly everything."""


@dataclass(frozen=True)
class Metric:
    """name: as axes and tables write it. sign: 1 where a larger value is meant to be better."""

    name: str
    sign: int


METRICS = {
    PRIMARY: Metric("AUC within task", 1),
    RIVAL: Metric("ECE", -1),
    "ece_less_floor": Metric("ECE less floor", -1),
    "rm_at_most": Metric("RM@k", 1),
    "auc_pooled": Metric("AUC pooled", 1),
    "brier": Metric("Brier", -1),
    "advantage_cosine": Metric("advantage cosine", 1),
    "advantage_cosine_all": Metric("advantage cosine, all", 1),
}


def arrays(runs: Sequence[PaidRun]) -> tuple[Any, list[str], list[str], list[str]]:
    """Outcomes, units, strata and blocks."""
    starts = [run.start for run in runs]
    blocks = [f"{run.start} {run.cell['column']}" for run in runs]
    return np.array([run.outcome for run in runs]), [run.cell["verifier"] for run in runs], starts, blocks


def relations_of(runs: Sequence[PaidRun]) -> dict[str, Relation]:
    """Each metric's correlation with the outcome, where enough verifiers have it."""
    outcome_N, units, starts, blocks = arrays(runs)
    found = {}
    for name in METRICS:
        value_N = column(runs, name)
        there = np.flatnonzero(~np.isnan(value_N))
        if len(there) < FEWEST:
            continue
        unit_N, start_N, block_N = ([side[i] for i in there] for side in (units, starts, blocks))
        found[name] = relation(name, value_N[there], outcome_N[there], unit_N, start_N, block_N)
    return found


def with_both(runs: Sequence[PaidRun]) -> list[PaidRun]:
    """Those whose verifier has an AUC within task and an ECE."""
    return [run for run in runs if known([run.verifier])]


def rivals(runs: Sequence[PaidRun]) -> tuple[Interval, list[Interval]]:
    """|ρ| of AUC within task less that of ECE, and the coefficients of both beside each other."""
    outcome_N, units, starts, _ = arrays(runs)
    weight_RN = unit_weights(units, starts, len(runs))
    auc_N, ece_N = (column(runs, name) for name in (PRIMARY, RIVAL))
    return stronger(auc_N, ece_N, outcome_N, weight_RN, starts), rank_regression([auc_N, ece_N], outcome_N, starts)


def regrets(runs: Sequence[PaidRun]) -> dict[str, Interval]:
    """Points lost by each metric's choice among four; a metric that is undefined for a verifier never chooses it."""
    outcome_N, _, starts, _ = arrays(runs)
    sets = sets_of(starts)
    liked = {name: np.nan_to_num(metric.sign * column(runs, name), nan=-np.inf) for name, metric in METRICS.items()}
    liked[ANY] = np.zeros(len(runs))
    return {name: _cut(regret(losses(value_N, outcome_N, sets), sets, len(runs))) for name, value_N in liked.items()}


def regrets_by_start(runs: Sequence[PaidRun]) -> dict[str, dict[str, Interval]]:
    """The same among the verifiers of each start that has four and more; not in the plan."""
    starts = sorted({run.cell["start"] for run in runs})
    own = {start: [run for run in runs if run.cell["start"] == start] for start in starts}
    return {start: regrets(its) for start, its in own.items() if len(its) >= 4}


def _cut(lost: Interval) -> Interval:
    """No choice ends above the best of its set: an interval by t may reach below 0, where nothing is."""
    return Interval(lost.value, max(lost.low, 0.0), lost.high)


def exploratory(runs: Sequence[PaidRun]) -> dict[str, tuple[float | None, int]]:
    """What the plan does not have, in words -> Spearman's coefficient within starts (None: undefined, or of fewer than four) and of how
    many verifiers: whether the starts agree, whether more than collapse is ordered, and what the amount of training data tells."""
    outcome_N, _, starts, _ = arrays(runs)
    value_N = {name: column(runs, name) for name in (PRIMARY, RIVAL)}
    value_N["amount"] = np.array([float(run.cell["amount"]) for run in runs])

    def of(x: str, rows: Sequence[int], y_N: Any = outcome_N) -> tuple[float | None, int]:
        return correlation_of(value_N[x][rows], y_N[rows], [starts[i] for i in rows])

    everyone = list(range(len(runs)))
    found = {}
    for start in sorted({run.cell["start"] for run in runs}):
        own = [i for i in everyone if runs[i].cell["start"] == start]
        good = [i for i in own if value_N[PRIMARY][i] >= GOOD]
        found[f"AUC within task and pass@1, start {start}"] = of(PRIMARY, own)
        found[f"AUC within task and pass@1, start {start}, AUC {GOOD:.2f} or more"] = of(PRIMARY, good)
    found["amount of training data and pass@1"] = of("amount", everyone)
    found["amount of training data and AUC within task"] = of("amount", everyone, value_N[PRIMARY])
    for name in dict.fromkeys(run.cell["column"] for run in runs):
        found[f"ECE and pass@1, {name.replace('_', ' ')}"] = of(
            RIVAL, [i for i in everyone if runs[i].cell["column"] == name]
        )
    return found


def corrected(relations: Mapping[str, Mapping[str, Relation]]) -> dict[tuple[str, str], float | None]:
    """Corrected p of all but the primary test."""
    tests = [
        LevelTest(block, name, one.n, one.rho, p=one.p, by_seed=(one.rho,))
        for block, of_metric in relations.items()
        for name, one in of_metric.items()
        if (block, name) != ("execution_free", PRIMARY) and one.rho is not None
    ]
    return {(test.level, test.metric): test.p_holm for test in holm(tests)}


def with_second_seeds(study: Study) -> tuple[tuple[float | None, int], Relation | None]:
    """Correlation of the outcomes of the verifiers that paid with two RL seeds; the primary one with the mean of both for these."""
    free = study.of("execution_free")
    second = {run.cell["verifier"]: run.outcome for run in study.of("second_seed")}
    both = [run for run in free if run.cell["verifier"] in second]
    again = [second[run.cell["verifier"]] for run in both]
    agreement = correlation_of([run.outcome for run in both], again, [run.start for run in both])
    if len(free) < FEWEST or not both:
        return agreement, None
    outcome_N, units, starts, blocks = arrays(free)
    mean_N = [(one + second.get(run.cell["verifier"], one)) / 2 for one, run in zip(outcome_N, free, strict=True)]
    return agreement, relation(PRIMARY, column(free, PRIMARY), mean_N, units, starts, blocks)


def correlation_of(x_N: Sequence[float], y_N: Sequence[float], starts: Sequence[str]) -> tuple[float | None, int]:
    """Spearman's coefficient within starts, over those where neither side is NaN: None where it is undefined or of fewer than four; and
    of how many it is."""
    there = np.flatnonzero(~np.isnan(x_N) & ~np.isnan(y_N))
    if len(there) < 4:
        return None, len(there)
    x_K, y_K, starts = np.asarray(x_N)[there], np.asarray(y_N)[there], [starts[int(i)] for i in there]
    rho = float(rank_correlations(x_K, y_K, unit_weights(None, starts, len(there), replicates=0), starts)[0])
    return (None if np.isnan(rho) else rho), len(there)
