"""How much better is the best of k than any attempt? RM@k - pass@1 of one level, paired over tasks, mean over its seeds.

    python experiments/studies/data_scale/gain.py 8000 8

Intervals: 95 %, 2,000 resamples of clusters, the same for every seed; how far seeds differ is not in them.
"""

import sys

import numpy as np
from numpy.typing import NDArray

from rmlab.metrics.best_of_k import sizes_of_k
from rmlab.metrics.table import Table, table
from rmlab.metrics.uncertainty import bootstrap
from rmlab.metrics.weighted import BestOfK
from rmlab.scores.table import read_score_table
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store


def main(level: str, k: int) -> None:
    found = []
    tags = {"kind": "verifier", "status": "finished", "sweep": "data_scale", "preset": "demo", "level": level}
    for run in sorted(runs(Store.open(), tags=tags), key=lambda r: r.name):
        gain, gain_R = gains(table(read_score_table(run.artifact("scores.parquet"))), k)
        point = run.metrics["eval/auc_within_task"]
        print(f"{run.name}: {shown(gain, gain_R)}, AUC within task {point:.3f}")
        found.append((gain, gain_R))
    mean, mean_R = (np.mean(side, axis=0) for side in zip(*found, strict=True))
    print(f"mean of {len(found)} seeds: {shown(float(mean), mean_R)}")


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
    main(sys.argv[1], int(sys.argv[2]))
