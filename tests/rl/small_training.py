"""A whole training of a tiny policy on the easy family."""

from pathlib import Path

import pytest

from rmlab.configuration import load_program
from rmlab.tracking.query import TrackedRun, get_run
from rmlab.tracking.store import Store

SMALL = [
    "runtime=cpu",
    "runtime.progress=false",
    "workers=2",
    "training.threads=1",
    "engine.capacity=224",
    "rl.groups=6",
    "rl.attempts=8",
    "rl.max_action_tokens=20",
    "rl.batch_tokens=8192",
    "watch.tasks=12",
    "watch.held_out_attempts=2",
    "watch.episodes=2",
    "optimizer.learning_rate=3.0e-3",
    "keep_model=false",
]


def trained(easy: Path, where: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> TrackedRun:
    monkeypatch.setenv("RMLAB_RUNS", str(where))
    run_id = load_program("rl").main([f"start={easy / 'policy'}", f"tasks={easy / 'tasks.parquet'}", *SMALL, *more])
    return get_run(Store.open(), run_id)
