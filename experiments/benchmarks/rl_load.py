"""Does RL's environment stay whole under a policy that writes hostile code? Steps of 512 attempts, one in eight of them hostile.

    python experiments/benchmarks/rl_load.py [--steps 200] [--attempts 512] [--workers 2] [--hostile 0.125]

A policy without a model edits a line of real tasks at random, runs and submits; hostile edits loop for ever (in Python and in C),
fork, take memory, write, open sockets and files, print without end. Every edit is another text, so that nothing is answered from
memory. After each step the processes below this one, its descriptors and its memory are counted; the limits are those of `rmlab rl`.
Ends with an error where a step is longer than the batch's time, or where anything grew.
"""

import argparse
import random
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil  # type: ignore[import-untyped]

import rmlab  # noqa: F401  (it puts the clone, in which experiments/ lies, on the path)
from experiments.programs import rl
from rmlab.benchmark import BenchmarkRow, processor, run_script
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.loading import load_tasks
from rmlab.microswe.sandbox import Sandbox, default_workers
from rmlab.paths import STARTER
from rmlab.policies.policy import Attempt
from rmlab.policies.rollout import plan, rollout
from rmlab.rl.config import LimitsConfig

HOSTILE = (
    "while True: x_{n} = {n}",
    "x_{n} = sum(range(10 ** 12 + {n}))",
    "x_{n} = [0] * (10 ** 10 + {n})",
    "x_{n} = 'a' * 10 ** 9 * {n}",
    "import os; [os.fork() for i in range(100 + {n})]",
    "import os; os.kill(os.getppid(), 9 + 0 * {n})",
    "print('{n}' * 10 ** 8)",
    "import socket; socket.create_connection(('127.0.0.1', {n} % 60000))",
    "open('/tmp/left-{n}', 'w').write('x' * 10 ** 7)",
    "import threading; [threading.Thread(target=lambda: sum(range(10 ** 12 + {n}))).start() for i in range(50)]",
)


class HostilePolicy:
    """Edits, runs, submits; `share` of its attempts edit in hostile code."""

    name = "hostile"

    def __init__(self, share: float):
        self.share, self.edits = share, 0

    def act(self, attempts: Sequence[Attempt]) -> list[str]:
        """The next message of each attempt."""
        return [self._next(attempt.episode.turns, attempt.episode.code, attempt.rng) for attempt in attempts]

    def _next(self, turn: int, code: str, rng: random.Random) -> str:
        if turn:
            return "run" if turn == 1 else "submit"
        self.edits += 1
        line = rng.randrange(2, code.count("\n") + 2)
        if rng.random() < self.share:
            return f"edit {line}: {rng.choice(HOSTILE).format(n=self.edits)}"
        return f"edit {line}: return {self.edits}"


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Plays the steps; SystemExit where something grew, was left behind or took too long."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--attempts", type=int, default=512)
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--hostile", type=float, default=0.125)
    options = parser.parse_args(arguments)
    print(
        f"{processor()}, {options.workers} workers, {options.attempts} attempts a step, {options.hostile:.3f} hostile",
        flush=True,
    )
    with Sandbox(options.workers) as proving:
        tasks = load_tasks(STARTER / "tasks.parquet", proving).part("rl")
    limits, policy, this = LimitsConfig(), HostilePolicy(options.hostile), psutil.Process()
    seconds, counts, unlabelled = [], [], 0
    with Sandbox(options.workers, rl.limits(limits)) as sandbox:
        for step in range(options.steps):
            chosen = random.Random(step).sample(tasks, min(len(tasks), options.attempts // 8))
            started = time.monotonic()
            made = rollout(plan(chosen, ["hostile"], 8), {"hostile": policy}, sandbox, EnvironmentConfig(), seed=step)
            seconds.append(time.monotonic() - started)
            unlabelled += sum(t.resolved is None for t in made)
            counts.append((len(this.children(recursive=True)), this.num_fds(), this.memory_info().rss / 2**20))
            if step % 10 == 0 or step + 1 == options.steps:
                processes, descriptors, megabytes = counts[-1]
                print(
                    f"step {step + 1}: {seconds[-1]:.1f} s; {processes} processes, {descriptors} descriptors, {megabytes:.0f} MB",
                    flush=True,
                )
    left = list(Path("/tmp").glob("left-*"))
    p50, p99 = np.quantile(seconds, [0.5, 0.99])
    print(
        f"{options.steps} steps: median {p50:.1f} s, 99th percentile {p99:.1f} s, batch time {limits.batch_seconds:.0f} s; "
        f"{unlabelled} attempts without a label; files left: {len(left)}"
    )
    half = len(counts) // 2
    first, last = np.median(counts[:half] or counts, axis=0), np.median(counts[half:], axis=0)
    print(
        f"first and second half (median): processes {first[0]:.0f}, {last[0]:.0f}; descriptors {first[1]:.0f}, {last[1]:.0f}; "
        f"MB {first[2]:.0f}, {last[2]:.0f}"
    )
    if (
        p99 > limits.batch_seconds
        or left
        or last[0] > first[0]
        or last[1] > first[1] + 2
        or last[2] > 1.2 * first[2] + 20
    ):
        raise SystemExit("something grew, was left behind, or took longer than it may")
    what = f"of {options.attempts} attempts, {options.workers} workers"
    return [
        BenchmarkRow(f"step {what}, median", "s", float(p50)),
        BenchmarkRow(f"step {what}, 99th percentile", "s", float(p99)),
        BenchmarkRow(f"memory after the last steps {what}", "MB", float(last[2])),
    ]


if __name__ == "__main__":
    run_script(main)
