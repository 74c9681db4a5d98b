"""Are the verifiers spread as the design wants them, and which distortions move calibration alone? Before any run of RL.

    python experiments/studies/which_metric_foretells_rl/check.py     # once the verifiers are trained: design.csv, fitted.csv, the verdict

design.csv: every verifier on the frozen pool, its scores as they are paid (in the column `overconfident`: with the slope of cells.csv).
fitted.csv: which verifier is `good` and which is `poor`, and the slopes and shifts of the causal experiments, which are solved on the
pool, each with the run of the training that it belongs to. That the distorted scores have the ranks of the others is asserted here for
the pool, and again in every batch of RL.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import numpy as np
from scipy.optimize import brentq

from analysis.foretelling.design import CORRELATION, VERIFIERS, correlation, faults, row_of
from analysis.foretelling.plan import ROLES, plan_folder
from analysis.foretelling.plan import read_rows as read
from analysis.presentation.style import csv_text
from experiments.studies.which_metric_foretells_rl.design import OTHER_SLOPES
from experiments.studies.which_metric_foretells_rl.records import fitted as fitted_file
from experiments.studies.which_metric_foretells_rl.records import look
from rmlab.errors import DataError, RmlabError
from rmlab.files import write_text
from rmlab.launchers.local import usable_cores
from rmlab.metrics.calibration import binned, ece, width_bin
from rmlab.metrics.definitions import Report
from rmlab.metrics.report import report
from rmlab.rl.advantages import transform
from rmlab.rl.config import TransformConfig
from rmlab.rl.paid_scores import attempts_of
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table
from rmlab.tracking.query import get_run
from rmlab.tracking.store import Store

TARGETS = {"flattened": 0.15, "shifted_up": 0.20, "shifted_far_up": 0.40, "shifted_down": 0.15}
"""ECE of each distortion on the pool; `recalibrated` has what logistic recalibration leaves."""
FAR = 24.0
"""Largest shift that is tried: a verifier of the preset small is so sure of most wrong attempts that an ECE of 0.40 takes one of 11."""
WITHIN = 1.5
"""Root mean square distance of a logit from its group's mean, of both verifiers of the difficulty experiment."""
POOR_AUC = 0.70


@dataclass(frozen=True)
class Pool:
    """A verifier's table without what it did not score; group_N: codes of task and policy."""

    scores: Scores
    group_N: Any

    @classmethod
    def of(cls, scores: Scores) -> "Pool":
        """Attempts without a score or label are left out: the reports count them."""
        known_N = ~np.isnan(scores.score) & ~np.isnan(scores.resolved)
        kept = Scores(**{name: getattr(scores, name)[known_N] for name in Scores.__dataclass_fields__})
        return cls(kept, attempts_of(kept))

    def bent(self, config: TransformConfig) -> Scores:
        """The table as it would be paid."""
        return replace(self.scores, score=transform(self.scores.score, self.group_N, config))

    def ece(self, config: TransformConfig) -> float:
        """Of the table as it would be paid, ten bins of equal width."""
        score_N = self.bent(config).score
        return float(ece(binned(score_N, self.scores.resolved, width_bin(score_N, 10), 10)))


def worth(scores: Scores) -> Report:
    """The metrics of a table but those of patches, which are not asked for here and take most of the time."""
    return report(replace(scores, patch=np.full(len(scores), "")), replicates=0)


def worths(tables: Sequence[Scores]) -> list[Report]:
    """`worth` of each table, side by side on the cores of this machine: cards wait for the verdict."""
    with ProcessPoolExecutor(min(len(tables), usable_cores()), get_context("fork")) as processes:
        return list(processes.map(worth, tables))


