"""The trials that start from the shipped base beside the runs of data_scale that train the same verifiers again, as CSV.

    python experiments/studies/starter_base/again.py > experiments/studies/starter_base/again.csv

Both on validation: AUC within task by amount and seed, of `verifiers.csv` beside this file and of the bundle of data_scale.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

from analysis.sweep.tracked import group_runs, source_runs
from rmlab.paths import REPOSITORY

BASE, RATE = "4 x 128, both questions, seed 0", "0.001"
BUNDLE = REPOSITORY / "experiments" / "studies" / "data_scale" / "runs.zip"


def rows() -> Iterator[dict[str, str]]:
    """One trial each: scale, seed, and the AUC within task of the trial and of the run."""
    with Path(__file__).with_name("verifiers.csv").open(newline="", encoding="utf-8") as file:
        trials = [row for row in csv.DictReader(file) if (row["base"], row["learning_rate"]) == (BASE, RATE)]
    with source_runs(str(BUNDLE), ("verifier",)) as (_, found):
        [sweep] = group_runs(found)
        again = {(c.level, str(c.seed)): c.run.metrics["validation/auc_within_task"] for c in sweep.cells}
    for trial in trials:
        place = trial["scale"], trial["seed"]
        yield dict(zip(("scale", "seed"), place, strict=True)) | {
            "trial": trial["auc_within_task"],
            "again": f"{again[place]:.4f}",
            "difference": f"{again[place] - float(trial['auc_within_task']):.4f}",
        }


def main() -> None:
    """Writes the rows to standard output."""
    out = csv.DictWriter(sys.stdout, ["scale", "seed", "trial", "again", "difference"], lineterminator="\n")
    out.writeheader()
    out.writerows(rows())


if __name__ == "__main__":
    main()
