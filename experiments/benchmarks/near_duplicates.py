"""How long does the search for issues that are nearly the same take, and does it find them?

    python experiments/benchmarks/near_duplicates.py [--tasks 100000]

Generates issues of 60 to 500 words (Zipf, 30,000 words). Every hundredth is the one before it with every 90th word changed: an
overlap near 0.9. Looks for them on one core, over all pairs as `rmlab trajectories split` does and between three parts as training
does. Prints seconds of CPU and the largest resident memory, and stops with an error where a planted pair is not found.
"""

import argparse
import resource
import sys
import time
from collections.abc import Sequence

import numpy as np

from rmlab.benchmark import BenchmarkRow, run_script
from rmlab.trajectories.leakage import near_duplicates

VOCABULARY, EVERY, CHANGED = 30_000, 100, 90


def issues(tasks: int) -> dict[str, str]:
    """task → text; the planted pairs are t…99 and t…00 behind it."""
    rng = np.random.default_rng(0)
    chance = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    words = np.array([f"w{i}" for i in range(VOCABULARY)])
    found: dict[str, str] = {}
    before = words[:0]
    for number in range(tasks):
        text = words[np.searchsorted(chance, rng.random(int(rng.integers(60, 500))) * chance[-1])]
        if number and number % EVERY == 0:
            text = before.copy()
            text[CHANGED // 2 :: CHANGED] = "changed"
        found[f"t{number:06d}"] = " ".join(text)
        before = text
    return found


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Prints the measurement; SystemExit where a planted pair was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100_000)
    tasks = parser.parse_args(arguments).tasks
    rows: list[BenchmarkRow] = []
    texts = issues(tasks)
    planted = {(f"t{n - 1:06d}", f"t{n:06d}") for n in range(EVERY, tasks, EVERY)}
    where = {task: str(int(task[1:]) % 3) for task in texts}  # neighbours lie in two parts
    missed = 0
    for name, apart in (("all pairs", None), ("between parts", where)):
        start = time.process_time()
        found = {(near.a, near.b): near.overlap for near in near_duplicates(texts, apart=apart)}
        seconds = time.process_time() - start
        missed += len(planted - found.keys())
        print(
            f"{name}: {tasks:,} issues, {seconds:.1f} s of CPU, {len(planted & found.keys()):,} of {len(planted):,} planted pairs found, "
            f"{len(found.keys() - planted):,} others"
        )
        rows.append(BenchmarkRow(f"{name}, {tasks:,} issues", "s", seconds))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"largest resident memory {memory:,.0f} MB, the texts included")
    if missed:
        sys.exit(f"{missed} planted pairs were not found")
    return [*rows, BenchmarkRow(f"memory, {tasks:,} issues", "MB", memory)]


if __name__ == "__main__":
    run_script(main)
