"""What can this study show, and how often would it show what is not there? Simulated with its own analysis: power.csv beside this file.

    python experiments/studies/which_metric_foretells_rl/power.py        # 40 seconds on one core

Verifiers lie where the design puts them: AUC within task rises with the amount, ECE is moved by the column, both with the spread
between trainings of the landed runs. What RL makes of a verifier is a line in AUC (and, where a scenario says so, in ECE) plus a
deviation of the training, one of the RL seed, and the noise of the evaluation tasks. `landed.py` says which runs the lines and the
deviations are from.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit

from analysis.causal import equivalence
from analysis.foretelling_causal import MARGIN
from analysis.foretelling_design import CORRELATION, HIGH, LOW, MOST_LOW
from analysis.rank_statistics import permutation_p, rank_correlations, rank_regression, stronger, unit_weights
from analysis.style import csv_text
from experiments.studies.which_metric_foretells_rl.design import AMOUNTS, COLUMNS, OTHER_SLOPES, SLOPES
from experiments.studies.which_metric_foretells_rl.landed import TASKS, by_amount, landed
from rmlab.files import write_text
from rmlab.metrics.sweep_levels import LEVEL, Spread

HERE = Path(__file__).parent
CELLS: Any = pd.read_csv(HERE / "cells.csv")
DRAWS, REPLICATES, PERMUTATIONS = 400, 400, 1000


@dataclass(frozen=True)
class Scenario:
    """auc, ece: points of pass@1 between the least and the most of the design. training, seed: standard deviations of the outcome.
    seeds: of RL, averaged. verifiers: how many of the 24 there are. of_column: points by which the columns differ in themselves.
    by_amount: whether trainings differ as much as those of data_scale on as few attempts."""

    name: str
    auc: float
    ece: float = 0.0
    training: float = 0.03
    seed: float = 0.01
    seeds: int = 1
    verifiers: int = 24
    of_column: float = 0.0
    by_amount: bool = False


AUC_RANGE = (0.65, 0.92)
ECE_OF = {"balanced": 0.07, "mostly_unresolved": 0.15, "mostly_resolved": 0.32}
"""In the middle of the amounts; `overconfident` is the first with what multiplied logits add."""
MEASURED = 0.008
"""Standard deviation of what the tasks of the pool add to a verifier's AUC and ECE."""


@cache
def added_ece(slope: float, auc: float = 0.8, rate: float = 0.27) -> float:
    """What calibrated scores miss by in the mean once their logits are multiplied, where the logits of resolved and of unresolved
    attempts are two normal distributions that give this AUC, and this share is resolved."""
    distance = np.sqrt(2) * stats.norm.ppf(auc)
    x_X = np.linspace(-8, 8 + distance, 4001)
    logit_X = distance * x_X - distance**2 / 2 + np.log(rate / (1 - rate))
    density_X = rate * stats.norm.pdf(x_X - distance) + (1 - rate) * stats.norm.pdf(x_X)
    return float(np.average(np.abs(expit(slope * logit_X) - expit(logit_X)), weights=density_X))


@dataclass(frozen=True)
class Made:
    """24 verifiers as they are and as the pool shows them. correlation: of what is shown, within starts, with the slopes of
    `overconfident` that the check of the design settles on; met: whether that is small enough; spread: whether few enough have a low
    AUC, and one has a high one."""

    auc_N: Any
    ece_N: Any
    shown_auc_N: Any
    shown_ece_N: Any
    correlation: float
    met: bool

    @property
    def spread(self) -> bool:
        """Whether the check does not ask for other amounts."""
        return bool((self.shown_auc_N < LOW).sum() <= MOST_LOW and self.shown_auc_N.max() >= HIGH)


EVERY_SLOPES = (SLOPES, *OTHER_SLOPES)


def made(
    design: Any, known: dict[str, float], rng: np.random.Generator, tried: Sequence[Sequence[float]] = EVERY_SLOPES
) -> Made:
    """Verifiers of one study: drawn, and then checked as check.py does. tried: slopes of `overconfident`, the planned ones first."""
    low, high = AUC_RANGE
    count, start_N = len(design), design.start.to_numpy()
    place_N = (
        np.log(design.amount / design.amount.min()) / np.log(design.amount.max() / design.amount.min())
    ).to_numpy()
    auc_N = np.clip(low + (high - low) * place_N + known["spread_auc"] * rng.normal(size=count), 0.4, 1.0)
    deviation_N = known["spread_ece"] * rng.normal(size=count)
    noise_N, ece_noise_N = MEASURED * rng.normal(size=(2, count))
    checked = []
    for slopes in tried:
        added = {amount: added_ece(slope) for amount, slope in zip(AMOUNTS, slopes, strict=True)}
        mean_N = np.array(
            [
                ECE_OF[column] if column in ECE_OF else ECE_OF["balanced"] + added[amount]
                for column, amount in zip(design.column, design.amount, strict=True)
            ]
        )
        ece_N = np.abs(mean_N * (1.15 - 0.3 * place_N) + deviation_N)
        found = Made(auc_N, ece_N, auc_N + noise_N, ece_N + ece_noise_N, 0.0, False)
        rho = correlated(found.shown_auc_N, found.shown_ece_N, start_N)
        checked.append(replace(found, correlation=rho, met=abs(rho) < CORRELATION))
        if checked[-1].met:
            return checked[-1]
    return checked[0]


