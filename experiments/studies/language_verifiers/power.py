"""What could each sweep of the study show? Written before any cell ran: power.csv beside this file.

    python experiments/studies/language_verifiers/power.py

The spread between trainings is that of the differences from 1:1 in experiments/studies/label_ratio (25 trainings of the shipped base
at 4,000 attempts, 80 tasks), the only sweep with five trainings a level whose single trainings are shipped. How much trainings of the
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
TRAININGS = REPOSITORY / "experiments" / "studies" / "label_ratio" / "runs.csv"
SWEEPS = yaml.safe_load((HERE / "study.yaml").read_text(encoding="utf-8"))["sweeps"]
METRICS = {"auc_within_task": "AUC within task", "rm_at_16": "RM@16", "ece_width_10": "ECE"}


def spread() -> dict[str, float]:
    """Standard deviation between trainings of a paired difference, pooled over the ratios."""
    rows = pd.read_csv(TRAININGS)
    found = {}
    for metric in METRICS:
        levels = rows.pivot_table(index="seed", columns="level", values=metric)
        differences = levels.drop(columns="1:1").sub(levels["1:1"], axis=0)
        found[metric] = float(differences.var(ddof=1).mean() ** 0.5)
    return found


def main() -> None:
    """Writes power.csv."""
    between = spread()
    with (HERE / "power.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["sweep", "levels", "seeds", "cells", "tests", "metric", "spread", "alone", "holm"])
        for name in SWEEPS:
            spec = read_sweep(name, "small")
            levels, seeds, arms = len(spec.levels), len(spec.seeds), max(len(spec.arms.levels) if spec.arms else 1, 1)
            others = (levels - 1) * arms
            degrees = (
                others * (seeds - 1) / (1 + (others - 1) / 4)
            )  # as `rmlab.metrics.sweep_levels.seed_variance` has them
            for metric, sd in between.items():
                error = sd / seeds**0.5
                shown = [detectable_difference(error, degrees, LEVEL / n) for n in (1, others * len(METRICS))]
                cells = levels * seeds * arms
                rows.writerow(
                    [name, levels, seeds, cells, others * len(METRICS), metric, *(f"{x:.4f}" for x in (sd, *shown))]
                )


if __name__ == "__main__":
    main()
