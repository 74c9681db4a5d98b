"""What are the demo's verifiers worth on evaluation tasks that no study has used?

    python experiments/studies/data_scale/fresh_tasks.py            # reads fresh_tasks.parquet, writes fresh_tasks.csv

`fresh_tasks.parquet`: attempts at 320 tasks of the evaluation part beyond the 200 of the shipped set, with the scores of the
demo's verifiers of 4,000 attempts (one column a seed) and of the rule `last_value`. Collected once and scored once:

    rmlab collect output=runs/fresh.parquet parts.verifier.tasks=0 parts.validation.tasks=0 parts.supervised.tasks=0 \
        parts.evaluation.tasks=520                                  # the first 200 tasks are those of the shipped set: left out
    rmlab score --model data_scale/demo/4000/s0 runs/fresh.parquet -o fresh_s0.parquet

Differences are paired: the same clusters of tasks are drawn on both sides. Intervals are over tasks, of the mean of the seeds.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.presentation import style
from rmlab.files import write_text
from rmlab.metrics.best_of_k import sizes_of_k
from rmlab.metrics.registry import named, statistics
from rmlab.metrics.table import Table, table
from rmlab.metrics.uncertainty import bootstrap, interval
from rmlab.metrics.weighted import Combined
from rmlab.scores.scores import Scores

HERE = Path(__file__).parent
REPLICATES = 2000
SCALARS = ("auc_within_task", "auc_within_task_patches", "auc_pooled", "ece_width_10", "brier")
CURVES = {"rm_at_k": (4, 8, 16), "rm_at_k_patches": (4, 8), "rm_at_k_weighted": (4, 8, 16), "pass_at_k": (1,)}
Values = dict[str, NDArray[np.float64]]


def main() -> None:
    """Prints and writes one row a quantity: the mean of the seeds, each seed, and the interval."""
    scored = pd.read_parquet(HERE / "fresh_tasks.parquet")
    seeds = [name for name in map(str, scored.columns) if name.startswith("score_s")]
    verifiers = [measured(scored, scored[name]) for name in seeds]
    last_value, majority = measured(scored, scored["last_value"]), measured(scored, pd.Series(0.5, scored.index))
    rows = [row(name, [values[name] for values in verifiers]) for name in verifiers[0]]
    rows += [row(f"last_value {name}", [values]) for name, values in last_value.items()]
    rows += [row(f"majority {name}", [majority[name]]) for name in majority if name.startswith("rm_at_k_weighted")]
    pairs = [
        ("auc_within_task", last_value["auc_within_task"], "last_value"),
        ("auc_within_task_patches", last_value["auc_within_task_patches"], "last_value"),
        ("rm_at_k@16", last_value["rm_at_k@16"], "last_value"),
        ("rm_at_k_weighted@16", majority["rm_at_k_weighted@16"], "majority"),
    ]
    for name, other, words in pairs:
        rows.append(row(f"{name} - {words}", [values[name] - other for values in verifiers]))
    for more, less in (("rm_at_k@16", "rm_at_k@4"), ("rm_at_k@16", "pass_at_k@1"), ("rm_at_k@8", "rm_at_k@4")):
        rows.append(row(f"{more} - {less}", [values[more] - values[less] for values in verifiers]))
    write_text(HERE / "fresh_tasks.csv", style.csv_text(rows))
    print(pd.DataFrame(rows).to_string(index=False, float_format="%.3f"))


def measured(scored: pd.DataFrame, score: "pd.Series[float]") -> Values:
    """Every quantity as it is (first), and on REPLICATES draws of the clusters."""
    rows = grouped(scored, score)
    statistic = Combined(rows, statistics())
    point, drawn = (
        statistic.values(np.ones((1, rows.clusters))),
        bootstrap(statistic, rows.clusters, REPLICATES, seed=0),
    )
    place = {k: j for j, k in enumerate(sizes_of_k(rows.most_attempts))}
    found = {name: np.concatenate([point[name], drawn[name]]) for name in SCALARS}
    for name, ks in CURVES.items():
        for k in ks:
            found[f"{name}@{k}"] = np.concatenate([point[name][:, place[k]], drawn[name][:, place[k]]])
    return found


def grouped(scored: pd.DataFrame, score: "pd.Series[float]") -> Table:
    """One verifier's table."""
    text = {
        name: scored[name].to_numpy(dtype=str) for name in ("task_id", "trajectory_id", "policy", "source", "cluster")
    }
    scores = Scores(
        **text,
        score=np.asarray(score, dtype=np.float64),
        resolved=np.asarray(scored["resolved"], dtype=np.float64),
        n_tokens=np.full(len(scored), np.nan),
        patch=scored["patch"].to_numpy(dtype=str),
    )
    return table(scores)


def row(name: str, seeds: list[NDArray[np.float64]]) -> dict[str, object]:
    """seeds: the value (first) and its replicates, one array a seed."""
    mean = np.mean(seeds, axis=0)
    metric, *other = name.split(" - ")
    rule = named(metric.split(" ")[-1].split("@")[0]).rule
    low, high = interval(float(mean[0]), mean[1:], rule, difference=bool(other)) or (np.nan, np.nan)
    each = {f"s{i}": float(values[0]) for i, values in enumerate(seeds)} if len(seeds) > 1 else {}
    return {"quantity": name, "value": float(mean[0]), "low": float(low), "high": float(high), **each}


if __name__ == "__main__":
    main()