def checks(known: dict[str, float], draws: int) -> list[dict[str, Any]]:
    """The share of designs whose AUC and ECE are uncorrelated enough, by the slopes that the check may fall back on (constant: 2 or 5
    for all amounts); then of those whose AUC is spread as it should be, and of those that pass the whole check, by how much trainings
    differ. The amounts are not doubled here, as the check has it where the first fails."""
    design = CELLS[CELLS.block == "verifiers"].reset_index(drop=True)
    ways = {"none": (SLOPES,), "constant": (SLOPES, (2.0,) * 6, (5.0,) * 6), "by_amount": EVERY_SLOPES}
    rows = []
    for name, tried in ways.items():
        rng = np.random.default_rng(0)
        met = np.mean([made(design, known, rng, tried).met for _ in range(draws)])
        rows.append({"scenario": "check", "test": f"fall_back_{name}", "share": float(met), "draws": draws})
    for name, spreads in (("", known), ("_by_amount", by_amount(known))):
        rng = np.random.default_rng(0)
        found = [made(design, spreads, rng) for _ in range(draws)]
        tests = {"auc_spread": [one.spread for one in found], "all": [one.spread and one.met for one in found]}
        rows += [
            {"scenario": "check", "test": f"{test}{name}", "share": float(np.mean(met)), "draws": draws}
            for test, met in tests.items()
        ]
    return rows


def correlated(x_N: Any, y_N: Any, start_N: Any) -> float:
    """Spearman's coefficient within starts."""
    return float(rank_correlations(x_N, y_N, unit_weights(None, start_N, len(x_N), 0), start_N)[0])


def simulate(scenario: Scenario, known: dict[str, float], draws: int, seed: int = 0) -> dict[str, float]:
    """Shares of `draws` studies in which each thing is shown. over_before_check: "AUC rather than ECE" by its interval alone."""
    rng = np.random.default_rng(seed)
    design = CELLS[CELLS.block == "verifiers"].reset_index(drop=True)
    low, high = AUC_RANGE
    names = ("auc", "auc_over_ece", "over_before_check", "auc_given_ece", "ece_given_auc", "uncorrelated", "design_met")
    known = by_amount(known) if scenario.by_amount else known
    shown = dict.fromkeys(names, 0)
    correlation = []
    for _ in range(draws):
        every = made(design, known, rng)
        rows = np.sort(rng.choice(len(design), scenario.verifiers, replace=False))
        own = design.loc[rows]
        start_N, block_N = own.start.to_numpy(), (own.start + own.column).to_numpy()
        count = len(rows)
        column_N = own.column.map(dict(zip(COLUMNS, rng.normal(size=4), strict=True))).to_numpy()
        y_N = (
            scenario.auc * (every.auc_N[rows] - high) / (high - low)
            - scenario.ece * (every.ece_N[rows] - 0.05) / 0.35
            + scenario.of_column * column_N
            + scenario.training * rng.normal(size=count)
            + scenario.seed / np.sqrt(scenario.seeds) * rng.normal(size=count)
            + known["error_own"] * rng.normal(size=count)
        )
        seen_N, ece_seen_N = every.shown_auc_N[rows], every.shown_ece_N[rows]
        weight_RN = unit_weights(None, start_N, count, REPLICATES)
        shown["auc"] += permutation_p(seen_N, y_N, start_N, block_N, PERMUTATIONS) <= LEVEL
        over = stronger(seen_N, ece_seen_N, y_N, weight_RN, start_N).low > 0
        shown["over_before_check"] += over
        shown["auc_over_ece"] += over and abs(correlated(seen_N, ece_seen_N, start_N)) < CORRELATION
        shown["uncorrelated"] += every.met
        shown["design_met"] += every.met and every.spread
        given = rank_regression([seen_N, ece_seen_N], y_N, start_N)
        for name, one in zip(("auc_given_ece", "ece_given_auc"), given, strict=True):
            shown[name] += one.low > 0 or one.high < 0
        correlation.append(every.correlation)
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
        replace(free, name="execution_free_by_amount", by_amount=True),
        hybrid,
        replace(hybrid, name="hybrid_by_amount", by_amount=True),
        replace(hybrid, name="hybrid_two_seeds", seeds=2),
        replace(free, name="both_alike", auc=0.08, ece=0.08),
        replace(free, name="ece_8_points", ece=0.08),
        replace(free, name="ece_4_points", ece=0.04),
    ]
    rows: list[dict[str, Any]] = [{"scenario": "landed", "test": name, "share": value} for name, value in known.items()]
    rows += checks(known, 4 * draws)
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
