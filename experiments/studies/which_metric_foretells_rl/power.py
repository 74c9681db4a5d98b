"""What can this study show, and how often would it show what is not there? Simulated with its own analysis: power.csv beside this file.

    python experiments/studies/which_metric_foretells_rl/power.py        # 40 seconds on one core

Verifiers lie where finished trainings of the same preset lie (`measured.py`): AUC within task by amount, ECE by amount and column, both
with the spread that these trainings have. What RL makes of a verifier is a line in AUC (and, where a scenario says so, in ECE) plus a
deviation of the training, one of the RL seed, and the noise of the evaluation tasks. `landed.py` says which runs the lines and the
deviations are from.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.foretelling.causal import MARGIN
from analysis.foretelling.design import CORRELATION, HIGH, LOW, MOST_LOW
from analysis.foretelling.equivalence import equivalence
from analysis.presentation.style import csv_text
from analysis.rl.rank_statistics import permutation_p, rank_correlations, rank_regression, stronger, unit_weights
from experiments.studies.which_metric_foretells_rl.design import AMOUNTS, COLUMNS, EVERY_SLOPES, LARGER, SLOPES
from experiments.studies.which_metric_foretells_rl.landed import TASKS, landed
from experiments.studies.which_metric_foretells_rl.measured import Measured
from rmlab.files import write_text
from rmlab.metrics.sweep_levels import LEVEL, Spread

HERE = Path(__file__).parent
CELLS: Any = pd.read_csv(HERE / "cells.csv")
DRAWS, REPLICATES, PERMUTATIONS = 400, 400, 1000


@dataclass(frozen=True)
class Scenario:
    """auc, ece: points of pass@1 between the least and the most of the design. training, seed: standard deviations of the outcome.
    seeds: of RL, averaged. verifiers: how many of the 24 there are. of_column: points by which the columns differ in themselves.
    apart: by how many times as much trainings of one amount differ as the measured ones."""

    name: str
    auc: float
    ece: float = 0.0
    training: float = 0.03
    seed: float = 0.01
    seeds: int = 1
    verifiers: int = 24
    of_column: float = 0.0
    apart: float = 1.0


MEASURED = 0.008
"""Standard deviation of what the tasks of the pool add to a verifier's AUC and ECE."""
DEVIATION_SEEN = 0.036
"""Standard deviation of the outcomes of the hybrid block around a line in AUC, within starts: all that is not AUC, noise of tasks too."""
EARLIER = (300, 500, 840, 1400, 2400, 4000)
"""Amounts of the plan before anything was measured; it fell back on twice as many."""


@dataclass(frozen=True)
class Drawn:
    """Where the verifiers of a design lie in the mean, and how much trainings deviate. ece_TN, ece_spread_TN: for each of T sets of slopes
    of `overconfident` that are tried, the planned one first."""

    start_N: Any
    auc_N: Any
    auc_spread: float
    ece_TN: Any
    ece_spread_TN: Any

    @classmethod
    def of(
        cls,
        measured: Measured,
        amounts: Sequence[int] = AMOUNTS,
        tried: Sequence[Sequence[float]] = EVERY_SLOPES,
        apart: float = 1.0,
    ) -> "Drawn":
        """The 24 of cells.csv, the k-th amount there as the k-th of `amounts`."""
        design = CELLS[CELLS.block == "verifiers"]
        rows = [(column, AMOUNTS.index(amount)) for column, amount in zip(design.column, design.amount, strict=True)]

        def slope(column: str, rank: int, slopes: Sequence[float]) -> float:
            return slopes[rank] if column == "overconfident" else 1.0

        return cls(
            design.start.to_numpy(),
            np.array([measured.auc(column, amounts[rank]) for column, rank in rows]),
            apart * measured.spread_auc(),
            np.array([[measured.ece(c, amounts[r], slope(c, r, slopes)) for c, r in rows] for slopes in tried]),
            apart * np.array([[measured.spread_ece(c, slope(c, r, slopes)) for c, r in rows] for slopes in tried]),
        )

    @property
    def ends(self) -> Any:
        """The least and the most of AUC, then of ECE, in the mean."""
        return [(float(x.min()), float(x.max())) for x in (self.auc_N, self.ece_TN[0])]


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


def made(drawn: Drawn, rng: np.random.Generator) -> Made:
    """Verifiers of one study: drawn, and then checked as check.py does."""
    count = len(drawn.start_N)
    auc_N = np.clip(drawn.auc_N + drawn.auc_spread * rng.normal(size=count), 0.4, 1.0)
    deviation_N = rng.normal(size=count)
    noise_N, ece_noise_N = MEASURED * rng.normal(size=(2, count))
    checked = []
    for mean_N, spread_N in zip(drawn.ece_TN, drawn.ece_spread_TN, strict=True):
        ece_N = np.abs(mean_N + spread_N * deviation_N)
        rho = correlated(auc_N + noise_N, ece_N + ece_noise_N, drawn.start_N)
        checked.append(Made(auc_N, ece_N, auc_N + noise_N, ece_N + ece_noise_N, rho, abs(rho) < CORRELATION))
        if checked[-1].met:
            return checked[-1]
    return checked[0]


