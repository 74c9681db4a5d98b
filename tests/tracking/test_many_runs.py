"""A large store: finished cells are found in a moment, by one look."""

import sqlite3
import time
from pathlib import Path

import pytest

from rmlab.tracking.run_index import cell_runs, runs_of
from rmlab.tracking.store import Store

RUNS = 10_000


def fill(database: Path, number: int) -> None:
    """Runs as the store has them, of `number` cells: ten tags each, and a long traceback for every tenth, which failed."""
    now = 1_760_000_000_000
    with sqlite3.connect(database) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
        values = {
            "name": "data_scale=2000 s1",
            "source_type": "LOCAL",
            "status": "FINISHED",
            "lifecycle_stage": "active",
            "experiment_id": 0,
            "artifact_uri": "file:///nowhere",
            "user_id": "",
            "source_name": "",
            "entry_point_name": "",
            "source_version": "",
        }
        known = [name for name in values if name in columns]
        connection.executemany(
            f"INSERT INTO runs (run_uuid, start_time, end_time, {', '.join(known)}) VALUES (?, ?, ?, {', '.join('?' * len(known))})",
            ((f"{n:032x}", now + n, now + n + 1, *(values[name] for name in known)) for n in range(number)),
        )
        connection.executemany(
            "INSERT INTO tags (key, value, run_uuid) VALUES (?, ?, ?)",
            (
                (key, value, f"{n:032x}")
                for n in range(number)
                for key, value in {
                    "config_hash": f"{n:016x}",
                    "control_hash": "c" * 16,
                    "sweep": "data_scale",
                    "preset": "demo",
                    "factor": "data_scale",
                    "level": "2000",
                    "kind": "verifier",
                    "commit": "a" * 40,
                    "host": "somewhere",
                    "process": "1@1.00",
                    "mlflow.user": "someone",
                    "status": "failed" if n % 10 == 0 else "finished",
                    **({"traceback": "x" * 7000} if n % 10 == 0 else {}),
                }.items()
            ),
        )


@pytest.mark.slow
def test_a_thousand_cells_are_found_among_ten_thousand_runs(store: Store, tmp_path: Path) -> None:
    fill(tmp_path / "mlflow.db", RUNS)
    started = time.process_time()
    known = cell_runs(store)
    found = [known.finished.get(f"{n:016x}") for n in range(1000)]
    took = time.process_time() - started
    assert sum(run is not None for run in found) == 900
    assert len(known.failed) == RUNS // 10
    started = time.process_time()
    for n in range(10):
        assert [run.run_id for run in runs_of(store, f"{n + 7:016x}")] == [f"{n + 7:032x}"]
    of_ten = time.process_time() - started
    print(f"{took:.2f} s for all, of ten cells {of_ten:.3f} s")
    assert of_ten < took, "one cell is found without reading all runs"
