"""Launching: what does a cell cost beyond its training, by each way of launching?

    python experiments/benchmarks/launching.py --cells 12
    python experiments/benchmarks/launching.py --cells 12 --ways local joblib processes

The same tiny verifiers (preset smoke), each way in a runs folder of its own with everything shared made before. Overhead of a
cell = (wall clock - training time as the runs themselves recorded it) / cells, with one worker; the start of the command, scoring,
tracking and the sweep's figures are in it. Beside it: the same without what the runs themselves took from their start to their end.

local      rmlab sweep, a process a cell from a fork server
processes  rmlab train -m seed=S hydra/launcher=basic, a separate process a cell: the same cells by Hydra's basic launcher
joblib     rmlab sweep hydra/launcher=joblib hydra.launcher.n_jobs=1
basic      rmlab sweep hydra/launcher=basic, all cells in one process: nothing keeps one from the next
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rmlab.benchmark import BenchmarkRow, run_script
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store

WAYS = ("local", "processes", "joblib", "basic")
SCALES = "64"


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Prints one line a way, and the same as JSON. theirs: the way `processes`, where it was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=12)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    asked = parser.parse_args(arguments)
    found = {}
    for way in asked.ways:
        with tempfile.TemporaryDirectory(prefix="rmlab-launching-") as folder:
            found[way] = measure(way, asked.cells, Path(folder))
        print(
            f"{way:<10} {found[way]['wall_seconds']:7.1f} s wall clock, {found[way]['training_seconds']:6.1f} s of it training: overhead "
            f"{found[way]['overhead_seconds']:.2f} s a cell, {found[way]['outside_seconds']:.2f} s of it outside the runs",
            flush=True,
        )
    print(json.dumps({"cells": asked.cells, **found}))
    theirs = found.get("processes", {}).get("overhead_seconds")
    return [
        BenchmarkRow(f"overhead of a cell, {way}, of {asked.cells} cells", "s", row["overhead_seconds"], theirs=theirs)
        for way, row in found.items()
    ]


def measure(way: str, cells: int, folder: Path) -> dict[str, float]:
    """Wall clock, training time and overhead of a cell, in seconds. The first cell is made before, with all that cells share."""
    environment = {**os.environ, "RMLAB_RUNS": str(folder)}
    common = ["preset=smoke"]
    chosen = [f"levels=[{SCALES}]", f"baseline={SCALES}", "arms=[epochs]"]
    seeds = list(range(1, cells + 1))
    rmlab = [sys.executable, "-m", "rmlab.cli"]
    _run([*rmlab, "sweep", "data_scale", *common, *chosen, "seeds=[0]"], environment)
    started = time.monotonic()
    if way == "processes":
        for seed in seeds:
            _run(
                [*rmlab, "train", "-m", *common, f"data.scale={SCALES}", f"seed={seed}", "hydra/launcher=basic"],
                environment,
            )
    else:
        launcher = {
            "local": [],
            "joblib": ["hydra/launcher=joblib", "hydra.launcher.n_jobs=1"],
            "basic": ["hydra/launcher=basic"],
        }[way]
        alone = ["--workers", "1"] if way == "local" else []
        _run(
            [*rmlab, "sweep", "data_scale", *common, *chosen, f"seeds={seeds}".replace(" ", ""), *launcher, *alone],
            environment,
        )
    wall = time.monotonic() - started
    os.environ["RMLAB_RUNS"] = str(folder)
    done = [
        run for run in runs(Store.open(), tags={"kind": "verifier", "status": "finished"}) if run.params["seed"] != "0"
    ]
    if len(done) != cells:
        raise RuntimeError(f"{way}: {len(done)} of {cells} cells are finished")
    training = sum(run.metrics["train/seconds"] for run in done)
    inside = sum((run.end_time or run.start_time) - run.start_time for run in done) / 1000
    return {
        "wall_seconds": wall,
        "training_seconds": training,
        "overhead_seconds": (wall - training) / cells,
        "outside_seconds": (wall - inside) / cells,
    }


def _run(command: list[str], environment: dict[str, str]) -> None:
    answer = subprocess.run(command, env=environment, capture_output=True, text=True)
    if answer.returncode:
        raise RuntimeError(f"{' '.join(command)}: {answer.stderr.strip().splitlines()[-1]}")


if __name__ == "__main__":
    run_script(main)
