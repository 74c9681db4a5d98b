"""Heads of runs: names, times and tags, which say what a cell's state is. No metrics, so it is quick for any number of runs.

A sqlite store is read by SQL (its tables `runs` and `tags`): importing MLflow alone takes a second, and its search loads every
metric of every run. A server is asked through MLflow.
"""

import contextlib
import sqlite3
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from rmlab.errors import StoreError
from rmlab.tracking.run import FAILED, FINISHED, STATUS
from rmlab.tracking.store import SQLITE, Store

SOURCE_RUN, CONFIG_HASH, CONTROL_HASH = "source_run", "config_hash", "control_hash"
BUSY_SECONDS = 30.0


@dataclass(frozen=True)
class RunHead:
    """Which run it is and what it says of itself. tags without MLflow's own (`mlflow.*`). Times in milliseconds."""

    run_id: str
    experiment_id: str
    name: str
    tags: dict[str, str]
    start_time: int
    end_time: int | None

    @property
    def status(self) -> str:
        """running, finished, failed or killed."""
        return self.tags.get(STATUS, "")


@dataclass(frozen=True)
class CellRuns:
    """The runs of every cell, by config_hash, over all experiments. finished, failed: one run a cell; all: every one of them."""

    finished: dict[str, RunHead]
    failed: dict[str, RunHead]
    all: dict[str, list[RunHead]]


def cell_runs(store: Store | None) -> CellRuns:
    """What a store knows of cells; nothing where there is none (None).

    Of several finished runs of a cell the one that did the work stands for it, else the earliest: so a reuse of a reuse
    names the origin. A cell counts as failed when none of its runs is finished and the last one failed.
    """
    by_hash: dict[str, list[RunHead]] = defaultdict(list)
    for head in run_heads(store) if store else []:
        if CONFIG_HASH in head.tags:
            by_hash[head.tags[CONFIG_HASH]].append(head)
    finished, failed = {}, {}
    for key, found in by_hash.items():
        whole = [head for head in found if head.status == FINISHED]
        last = max(found, key=lambda head: head.start_time)
        if whole:
            finished[key] = min(whole, key=lambda head: (SOURCE_RUN in head.tags, head.start_time))
        elif last.status == FAILED:
            failed[key] = last
    return CellRuns(finished, failed, dict(by_hash))


def run_heads(store: Store) -> list[RunHead]:
    """Every run of a store that is not deleted. Raises StoreError where the store cannot be read."""
    if store.uri.startswith(SQLITE):
        return _by_sql(Path(store.uri.removeprefix(SQLITE)))
    from rmlab.tracking.query import runs

    return [RunHead(r.run_id, r.experiment_id, r.name, r.tags, r.start_time, r.end_time) for r in runs(store)]


def _by_sql(database: Path) -> list[RunHead]:
    tags: dict[str, dict[str, str]] = defaultdict(dict)
    try:
        # Not read-only: after a kill the next reader rolls the journal back, which a read-only one may not.
        with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS)) as connection:
            for run_id, key, value in connection.execute("SELECT run_uuid, key, value FROM tags WHERE key NOT LIKE 'mlflow.%'"):
                tags[run_id][key] = value
            rows = connection.execute(
                "SELECT run_uuid, experiment_id, name, start_time, end_time FROM runs WHERE lifecycle_stage = 'active' "
                "ORDER BY start_time DESC, run_uuid").fetchall()
    except sqlite3.Error as error:
        raise StoreError(f"the tracking store {database} cannot be read: {error}. Is it an MLflow database?") from error
    return [RunHead(run_id, str(experiment), name or run_id, tags[run_id], start, end)
            for run_id, experiment, name, start, end in rows]
