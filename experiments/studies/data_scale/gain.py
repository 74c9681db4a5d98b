"""How much better is the best of k than any attempt? RM@k - pass@1 of one level, paired over tasks, mean over its seeds.

    python experiments/studies/data_scale/gain.py 8000 8

Intervals: 95 %, 2,000 resamples of clusters, the same for every seed; how far seeds differ is not in them.
"""

import sys

import numpy as np
from numpy.typing import NDArray

from rmlab.metrics.best_of_k import sizes_of_k
from rmlab.metrics.table import table
from rmlab.metrics.uncertainty import bootstrap
from rmlab.metrics.weighted import BestOfK, Values
from rmlab.scores.table import read_score_table
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store


def main(level: str, k: int) -> None:
    gains, estimates = [], []
    tags = {"kind": "verifier", "status": "finished", "sweep": "data_scale", "preset": "demo", "level": level}
    for run in sorted(runs(Store.open(), tags=tags), key=lambda r: r.name):
        rows = table(read_score_table(run.artifact("scores.parquet")))
        best = BestOfK(rows)
        at_k = sizes_of_k(rows.most_attempts).index(k)
        gain_R = gained(bootstrap(best, rows.clusters, 2000, seed=0), at_k)
        estimates.append(float(gained(best.values(np.ones((1, rows.clusters))), at_k)[0]))
        point = run.metrics["eval/auc_within_task"]
        print(f"{run.name}: {shown(estimates[-1], gain_R)}, AUC within task {point:.3f}")
        gains.append(gain_R)
    print(f"mean of {len(gains)} seeds: {shown(float(np.mean(estimates)), np.mean(gains, axis=0))}")


def gained(values: Values, at_k: int) -> NDArray[np.float64]:
    """RM@k - pass@1 under each weighting of the clusters. at_k: the place of k among the sizes."""
    return values["rm_at_k"][:, at_k] - values["pass_at_k"][:, 0]


def shown(estimate: float, gain_R: NDArray[np.float64]) -> str:
    """The estimate (not the mean of its resamples) and the 95 % interval of R resamples."""
    low, high = np.quantile(gain_R, [0.025, 0.975])
    return f"{estimate:+.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
