"""What could each sweep of the study show? Written before any cell ran: power.csv beside this file.

    python experiments/studies/language_verifiers/power.py

The spread between trainings is that of the sweep's own differences from the baseline where single trainings of it are shipped
(`LANDED`), else that of label_ratio: trainings of the shipped base on scripts' attempts, judged on 80 tasks. How much trainings of the
larger model differ is not known before they are done; each page states the power that there was.
"""

import csv
from pathlib import Path

import pandas as pd
import yaml

from rmlab.metrics.sweep_levels import LEVEL, detectable_difference
from rmlab.paths import REPOSITORY
from rmlab.sweep.spec import read_sweep

HERE = Path(__file__).parent
STUDIES = REPOSITORY / "experiments" / "studies"
LANDED = {"data_scale": "8000", "label_ratio": "1:1", "architecture": "scratch", "context_length": "1024"}
"""Sweeps whose single trainings are shipped, and the level that the others are compared with: the plan's baseline where it is there."""
SWEEPS = yaml.safe_load((HERE / "study.yaml").read_text(encoding="utf-8"))["sweeps"]
METRICS = {"auc_within_task": "AUC within task", "rm_at_16": "RM@16", "ece_width_10": "ECE"}


def spread(sweep: str) -> dict[str, float]:
    """Standard deviation between trainings of a paired difference, pooled over levels and arms; levels are the plan's where it has
    the baseline."""
    rows = pd.read_csv(STUDIES / sweep / "runs.csv", dtype={"level": str, "arm": str}).fillna({"arm": ""})
    baseline, planned = LANDED[sweep], [str(level) for level in read_sweep(sweep, "small").levels]
    if baseline in planned:
        rows = rows[rows.level.isin(planned)]
    found = {}
    for metric in METRICS:
        levels = rows.pivot_table(index=["arm", "seed"], columns="level", values=metric)
        differences = levels.drop(columns=baseline).sub(levels[baseline], axis=0)
        found[metric] = float(differences.groupby("arm").var(ddof=1).to_numpy().mean() ** 0.5)
    return found


def main() -> None:
    """Writes power.csv."""
    with (HERE / "power.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["sweep", "levels", "seeds", "cells", "tests", "metric", "spread_of", "spread", "alone", "holm"])
        for name in SWEEPS:
            spec = read_sweep(name, "small")
            levels, seeds, arms = len(spec.levels), len(spec.seeds), max(len(spec.arms.levels) if spec.arms else 1, 1)
            others = (levels - 1) * arms
            degrees = (
                others * (seeds - 1) / (1 + (others - 1) / 4)
            )  # as `rmlab.metrics.sweep_levels.seed_variance` has them
            landed = name if name in LANDED else "label_ratio"
            for metric, sd in spread(landed).items():
                error = sd / seeds**0.5
                shown = [detectable_difference(error, degrees, LEVEL / n) for n in (1, others * len(METRICS))]
                cells = levels * seeds * arms
                rows.writerow(
                    [
                        name,
                        levels,
                        seeds,
                        cells,
                        others * len(METRICS),
                        metric,
                        landed,
                        *(f"{x:.4f}" for x in (sd, *shown)),
                    ]
                )


if __name__ == "__main__":
    main()
