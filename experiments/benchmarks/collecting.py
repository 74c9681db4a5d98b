"""How many scripted attempts a second are collected, and what does another worker add?

    python experiments/benchmarks/collecting.py [--workers 1 2] [--tasks 60] [--batch 1024]

Two attempts by each shipped script at tasks of the starter set's verifier part, 60 tasks for each worker, so that every number of
workers has as much to do; each in a process of its own that remembers nothing. The floor is the rate of workers that are always
busy: workers by the CPU time that the programs of an attempt cost (which differs from sample to sample, since a few programs that
never end cost more than all others). Beside it the CPU time of the processes that decide what scripts do: with one of them it
would bound the speed-up, so there is one for every eight workers.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it ships no types
from omegaconf import OmegaConf

from rmlab.benchmark import BenchmarkRow, run_script
from rmlab.configuration import compose
from rmlab.microswe.loading import load_tasks
from rmlab.microswe.sandbox import Sandbox, default_workers
from rmlab.paths import STARTER
from rmlab.policies.collection import planned_attempts
from rmlab.policies.rollout_processes import RolloutPlan, RolloutProcesses
from rmlab.policies.scripted import make_policy
from rmlab.trajectories.parts import TrajectoryParts


@dataclass(frozen=True)
class CollectingSpeed:
    """programs, deciding: milliseconds of CPU an attempt, in the sandboxes and in the processes that decide."""

    attempts: int
    seconds: float
    programs: float
    deciding: float
    processes: int


def speed(workers: int, tasks: int, batch: int) -> CollectingSpeed:
    """Plays the attempts once and keeps them."""
    asked = [f"parts.{part}.tasks=0" for part in ("supervised", "validation", "evaluation")]
    settings: Any = OmegaConf.to_object(compose("collect", [*asked, f"parts.verifier.tasks={tasks}"]))
    scripts = {name: make_policy(name, script) for name, script in settings.policy.items()}
    with Sandbox(workers) as sandbox, tempfile.TemporaryDirectory() as folder:
        loaded = load_tasks(STARTER / "tasks.parquet", sandbox)
        planned = planned_attempts(loaded, settings.parts, settings.names, settings.seed)
        plan = RolloutPlan(planned, {}, scripts, settings.environment, 0, batch, Path(folder))
        with RolloutProcesses(plan, sandbox) as processes:
            deciders = [psutil.Process(pid) for pid in processes.pids]
            before, own_before, began = _all_seconds(), _own_seconds(deciders), time.perf_counter()
            for _ in processes.play():
                if processes.count > 1:  # they end before the last word is read
                    spent, deciding = _all_seconds(), _own_seconds(deciders)
            seconds = time.perf_counter() - began
            if processes.count == 1:
                spent, deciding = _all_seconds(), _own_seconds(deciders)
        written = TrajectoryParts(Path(folder)).write(Path(folder) / "set" / "set.parquet", {})
    each = 1000 / len(written)
    return CollectingSpeed(
        len(written), seconds, each * (spent - before), each * (deciding - own_before), processes.count
    )


def _own_seconds(processes: Sequence[psutil.Process]) -> float:
    """CPU time of these processes alone."""
    return float(sum(sum(process.cpu_times()[:2]) for process in processes))


def _all_seconds() -> float:
    """CPU time of this process, all below it, and all that have ended."""
    members = [psutil.Process(), *psutil.Process().children(recursive=True)]
    total = 0.0
    for process in members:
        with suppress(psutil.NoSuchProcess):  # it ended since it was listed
            total += sum(process.cpu_times()[:4])
    return total


def _measure(channel: Connection, *arguments: int) -> None:
    channel.send(speed(*arguments))


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Measures each number of workers. Raises SystemExit where one cannot be measured."""
    parser = argparse.ArgumentParser(description="scripted attempts a second, by workers")
    usual = sorted({1, max(default_workers() // 2, 1), default_workers()})
    parser.add_argument("--workers", type=int, nargs="+", default=usual)
    parser.add_argument(
        "--tasks", type=int, default=60, help="twelve attempts each; a hundred cost about 20 s of one core"
    )
    parser.add_argument("--batch", type=int, default=1024, help="attempts under way at once")
    options = parser.parse_args(arguments)
    rows: list[BenchmarkRow] = []
    for workers in options.workers:
        ours, theirs = get_context("fork").Pipe()
        measuring = get_context("fork").Process(
            target=_measure, args=(theirs, workers, options.tasks * workers, options.batch)
        )
        measuring.start()
        theirs.close()
        try:
            found = ours.recv()
        except EOFError:
            raise SystemExit(f"{workers} workers could not be measured (see above)") from None
        measuring.join()
        what = f"{found.attempts} attempts, {workers} {'worker' if workers == 1 else 'workers'}"
        rate, busy = found.attempts / found.seconds, 1000 * workers / found.programs
        rows += [
            BenchmarkRow(what, "attempts/s", rate, busy),
            BenchmarkRow(f"{what}: CPU of an attempt's programs", "ms", found.programs),
            BenchmarkRow(f"{what}: CPU of deciding in {found.processes}, an attempt", "ms", found.deciding),
        ]
        print(
            f"{what}: {rate:,.1f} attempts/s, {rate / busy:.2f} of always busy, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    return rows


if __name__ == "__main__":
    run_script(main)