def fitted(good: Pool, poor: Pool) -> dict[str, float]:
    """Slopes and shifts by the names that cells.csv has for them."""
    base = calibrated(good)

    def moved(by: float) -> TransformConfig:
        return replace(base, shift=base.shift + by)

    def flattened(share: float) -> TransformConfig:
        return replace(base, slope=share * base.slope, shift=share * base.shift)

    found = {
        "recalibrated": base,
        "flattened": solved(good, flattened, TARGETS["flattened"], (1.0, 0.01)),
        "shifted_up": solved(good, moved, TARGETS["shifted_up"], (0.0, FAR)),
        "shifted_far_up": solved(good, moved, TARGETS["shifted_far_up"], (0.0, FAR)),
        "shifted_down": solved(good, moved, TARGETS["shifted_down"], (0.0, -FAR)),
    }
    assert_ranks(good, found)
    values = {f"{kind}_{name}": getattr(c, kind.lower()) for name, c in found.items() for kind in ("SLOPE", "SHIFT")}
    for name, pool in (("good", good), ("poor", poor)):
        values[f"SLOPE_within_{name}"] = WITHIN / within(pool)
    return values


def calibrated(pool: Pool) -> TransformConfig:
    """Logistic recalibration on the pool."""
    known = worth(pool.scores)
    slope, intercept = known["calibration_slope"], known["calibration_intercept"]
    if slope is None or slope <= 0:
        raise DataError("the good verifier cannot be recalibrated: its scores do not rise with the resolved share")
    return TransformConfig(slope=float(slope), shift=float(intercept))


def solved(
    pool: Pool, config_of: Callable[[float], TransformConfig], target: float, ends: tuple[float, float]
) -> TransformConfig:
    """The transform between two ends at which the ECE is the target. Raises DataError where it is not reached."""

    def lacks(value: float) -> float:
        return pool.ece(config_of(value)) - target

    if lacks(ends[0]) * lacks(ends[1]) > 0:
        first, last = (pool.ece(config_of(end)) for end in ends)
        raise DataError(f"an ECE of {target} cannot be reached on the pool: it goes from {first:.3f} to {last:.3f}")
    return config_of(float(brentq(lacks, *ends, xtol=1e-4)))


def assert_ranks(pool: Pool, found: dict[str, TransformConfig]) -> None:
    """Raises DataError unless every distortion has the AUC and best of k of the verifier as it is, to the last digit.

    Metrics of patches are not among them: a patch's score is the mean, or the sum, of its attempts' scores, and means change places
    under a map that leaves the order of the attempts as it is.
    """
    plain, *moved = worths([pool.scores, *(pool.bent(config) for config in found.values())])
    for name, bent in zip(found, moved, strict=True):
        for metric in ("auc_within_task", "auc_pooled", "rm_at_k"):
            if bent.get(metric) != plain.get(metric):
                raise DataError(f"{name} changed {metric} on the pool: it is no change of calibration alone")


def within(pool: Pool) -> float:
    """Root mean square distance of the logits from the mean of their group."""
    held_N = np.clip(pool.scores.score, 1e-9, 1 - 1e-9)
    logit_N = np.log(held_N) - np.log1p(-held_N)
    mean_G = np.bincount(pool.group_N, logit_N) / np.bincount(pool.group_N)
    return float(np.sqrt(np.mean((logit_N - mean_G[pool.group_N]) ** 2)))


def roles(rows: list[dict[str, Any]]) -> dict[str, str]:
    """good: of the column `balanced`, the highest AUC within task; poor: of the others, the one nearest to an AUC of 0.70."""
    own = [row for row in rows if (row["block"], row["column"]) == ("verifiers", "balanced")]
    if len(own) < 2:
        raise DataError(
            "fewer than two verifiers of the column balanced are there: no good and no poor one can be named"
        )
    good = max(own, key=lambda row: (float(row["auc_within_task"]), row["name"]))
    others = (row for row in own if row is not good)
    poor = min(others, key=lambda row: (abs(float(row["auc_within_task"]) - POOR_AUC), row["name"]))
    return {"good": str(good["name"]), "poor": str(poor["name"])}


