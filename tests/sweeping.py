"""Sweeps in processes of their own, as a user starts them, and what a machine may do to them."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from rmlab.paths import REPOSITORY


def launch(*arguments: str | Path, **more) -> subprocess.Popen:
    """`rmlab sweep ...`, started, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "rmlab.cli", "sweep", *map(str, arguments)],
        cwd=REPOSITORY,
        env=dict(os.environ),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **more,
    )


def sweep(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, output and errors of `rmlab sweep ...`."""
    process = launch(*arguments)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def kill_again_and_again(*arguments: str | Path, times: int, longest: float, seed: int) -> int:
    """Starts a sweep `times` times and kills its whole group (9) after a random while; how often it was still at work then."""
    rng, kills = random.Random(seed), 0
    for _ in range(times):
        process = launch(*arguments)
        time.sleep(rng.uniform(1.0, longest))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
    return kills