def checks(draws: int) -> list[dict[str, Any]]:
    """By variant of the design, or of what trainings are taken to be: the share of designs whose AUC is spread as it should be, whose AUC
    and ECE are uncorrelated enough, and that pass the whole check; and how far their AUC reaches. The amounts are not multiplied here, as
    the check has it where the first fails."""
    measured = Measured.read()
    constant = (3.0,) * 6
    rising = [(1.5, 2.0, 3.0, 4.0, 6.0, 8.0), (1.2, 1.5, 3.0, 5.0, 8.0, 12.0)]
    before = [constant, *rising, *(slopes[::-1] for slopes in rising)]
    variants = {
        "planned": Drawn.of(measured),
        "planned_slopes_alone": Drawn.of(measured, tried=[SLOPES]),
        "constant_slope_alone": Drawn.of(measured, tried=[constant]),
        "larger": Drawn.of(measured, [round(LARGER * amount) for amount in AMOUNTS]),
        "earlier": Drawn.of(measured, EARLIER, before),
        "earlier_doubled": Drawn.of(measured, [2 * amount for amount in EARLIER], before),
        "as_measured": Drawn.of(measured, (250, 500, 1000, 2000, 4000, 8000)),
        "log_ratio": Drawn.of(Measured.read(log_ratio=True)),
        "twice_apart": Drawn.of(measured, apart=2.0),
    }
    rows = []
    for name, drawn in variants.items():
        rng = np.random.default_rng(0)
        found = [made(drawn, rng) for _ in range(draws)]
        tests = {
            "auc_spread": np.mean([one.spread for one in found]),
            "uncorrelated": np.mean([one.met for one in found]),
            "all": np.mean([one.spread and one.met for one in found]),
            "lowest_auc": np.mean([one.shown_auc_N.min() for one in found]),
            "highest_auc": np.mean([one.shown_auc_N.max() for one in found]),
        }
        rows += [
            {"scenario": f"check_{name}", "test": test, "share": float(value), "draws": draws}
            for test, value in tests.items()
        ]
    return rows


def correlated(x_N: Any, y_N: Any, start_N: Any) -> float:
    """Spearman's coefficient within starts."""
    return float(rank_correlations(x_N, y_N, unit_weights(None, start_N, len(x_N), 0), start_N)[0])


def simulate(scenario: Scenario, known: dict[str, float], draws: int, seed: int = 0) -> dict[str, float]:
    """Shares of `draws` studies in which each thing is shown. over_before_check: "AUC rather than ECE" by its interval alone."""
    rng = np.random.default_rng(seed)
    design = CELLS[CELLS.block == "verifiers"].reset_index(drop=True)
    drawn = Drawn.of(Measured.read(), apart=scenario.apart)
    (low, high), (least, most) = drawn.ends
    names = ("auc", "auc_over_ece", "over_before_check", "auc_given_ece", "ece_given_auc", "uncorrelated", "design_met")
    shown = dict.fromkeys(names, 0)
    correlation = []
    for _ in range(draws):
        every = made(drawn, rng)
        rows = np.sort(rng.choice(len(design), scenario.verifiers, replace=False))
        own = design.loc[rows]
        start_N, block_N = own.start.to_numpy(), (own.start + own.column).to_numpy()
        count = len(rows)
        column_N = own.column.map(dict(zip(COLUMNS, rng.normal(size=4), strict=True))).to_numpy()
        y_N = (
            scenario.auc * (every.auc_N[rows] - high) / (high - low)
            - scenario.ece * (every.ece_N[rows] - least) / (most - least)
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


def hybrid_training_seen(known: dict[str, float]) -> float:
    """The part of DEVIATION_SEEN that seeds and tasks do not bring."""
    return float(np.sqrt(DEVIATION_SEEN**2 - known["spread_seed"] ** 2 - known["error_own"] ** 2))


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
    measured = Measured.read()
    (low, high), _ = Drawn.of(measured).ends
    span = high - low
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
        replace(free, name="execution_free_twice_apart", apart=2.0),
        hybrid,
        replace(hybrid, name="hybrid_twice_apart", apart=2.0),
        replace(hybrid, name="hybrid_two_seeds", seeds=2),
        # added once the outcomes were seen: as far as they lie from a line in AUC (`DEVIATION_SEEN`)
        replace(hybrid, name="hybrid_as_seen", training=hybrid_training_seen(known)),
        replace(free, name="both_alike", auc=0.08, ece=0.08),
        replace(free, name="ece_8_points", ece=0.08),
        replace(free, name="ece_4_points", ece=0.04),
    ]
    rows: list[dict[str, Any]] = [{"scenario": "landed", "test": name, "share": value} for name, value in known.items()]
    spreads = {"spread_auc": measured.spread_auc(), "spread_ece": measured.spread_ece("balanced")}
    means = {f"auc_{amount}": measured.auc("balanced", amount) for amount in AMOUNTS}
    means["auc_at_4000"] = measured.auc("balanced", 4000)  # the largest amount of the earlier plan
    rows += [{"scenario": "measured", "test": name, "share": value} for name, value in (spreads | means).items()]
    rows += [
        {"scenario": "measured", "test": f"ece_{column}_{amount}", "share": measured.ece(column, amount, slope)}
        for column in COLUMNS
        for amount, slope in zip(AMOUNTS, SLOPES if column == "overconfident" else (1.0,) * 6, strict=True)
    ]
    rows += checks(4 * draws)
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
