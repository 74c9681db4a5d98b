"""How long does `rmlab evaluate` take, and what does an exact RM@k save against drawing subsets?

    python experiments/benchmarks/evaluate.py [--tasks 500] [--attempts 32] [--subsets 1000]

One core. Three measurements on one generated table: the whole command as a process of its own (start, reading, all
metrics and intervals); the report alone; and the RM@k curve, exact and by the Monte-Carlo estimator in use elsewhere
(R2E-Gym's published notebook: for each task and k, the mean label of the best-scored attempt of 1,000 random subsets).
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy is loaded

import numpy as np  # noqa: E402

from rmlab.metrics.best_of_k import rm_curve, sizes_of_k  # noqa: E402
from rmlab.metrics.report import report  # noqa: E402
from rmlab.metrics.scores import Scores  # noqa: E402
from rmlab.metrics.table import table  # noqa: E402
from rmlab.verifiers.score_table import read_score_table, write_score_table  # noqa: E402


def generated(tasks: int, attempts: int) -> Scores:
    """A table like a real one: difficulty spread over tasks, scores that know some of it and some of the label."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(tasks), attempts)
    difficulty = rng.normal(0, 2, tasks)[task]
    resolved = rng.random(len(task)) < 1 / (1 + np.exp(-difficulty))
    score = 1 / (1 + np.exp(-(0.7 * difficulty + resolved - 0.5 + rng.normal(0, 1, len(task)))))
    return Scores.of([f"task-{t:04d}" for t in task], score, resolved, trajectory_id=[f"trajectory-{i:06d}" for i in range(len(task))])


def by_subsets(scores: Scores, sizes: list[int], subsets: int) -> list[float]:
    """The Monte-Carlo estimator: subsets are drawn, the best-scored of each is looked up."""
    rng = np.random.default_rng(0)
    by_task = [(scores.score[rows], scores.resolved[rows]) for rows in
               (np.flatnonzero(scores.task_id == task) for task in np.unique(scores.task_id))]
    curve = []
    for k in sizes:
        means = []
        for score_K, label_K in by_task:
            picked = []
            for _ in range(subsets):
                subset = rng.choice(len(score_K), min(k, len(score_K)), replace=False)
                picked.append(label_K[subset[np.argmax(score_K[subset])]])
            means.append(np.mean(picked))
        curve.append(float(np.mean(means)))
    return curve


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What the call gives, and seconds."""
    start = time.perf_counter()
    value = call()
    return value, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--attempts", type=int, default=32)
    parser.add_argument("--subsets", type=int, default=1000, help="of the Monte-Carlo estimator; 0 leaves it out")
    chosen = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.parquet"
        write_score_table(path, generated(chosen.tasks, chosen.attempts))
        print(f"{chosen.tasks} tasks × {chosen.attempts} attempts, one core")
        command = [sys.executable, "-m", "rmlab.cli", "evaluate", str(path), "--json"]
        _, seconds = timed(lambda: subprocess.run(command, capture_output=True, text=True, check=True))
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"rmlab evaluate --json, whole process: {seconds:.2f} s, of which {used.ru_utime + used.ru_stime:.2f} s on the core")
        scores, seconds = timed(lambda: read_score_table(path))
        print(f"reading the table: {seconds:.2f} s")
        report(scores.select(np.arange(50)), replicates=2)  # loads scikit-learn
        before = time.process_time()
        found, seconds = timed(lambda: report(scores))
        print(f"report with {found['replicates']} bootstrap replicates: {seconds:.2f} s, "
              f"of which {time.process_time() - before:.2f} s on the core")
        sizes = sizes_of_k(chosen.attempts)
        exact, exact_seconds = timed(lambda: rm_curve(table(scores), sizes))
        print(f"RM@k exact: {exact_seconds * 1000:.1f} ms  " + "  ".join(f"@{k} {v:.4f}" for k, v in zip(sizes, exact, strict=True)))
        if chosen.subsets:
            drawn, seconds = timed(lambda: by_subsets(scores, sizes, chosen.subsets))
            print(f"RM@k by {chosen.subsets} subsets: {seconds:.1f} s  "
                  + "  ".join(f"@{k} {v:.4f}" for k, v in zip(sizes, drawn, strict=True)))
            print(f"exact is {seconds / exact_seconds:,.0f} times faster; largest error of the subsets "
                  f"{max(abs(a - b) for a, b in zip(exact, drawn, strict=True)):.4f}")


if __name__ == "__main__":
    main()
