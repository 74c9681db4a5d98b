"""How much better is the best of k than any attempt? RM@k - pass@1 at each amount, paired over tasks, as CSV.

    python experiments/studies/data_scale/gain.py > experiments/studies/data_scale/gain.csv

Reads `runs.zip` beside this file: a row a training, and one that is the mean of an amount's trainings. Intervals: 95 %, 2,000
resamples of clusters, the same for every training; how far trainings differ is not in them.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analysis.sweep.tracked import group_runs, source_runs
from rmlab.metrics.best_of_k import sizes_of_k
from rmlab.metrics.table import Table, table
from rmlab.metrics.uncertainty import bootstrap
from rmlab.metrics.weighted import BestOfK


def main() -> None:
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["level", "k", "seed", "gain"])
    with source_runs(str(Path(__file__).with_name("runs.zip")), ("verifier",)) as (_, found):
        [sweep] = group_runs(found)
        for level in sweep.levels:
            tables = {cell.seed: table(cell.scores) for cell in sweep.at(level, "epochs")}
            for k in (8, 16):
                of_seed = {seed: gains(rows, k) for seed, rows in tables.items()}
                out.writerows([level, k, seed, shown(*gain)] for seed, gain in of_seed.items())
                mean, mean_R = (np.mean(side, axis=0) for side in zip(*of_seed.values(), strict=True))
                out.writerow([level, k, "mean", shown(float(mean), mean_R)])


def gains(rows: Table, k: int) -> tuple[float, NDArray[np.float64]]:
    """RM@k - pass@1: the estimate, and its values on 2,000 resamples."""
    statistic, place = BestOfK(rows), sizes_of_k(rows.most_attempts).index(k)
    point, drawn = statistic.values(np.ones((1, rows.clusters))), bootstrap(statistic, rows.clusters, 2000, seed=0)
    gain, gain_R = (values["rm_at_k"][:, place] - values["pass_at_k"][:, 0] for values in (point, drawn))
    return float(gain[0]), gain_R


def shown(gain: float, gain_R: NDArray[np.float64]) -> str:
    """The estimate and the 95 % interval of R resamples."""
    low, high = np.quantile(gain_R, [0.025, 0.975])
    return f"{gain:+.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main()
