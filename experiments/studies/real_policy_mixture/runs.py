"""Every run of the page beside it, and how many of the mixed tasks each verifier and each rule picks right: runs.csv, picks.csv.

    python experiments/studies/real_policy_mixture/runs.py

Reads `runs.zip` beside this file. The ECE afterwards: each fold's scores calibrated by what its verifier says of its validation
part, which are other repositories.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from analysis.presentation.style import write_csv
from analysis.sweep.tracked import FinishedCell, SweepRuns, group_runs, source_runs
from rmlab.metrics.recalibration import platt, temperature
from rmlab.metrics.report import report
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table

HERE = Path(__file__).parent
CALIBRATORS = {"platt": platt, "temperature": temperature}
REPORTED = ("resolved_rate", "score_rate")
TRAINED = ("steps", "tokens", "seconds")


def run_row(cell: FinishedCell) -> dict[str, Any]:
    """One row of runs.csv."""
    found = cell.report
    return {
        "run_id": cell.run.run_id,
        "level": cell.level,
        "seed": cell.seed,
        **{name: cell.run.tags[name] for name in ("config_hash", "control_hash")},
        **{name: found[name] for name in REPORTED},
        "mean_score": float(np.nanmean(cell.scores.score)),
        "rm_at_2_across": found["rm_at_k_across"]["2"],
        **{name: found[name] for name in ("auc_within_task_across", "auc_pooled", "ece_width_10")},
        **{f"ece_{name}": ece_afterwards(cell, name) for name in CALIBRATORS},
        **{f"train_{name}": cell.run.metrics[f"train/{name}"] for name in TRAINED},
    }


def ece_afterwards(cell: FinishedCell, name: str) -> float:
    """The ECE of the scores of all folds, each calibrated by its validation part."""
    scores, score = cell.scores, cell.scores.score.copy()
    for fold in json.loads(cell.run.artifact("folds.json").read_text(encoding="utf-8")):
        known = _scored(read_score_table(cell.run.artifact(f"folds/{fold['fold']}/validation_scores.parquet")))
        own = np.isin(scores.cluster, fold["evaluation"]) & ~np.isnan(score)
        score[own] = CALIBRATORS[name](known.score, known.resolved).apply(score[own])
    found: float = report(replace(scores, score=score), replicates=0)["ece_width_10"]
    return found


def _scored(scores: Scores) -> Scores:
    return scores.select(~np.isnan(scores.score) & ~np.isnan(scores.resolved))


def picks(sweep: SweepRuns) -> Iterator[dict[str, Any]]:
    """Rows of picks.csv. Of a mixed task one attempt is resolved and another is not; a perfect verifier picks all of them right."""
    first = sweep.cells[0]
    scores = first.compared
    labels = [
        scores.resolved[(scores.task_id == task) & ~np.isnan(scores.resolved)] for task in np.unique(scores.task_id)
    ]
    mixed = sum(0 < of.mean() < 1 for of in labels if len(of))
    tasks = sum(len(of) > 0 for of in labels)
    best = first.baselines["oracle"]["rm_at_k_across"]["2"]

    def row(level: str, seed: int | str, picked: float) -> dict[str, Any]:
        return {"level": level, "seed": seed, "mixed": mixed, "right": round(mixed - (best - picked) * tasks, 6)}

    for cell in sorted(sweep.cells, key=lambda cell: (sweep.levels.index(cell.level), cell.seed)):
        yield row(cell.level, cell.seed, cell.report["rm_at_k_across"]["2"])
    for name, found in first.baselines.items():
        if found.get("rm_at_k_across"):
            yield row(name, "", found["rm_at_k_across"]["2"])


def main(out: Path = HERE) -> None:
    """Writes both tables."""
    with source_runs(str(HERE / "runs.zip"), ("verifier",)) as (_, found):
        [sweep] = group_runs(found)
        cells = sorted(sweep.cells, key=lambda cell: (sweep.levels.index(cell.level), cell.seed))
        write_csv(out / "runs.csv", [run_row(cell) for cell in cells], digits=6)
        write_csv(out / "picks.csv", list(picks(sweep)), digits=6)


if __name__ == "__main__":
    main()
