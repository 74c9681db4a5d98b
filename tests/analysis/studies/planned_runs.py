"""Runs of the cells of a study, whose quality is known, in a store and in the bundles of the study's folder."""

from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from omegaconf import OmegaConf

from analysis.studies.planned_cells import PlannedCell
from analysis.studies.planned_study import PlannedStudy
from rmlab.metrics.report import report
from rmlab.paths import REPOSITORY
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.sweep.spec import read_sweep
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store

TASKS = 24
SHIPPED = REPOSITORY / "experiments" / "studies" / "language_verifiers"


@cache
def scored(quality: float, noise: int) -> tuple[Scores, dict[str, Any]]:
    """Attempts whose labels and luck are those of all runs, and their report; noise and quality are their own."""
    rng = np.random.default_rng(0)
    label, shared = rng.random(TASKS * 4) < 0.5, rng.normal(size=TASKS * 4)
    own = np.random.default_rng(noise).normal(0, 0.3, TASKS * 4)
    names = np.repeat([f"t{i}" for i in range(TASKS)], 4)
    scores = Scores.of(names, 1 / (1 + np.exp(-(quality * (label - 0.5) + shared + own))), label)
    return scores, report(scores, replicates=0)


def train(
    store: Store,
    folder: Path,
    cell: PlannedCell,
    quality: float,
    *,
    fails: bool = False,
    hashed: str = "",
    control: str = "",
    pool: str = "the pool",
    change: tuple[str, Any] | None = None,
) -> None:
    """One verifier's run of a planned cell, with a further pool on which it is worth nothing."""
    spec = read_sweep(cell.sweep, "demo")
    tags = {
        "sweep": cell.sweep,
        "preset": "demo",
        "factor": spec.factor,
        "level": cell.level,
        "arm": cell.arm,
        "baseline": str(spec.baseline),
        "place": str([str(level) for level in spec.levels].index(cell.level)),
        "config_hash": hashed or cell.key,
        "control_hash": f"control of {cell.sweep}{control}",
        "dataset": pool,
    }
    config = cell.config.copy()
    if change is not None:
        OmegaConf.update(config, *change)
    place = int(tags["place"])
    with RunLogger.start(store, cell.sweep, cell.name, kind="verifier", tags=tags, params={"seed": cell.seed}) as run:
        run.configuration(config)
        if fails:
            raise ArithmeticError("loss is not finite")
        (scores, own), (_, hard) = scored(quality, 10 * cell.seed + place), scored(0.0, cell.seed + place)
        write_score_table(folder / "scores.parquet", scores)
        run.json("report.json", own)
        run.json("baselines.json", {})
        run.json("hard_report.json", hard)
        run.metric("eval_hard/auc_within_task", hard["auc_within_task"])
        run.artifact(folder / "scores.parquet")


def bundle(store: Store, scratch: Path, folder: Path, sweep: str, levels: dict[str, float], seeds: int) -> Path:
    """Trains levels (level -> quality) of a sweep of the study in a folder, and writes their bundle beside the store."""
    for cell in PlannedStudy.read(folder, []).planned[sweep]:
        if cell.level in levels and cell.seed < seeds:
            train(store, scratch, cell, levels[cell.level])
    written = scratch / "whole.zip"
    export_runs(store, written, sweep=sweep, preset="demo", study=True, show=False)
    return written


class Fill(Protocol):
    """As the fixture `fill` does it."""

    def __call__(self, sweeps: dict[str, dict[str, float]], seeds: int = 3) -> None: ...


WHOLE = {"4:1": 1.0, "2:1": 1.0, "1:1": 1.0, "1:2": 1.0, "1:4": 6.0}
