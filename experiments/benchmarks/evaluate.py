"""How long does `rmlab evaluate` take, and what does an exact RM@k save against drawing subsets?

    python experiments/benchmarks/evaluate.py [--tasks 500] [--attempts 32] [--subsets 1000] [--hybrid-tasks 50]

One core. On one generated table: the whole command as a process of its own (start, reading, all metrics and intervals, by
JSON and with a page); the report alone; and the RM@k curve, exact and by the estimator of R2E-Gym's published notebook
(reproduction/verifier_evals.ipynb, written anew: for each task and k, 1,000 random subsets, and of each the mean label of the
best-scored). The same for its hybrid selection by score and tests, on fewer tasks, since its estimator takes longer.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy is loaded

import numpy as np  # noqa: E402

from rmlab.benchmark import BenchmarkRow, run_script  # noqa: E402
from rmlab.metrics.best_of_k import rm_curve, sizes_of_k  # noqa: E402
from rmlab.metrics.hybrid_selection import select_by_tests  # noqa: E402
from rmlab.metrics.report import report  # noqa: E402
from rmlab.metrics.table import Floats, table  # noqa: E402
from rmlab.scores.scores import Scores  # noqa: E402
from rmlab.scores.table import read_score_table  # noqa: E402
from rmlab.scores.writing import write_score_table  # noqa: E402

Row = tuple[float, float, float, float]
"""Score, regression tests, generated tests, label of one attempt."""


def generated(tasks: int, attempts: int) -> tuple[Scores, Floats, Floats]:
    """A table like a real one and results of tests: difficulty spread over tasks, scores that know some of it and of the label."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(tasks), attempts)
    difficulty = rng.normal(0, 2, tasks)[task]
    resolved = rng.random(len(task)) < 1 / (1 + np.exp(-difficulty))
    score = 1 / (1 + np.exp(-(0.7 * difficulty + resolved - 0.5 + rng.normal(0, 1, len(task)))))
    regression_N, reproduction_N = ((rng.random(len(task)) < 0.5 + 0.3 * resolved).astype(float) for _ in range(2))
    scores = Scores.of(
        [f"task-{t:04d}" for t in task],
        score,
        resolved,
        trajectory_id=[f"trajectory-{i:06d}" for i in range(len(task))],
    )
    return scores, regression_N, reproduction_N


def best_scored(drawn: list[Row]) -> float:
    """The notebook's pick without execution: mean label of those with the best score."""
    drawn.sort(reverse=True, key=lambda row: row[0])
    best = drawn[0][0]
    return float(np.mean([row[3] for row in drawn if row[0] == best]))


def hybrid(drawn: list[Row]) -> float:
    """The notebook's pick by both: the best half by score (at least three), then regression, generated tests, score."""
    drawn.sort(reverse=True, key=lambda row: row[:3])
    left = drawn[: max(3, int(len(drawn) * 0.5))]
    for column in (1, 2, 0):
        best = max(row[column] for row in left)
        left = [row for row in left if row[column] == best]
    return float(np.mean([row[3] for row in left]))


