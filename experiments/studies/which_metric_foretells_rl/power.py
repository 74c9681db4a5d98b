"""What can this study show, and how often would it show what is not there? Simulated with its own analysis: power.csv beside this file.

    python experiments/studies/which_metric_foretells_rl/power.py        # some minutes on one core

Verifiers lie where the design puts them: AUC within task rises with the amount, ECE is moved by the column, both with the spread
between trainings of the landed runs. What RL makes of a verifier is a line in AUC (and, where a scenario says so, in ECE) plus a
deviation of the training, one of the RL seed, and the noise of the evaluation tasks. The lines and deviations come from
experiments/studies/policy_rl: `VALUES` says which of its numbers each is taken from.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.causal import equivalence
from analysis.rank_statistics import permutation_p, rank_regression, stronger, unit_weights
from analysis.style import csv_text
from rmlab.files import write_text
from rmlab.metrics.sweep_levels import Spread
from rmlab.paths import REPOSITORY

HERE = Path(__file__).parent
CELLS: Any = pd.read_csv(HERE / "cells.csv")
STUDIES = REPOSITORY / "experiments" / "studies"
DRAWS, REPLICATES, PERMUTATIONS = 400, 400, 1000
LEVEL = 0.05
MARGIN = 0.03
TASKS = 1548
"""Evaluation tasks without those of two bugs."""


def landed() -> dict[str, float]:
    """Numbers of the landed runs that the simulation rests on."""
    paid: Any = pd.read_csv(STUDIES / "policy_rl" / "rewards" / "against_execution.csv")
    single = paid[paid.seed == 0].set_index(["reward", "evidence"])
    auc = {("final", "good"): 0.909, ("final", "skewed"): 0.717, ("final", "small"): 0.602}  # its table of verifiers
    slope = {}
    for reward in ("execution_free", "hybrid"):
        rows = single.loc[(reward, "final")]
        x = [auc["final", name.split(", ")[1]] for name in rows.paid_by]
        slope[reward] = float(np.polyfit(x, rows.difference, 1)[0])
    trained: Any = pd.read_csv(STUDIES / "label_ratio" / "runs.csv")
    return {
        "slope_execution_free": slope["execution_free"],
        "slope_hybrid": slope["hybrid"],
        # two trainings, starts and RL seeds of the good verifier alone: final evidence, voluntary evidence
        "spread_execution_free": float(
            np.sqrt(np.mean([np.var([0.054, 0.019], ddof=1), np.var([-0.028, -0.089], ddof=1)]))
        ),
        # three seeds of execution, from one start, less what attempts at their 834 tasks add
        "spread_seed": float(np.sqrt(np.var([0.286, 0.300, 0.281], ddof=1) - own_error(834) ** 2)),
        "spread_auc": float(np.sqrt(trained.groupby("level").auc_within_task.var(ddof=1).mean())),
        "spread_ece": float(np.sqrt(trained.groupby("level").ece_width_10.var(ddof=1).mean())),
        "error_own": own_error(TASKS),
    }


def own_error(tasks: int) -> float:
    """What the attempts at so many tasks add to one run's pass@1, and what tasks that answer otherwise add to a difference: of the
    landed differences from the start, which are paired by task, half the variance is given to either."""
    table: Any = pd.read_csv(STUDIES / "policy_rl" / "rewards" / "rl_table.csv")
    error = float(((table.sampled_high - table.sampled_low) / (2 * stats.norm.ppf(0.975))).median())
    return error * float(np.sqrt(512 / tasks)) / 2


@dataclass(frozen=True)
class Scenario:
    """auc, ece: points of pass@1 between the least and the most of the design. training, seed: standard deviations of the outcome.
    seeds: of RL, averaged. verifiers: how many of the 24 there are. of_column: points by which the columns differ in themselves."""

    name: str
    auc: float
    ece: float = 0.0
    training: float = 0.03
    seed: float = 0.01
    seeds: int = 1
    verifiers: int = 24
    of_column: float = 0.0


AUC_RANGE = (0.65, 0.92)
ECE_OF = {"even": 0.07, "few": 0.15, "many": 0.32, "sharp": 0.20}


def simulate(scenario: Scenario, known: dict[str, float], draws: int, seed: int = 0) -> dict[str, float]:
    """Shares of `draws` studies in which each thing is shown."""
    rng = np.random.default_rng(seed)
    design = CELLS[CELLS.block == "verifiers"].reset_index(drop=True)
    low, high = AUC_RANGE
    place_N = np.log(design.amount / design.amount.min()) / np.log(design.amount.max() / design.amount.min())
    shown = dict.fromkeys(("auc", "auc_over_ece", "auc_given_ece", "ece_given_auc"), 0)
    correlation = []
    for _ in range(draws):
        rows = np.sort(rng.choice(len(design), scenario.verifiers, replace=False))
        own = design.loc[rows]
        start_N, block_N = own.start.to_numpy(), (own.start + own.column).to_numpy()
        count = len(rows)
        auc_N = low + (high - low) * place_N[rows].to_numpy() + known["spread_auc"] * rng.normal(size=count)
        ece_N = own.column.map(ECE_OF).to_numpy() * (1.15 - 0.3 * place_N[rows].to_numpy())
        ece_N = np.abs(ece_N + known["spread_ece"] * rng.normal(size=count))
        column_N = own.column.map(dict(zip(ECE_OF, rng.normal(size=4), strict=True))).to_numpy()
        y_N = (
            scenario.auc * (auc_N - high) / (high - low)
            - scenario.ece * (ece_N - 0.05) / 0.35
            + scenario.of_column * column_N
            + scenario.training * rng.normal(size=count)
            + scenario.seed / np.sqrt(scenario.seeds) * rng.normal(size=count)
            + known["error_own"] * rng.normal(size=count)
        )
        seen_N, ece_seen_N = auc_N + 0.008 * rng.normal(size=count), ece_N + 0.008 * rng.normal(size=count)
        weight_RN = unit_weights(None, start_N, count, REPLICATES)
        shown["auc"] += permutation_p(seen_N, y_N, start_N, block_N, PERMUTATIONS) <= LEVEL
        shown["auc_over_ece"] += stronger(seen_N, ece_seen_N, y_N, weight_RN, start_N).low > 0
        given = rank_regression([seen_N, ece_seen_N], y_N, start_N)
        for name, one in zip(("auc_given_ece", "ece_given_auc"), given, strict=True):
            shown[name] += one.low > 0 or one.high < 0
        correlation.append(float(stats.spearmanr(auc_N, ece_N).statistic))
    return {name: number / draws for name, number in shown.items()} | {"correlation": float(np.mean(correlation))}


def equivalences(known: dict[str, float], true: float, draws: int, seeds: int, levels: int = 4, seed: int = 0) -> float:
    """The share of studies in which a distortion that truly moves pass@1 by `true` is said to move it by less than the margin."""
    rng = np.random.default_rng(seed)
    said = 0
    shared = np.sqrt(2) * known["error_own"]  # of tasks that answer to the distortion, in all seeds alike
    for _ in range(draws):
        other_LS = np.sqrt(2) * np.hypot(known["spread_seed"], known["error_own"]) * rng.normal(size=(levels, seeds))
        found_S = true + shared * rng.normal() + other_LS[0]
        said += equivalence(Spread(found_S, shared**2, 0.0, TASKS), list(other_LS), MARGIN).p_alike <= LEVEL
    return said / draws


def main(draws: int = DRAWS) -> None:
    """Writes power.csv."""
    known = landed()
    span = AUC_RANGE[1] - AUC_RANGE[0]
    free = Scenario(
        "execution_free",
        known["slope_execution_free"] * span,
        training=known["spread_execution_free"],
        seed=known["spread_seed"],
    )
    hybrid = Scenario("hybrid", known["slope_hybrid"] * span, training=0.01, seed=known["spread_seed"])
    scenarios = [
        replace(free, name="nothing", auc=0.0),
        replace(free, name="nothing_but_columns", auc=0.0, of_column=0.04),
        free,
        replace(free, name="execution_free_half", auc=free.auc / 2),
        replace(free, name="execution_free_16", verifiers=16),
        hybrid,
        replace(hybrid, name="hybrid_two_seeds", seeds=2),
        replace(free, name="both_alike", auc=0.08, ece=0.08),
        replace(free, name="ece_8_points", ece=0.08),
        replace(free, name="ece_4_points", ece=0.04),
    ]
    rows: list[dict[str, Any]] = [{"scenario": "landed", "test": name, "share": value} for name, value in known.items()]
    for scenario in scenarios:
        for name, share in simulate(scenario, known, draws).items():
            rows.append(
                {
                    "scenario": scenario.name,
                    "test": name,
                    "share": share,
                    "verifiers": scenario.verifiers,
                    "auc_points": 100 * scenario.auc,
                    "ece_points": 100 * scenario.ece,
                    "training_points": 100 * scenario.training,
                    "seed_points": 100 * scenario.seed / np.sqrt(scenario.seeds),
                    "draws": draws,
                }
            )
        print(scenario.name, file=sys.stderr, flush=True)
    for name, true, seeds in (
        ("no_difference", 0.0, 3),
        ("no_difference", 0.0, 5),
        ("a_point", 0.01, 5),
        ("at_the_margin", MARGIN, 5),
    ):
        share = equivalences(known, true, 4 * draws, seeds)
        rows.append({"scenario": name, "test": "equivalence", "share": share, "seeds": seeds, "draws": 4 * draws})
    write_text(HERE / "power.csv", csv_text([_rounded(row) for row in rows]))


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: round(float(value), 4) if isinstance(value, float) else value for name, value in row.items()}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