def remedy(rows: list[dict[str, Any]], pools: Mapping[str, Pool]) -> str:
    """The first of the other slopes of the column `overconfident` that takes the correlation of AUC and ECE out, as the command that
    plans with it."""
    for slopes in OTHER_SLOPES:
        of_amount = dict(zip(sorted({int(row["amount"]) for row in rows}), slopes, strict=True))
        tried = [
            {**row, "ece_width_10": pools[row["name"]].ece(TransformConfig(slope=of_amount[int(row["amount"])]))}
            if row["column"] == "overconfident"
            else row
            for row in rows
        ]
        if abs(correlation(tried)) < CORRELATION:
            return f"`design.py --slopes {' '.join(f'{slope:g}' for slope in slopes)}` mends the correlation: {correlation(tried):+.2f}"
    return "none of the other slopes mends the correlation: the study is run with those that it has"


def slope_of(cell: dict[str, str]) -> float:
    """What the logits of a run's verifier are multiplied by."""
    found = re.search(r"reward\.transform\.slope=(\S+)", cell["overrides"])
    return float(found[1]) if found else 1.0


def main() -> int:
    """Writes both files and prints the verdict; 1 where the design is not met."""
    state, store, folder = look(), Store.open(None), plan_folder()
    tables, pools, missing = dict[str, Scores](), dict[str, Pool](), list[str]()
    planned, before = read(folder / "cells.csv"), {row["name"]: row for row in read(folder / "design.csv")}
    slopes = {cell["verifier"]: slope_of(cell) for cell in planned if cell["block"] == "execution_free"}
    for cell in planned:
        if cell["kind"] != "verifier":
            continue
        if cell["name"] not in state.finished:
            missing.append(cell["name"])
            continue
        run_id = state.finished[cell["name"]].run_id
        pool = Pool.of(read_score_table(get_run(store, run_id).artifact("scores.parquet")))
        paid = TransformConfig(slope=slopes.get(cell["name"], 1.0))
        pools[cell["name"]], tables[cell["name"]] = pool, pool.bent(paid)
    if missing:
        print(f"not trained here: {', '.join(missing)}")
    if not pools:
        raise DataError("no verifier of this study is trained here: study.py verifiers trains them")
    found_of = dict(zip(tables, worths(list(tables.values())), strict=True))
    rows = [
        row_of(cell, found_of[name], state.finished[name].run_id)
        if (name := cell["name"]) in found_of
        else before[name]  # of a training on another machine
        for cell in planned
        if cell["kind"] == "verifier" and cell["name"] in found_of | before
    ]
    write_text(folder / "design.csv", csv_text(rows))
    own = [row for row in rows if row["block"] == "verifiers"]
    found = faults(own)
    print("\n".join(found) or "the design is met", flush=True)
    if (
        len(own) == VERIFIERS
        and {row["name"] for row in own} <= pools.keys()
        and not abs(correlation(own)) < CORRELATION
    ):
        print(remedy(own, pools))
    kept = read(fitted_file())
    named = {row["name"]: row["value"] for row in kept if row["name"] in ROLES}
    if not named:  # a role stays, whoever is trained again
        named = roles(rows)
        balanced = [cell["name"] for cell in planned if (cell["block"], cell["column"]) == ("verifiers", "balanced")]
        if early := [n for n in balanced if n in missing and not state.given_up({"name": n, "kind": "verifier"})]:
            raise DataError(
                f"good and poor are chosen once all of the column balanced are trained: {', '.join(early)} are not yet"
            )
    if lost := [f"{role} ({name})" for role, name in named.items() if name not in pools]:
        raise DataError(
            f"not trained here: {', '.join(lost)}. `study.py verifiers` trains what runs still need; then run this again"
        )
    values = fitted(*(pools[named[role]] for role in ("good", "poor")))
    ids = {role: state.finished[name].run_id for role, name in named.items()}
    found_now = [{"name": role, "value": name, "run_id": ids[role]} for role, name in named.items()] + [
        {"name": name, "value": f"{value:.6g}", "run_id": ids["poor" if name.endswith("_poor") else "good"]}
        for name, value in values.items()
    ]
    new = {(row["name"], row["run_id"]) for row in found_now}
    earlier = [
        row for row in kept if (row["name"], row["run_id"]) not in new
    ]  # of trainings whose runs are there already
    write_text(fitted_file(), csv_text([*earlier, *found_now]))
    return int(bool(found))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RmlabError as error:
        sys.exit(f"error: {error}")