def by_subsets(
    rows_of_tasks: list[list[Row]], sizes: list[int], subsets: int, pick: Callable[[list[Row]], float]
) -> list[float]:
    """The notebook's estimator: subsets are drawn, the pick of each is looked up."""
    rng = np.random.RandomState(0)
    curve = []
    for k in sizes:
        means = []
        for rows in rows_of_tasks:
            picked = [
                pick([rows[i] for i in rng.choice(range(len(rows)), size=min(k, len(rows)), replace=False)])
                for _ in range(subsets)
            ]
            means.append(np.mean(picked))
        curve.append(float(np.mean(means)))
    return curve


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What the call gives, and seconds."""
    start = time.perf_counter()
    value = call()
    return value, time.perf_counter() - start


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Measures on one core of this machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--attempts", type=int, default=32)
    parser.add_argument("--subsets", type=int, default=1000, help="of the Monte-Carlo estimator; 0 leaves it out")
    parser.add_argument("--hybrid-tasks", type=int, default=50, help="tasks of the comparison of hybrid selection")
    chosen = parser.parse_args(arguments)
    measured: list[BenchmarkRow] = []
    size = f"{chosen.tasks} tasks × {chosen.attempts} attempts"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.parquet"
        scores, regression_N, reproduction_N = generated(chosen.tasks, chosen.attempts)
        write_score_table(path, scores)
        print(f"{size}, one core")
        for options in (["--json"], ["--html", str(Path(folder) / "page.html")]):
            command = [sys.executable, "-m", "rmlab.cli", "evaluate", str(path), *options]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            _, seconds = timed(partial(subprocess.run, command, capture_output=True, text=True, check=True))
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            on_core = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
            print(f"rmlab evaluate {options[0]}, whole process: {seconds:.2f} s, of which {on_core:.2f} s on the core")
            measured.append(BenchmarkRow(f"rmlab evaluate {options[0]}, {size}", "s", seconds))
        scores, seconds = timed(lambda: read_score_table(path))
        print(f"reading the table: {seconds:.2f} s")
        report(scores.select(np.arange(50)), replicates=2)  # loads scikit-learn
        started = time.process_time()
        found, seconds = timed(lambda: report(scores))
        print(
            f"report with {found['replicates']} bootstrap replicates: {seconds:.2f} s, "
            f"of which {time.process_time() - started:.2f} s on the core"
        )
        measured.append(BenchmarkRow(f"report, {found['replicates']} replicates, {size}", "s", seconds))
        sizes = sizes_of_k(chosen.attempts)
        rows_of_tasks = [
            list(
                zip(
                    *(
                        column[scores.task_id == name]
                        for column in (scores.score, regression_N, reproduction_N, scores.resolved)
                    ),
                    strict=True,
                )
            )
            for name in np.unique(scores.task_id)
        ]
        measured += compare(
            "RM@k", lambda: rm_curve(table(scores), sizes), rows_of_tasks, sizes, chosen.subsets, best_scored
        )
        few = np.isin(scores.task_id, np.unique(scores.task_id)[: chosen.hybrid_tasks])
        if few.any():
            measured += compare(
                f"hybrid, {chosen.hybrid_tasks} tasks",
                lambda: list(
                    select_by_tests(scores.select(few), regression_N[few], reproduction_N[few], sizes).hybrid.values()
                ),
                rows_of_tasks[: chosen.hybrid_tasks],
                sizes,
                chosen.subsets,
                hybrid,
            )
    return measured


def compare(
    name: str,
    exactly: Callable[[], list[float]],
    rows_of_tasks: list[list[Row]],
    sizes: list[int],
    subsets: int,
    pick: Callable[[list[Row]], float],
) -> list[BenchmarkRow]:
    """Prints a curve, exact and by subsets, and the seconds of each; the row that compares them, where subsets are drawn."""
    exact, exact_seconds = timed(exactly)
    print(
        f"{name} exact: {exact_seconds * 1000:.1f} ms  "
        + "  ".join(f"@{k} {v:.4f}" for k, v in zip(sizes, exact, strict=True))
    )
    if subsets:
        drawn, seconds = timed(lambda: by_subsets(rows_of_tasks, sizes, subsets, pick))
        print(
            f"{name} by {subsets} subsets: {seconds:.1f} s  "
            + "  ".join(f"@{k} {v:.4f}" for k, v in zip(sizes, drawn, strict=True))
        )
        print(
            f"{name}: exact is {seconds / exact_seconds:,.0f} times faster; largest error of the subsets "
            f"{max(abs(a - b) for a, b in zip(exact, drawn, strict=True)):.4f}"
        )
        return [BenchmarkRow(f"{name}, {len(rows_of_tasks)} tasks", "ms", 1000 * exact_seconds, theirs=1000 * seconds)]
    return []


if __name__ == "__main__":
    run_script(main)
