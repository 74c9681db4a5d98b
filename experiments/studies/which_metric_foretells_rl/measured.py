"""What verifiers of this kind are worth by amount and ratio: from finished trainings of language_verifiers, in terms of this study's pool.

    python experiments/studies/which_metric_foretells_rl/measured.py      # measured.csv from the bundles, one minute on one core

A row of measured.csv is a training of SmolLM2-135M by the preset `small`, two passes: of `data_scale` (1:1, by amount) or of `label_ratio`
(8,000 attempts, by ratio). Those learned from attempts of scripts where these here learn from a policy that never runs its code; all else
is alike. They were judged on three pools apart, whose policies together are those of the frozen pool: its AUC within task is a mean over
policies, so it is theirs; its ECE is taken as the mean of theirs by attempts, which is as large or larger.

ECE with multiplied logits (`slope_...`) and with another ratio (`ratio_...`: the logits of a 1:1 training moved by as much as those of
that ratio differ from it in their mean score, at 8,000 attempts) is of the pool of which the bundles have single scores, plus what the
other two add to the ECE of the scores as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

from analysis.presentation.style import csv_text
from analysis.sweep.tracked import FinishedCell, group_runs, source_runs
from experiments.studies.which_metric_foretells_rl.design import COLUMNS, EVERY_SLOPES
from rmlab.files import write_text
from rmlab.metrics.calibration import binned, ece, width_bin
from rmlab.paths import REPOSITORY

HERE = Path(__file__).parent
BUNDLES = REPOSITORY / "experiments" / "studies" / "language_verifiers" / "bundles"
RATIO_AT = 8000
"""Attempts of the trainings of label_ratio."""
POLICIES = {"": 2, "after_rl": 4, "never_ran": 1}
"""Pool of language_verifiers ("" = its own kind) -> policies in it."""
SLOPES = sorted({1.0, *(slope for slopes in EVERY_SLOPES for slope in slopes)})
RATIOS = ("1:4", "4:1")
LATER = {("2000", 0)}
"""Amount and seed of trainings that finished after the plan had been changed for the last time: it does not rest on them."""


@dataclass(frozen=True)
class Measured:
    """table: measured.csv. log_ratio: whether a ratio moves logits by its logarithm, as theory has it for scores that are calibrated to
    the training set, in place of what trainings on 8,000 show."""

    table: Any
    log_ratio: bool = False

    @classmethod
    def read(cls, log_ratio: bool = False) -> "Measured":
        """From the file beside this one."""
        return cls(pd.read_csv(HERE / "measured.csv", dtype={"level": str}), log_ratio)

    def auc(self, column: str, amount: float) -> float:
        """Mean AUC within task: between the amounts that were measured, a line over the logarithm. A ratio adds what it adds at 8,000."""
        at_ratio = self.table[self.table.level == COLUMNS[column]].auc_within_task
        added = 0.0 if at_ratio.empty else at_ratio.mean() - self._between("auc_within_task", RATIO_AT)
        return float(self._between("auc_within_task", amount) + added)

    def ece(self, column: str, amount: float, slope: float = 1.0) -> float:
        """Mean ECE of a column; slope: of the logits."""
        return self._between(self._ece_of(column, slope), amount)

    def spread_auc(self) -> float:
        """Standard deviation of the AUC within task between trainings of one amount."""
        return self._spread("auc_within_task")

    def spread_ece(self, column: str, slope: float = 1.0) -> float:
        """The same of the ECE."""
        return self._spread(self._ece_of(column, slope))

    def _ece_of(self, column: str, slope: float) -> str:
        ratio = COLUMNS[column]
        return f"{'log_' * self.log_ratio}ratio_{ratio}" if ratio in RATIOS else f"slope_{slope:g}"

    @cached_property
    def _by_amount(self) -> Any:
        own = self.table[self.table.sweep == "data_scale"]
        return own.assign(level=own.level.astype(int)).drop(columns=["sweep", "seed"]).groupby("level")

    @cached_property
    def _means(self) -> Any:
        return self._by_amount.mean().sort_index()

    def _between(self, name: str, amount: float) -> float:
        return float(np.interp(np.log(amount), np.log(self._means.index), self._means[name]))

    def _spread(self, name: str) -> float:
        return float(np.sqrt(self._by_amount[name].var(ddof=1).mean()))


def logits(score_N: Any) -> Any:
    held_N = np.clip(np.asarray(score_N, dtype=float), 1e-9, 1 - 1e-9)
    return np.log(held_N) - np.log1p(-held_N)


def shift(from_cells: Sequence[FinishedCell], to_cells: Sequence[FinishedCell]) -> float:
    """What has to be added to the logits of some trainings so that their mean score is that of others."""
    target = np.mean([cell.scores.score.mean() for cell in to_cells])
    own = [logits(cell.scores.score) for cell in from_cells]
    return float(brentq(lambda by: np.mean([expit(one + by).mean() for one in own]) - target, -8, 8))


def row(cell: FinishedCell, sweep: str, shifts: dict[str, float]) -> dict[str, Any]:
    """A line of measured.csv. shifts: of logits, by the column that it is for; {} where the scores are asked for as they are."""
    reports = [cell.report_on(pool) if pool else cell.report for pool in POLICIES]
    attempts = [one["trajectories"] for one in reports]
    found = {
        "sweep": sweep,
        "level": cell.level,
        "seed": cell.seed,
        "auc_within_task": np.average([one["auc_within_task"] for one in reports], weights=list(POLICIES.values())),
        "ece_width_10": np.average([one["ece_width_10"] for one in reports], weights=attempts),
    }
    if not shifts:
        return found
    logit_N, label_N = logits(cell.scores.score), cell.scores.resolved
    others = found["ece_width_10"] - reports[0]["ece_width_10"]

    def moved(slope: float, by: float) -> float:
        score_N = expit(slope * logit_N + by)
        return float(others + ece(binned(score_N, label_N, width_bin(score_N, 10), 10)))

    return (
        found
        | {f"slope_{slope:g}": moved(slope, 0.0) for slope in SLOPES}
        | {name: moved(1.0, by) for name, by in shifts.items()}
    )


def main() -> None:
    """Writes measured.csv."""
    rows = []
    with (
        source_runs(str(BUNDLES / "label_ratio.zip"), ("verifier",)) as (_, by_ratio),
        source_runs(str(BUNDLES / "data_scale.zip"), ("verifier",)) as (_, by_amount),
    ):
        [ratios], [amounts] = group_runs(by_ratio), group_runs(by_amount)
        shifts = {f"ratio_{one}": shift(ratios.at("1:1", ""), ratios.at(one, "")) for one in RATIOS}
        parts = {one: [float(part) for part in one.split(":")] for one in RATIOS}
        shifts |= {f"log_ratio_{one}": float(np.log(a / b)) for one, (a, b) in parts.items()}
        for level in amounts.levels:
            known = [cell for cell in amounts.at(level, "epochs") if (level, cell.seed) not in LATER]
            rows += [row(cell, "data_scale", shifts) for cell in known]
        for one in RATIOS:
            rows += [row(cell, "label_ratio", {}) for cell in ratios.at(one, "")]
    rounded = [{k: round(float(v), 5) if isinstance(v, float) else v for k, v in one.items()} for one in rows]
    write_text(HERE / "measured.csv", csv_text(rounded))


if __name__ == "__main__":
    main()
