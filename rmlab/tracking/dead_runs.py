"""Runs that say `running` though their process is gone: told from live ones, and closed.

How a holder of a lease is known to be dead, here and from another machine, is said in `rmlab.tracking.leases`.
"""

import time
from collections.abc import Iterable

from rmlab.tracking.leases import alive, lease_of
from rmlab.tracking.run_index import RunInfo, runs_of
from rmlab.tracking.store import Store
from rmlab.tracking.tags import (
    BEAT,
    CONFIG_HASH,
    ERROR,
    FAILED,
    HOST,
    IN_MLFLOW,
    KILLED,
    LEASE,
    PROCESS,
    RUNNING,
    STATUS,
    close,
    is_alive,
    set_tags,
)


class LeaseMonitor:
    """Tells live holders from dead ones by looking again and again; keeps when each beat was first seen."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, float]] = {}

    def is_dead(self, run: RunInfo) -> bool:
        """Whether the holder of a run that says `running` is gone. From another machine it takes a lease's length to know.

        What counts is the time from when a beat was first known here to when the store was last asked for it: a store that
        answers late, or a watcher that stands still behind its answer, makes nobody dead.
        """
        here = alive(run)
        if here is not None:
            return not here
        beat, known = run.tags.get(BEAT, ""), self._seen.get(run.run_id)
        if known is None or known[0] != beat:
            self._seen[run.run_id] = (beat, time.monotonic())
            return False
        return run.asked - known[1] > lease_of(run)[2]

    def holder(self, runs: Iterable[RunInfo]) -> RunInfo | None:
        """Who is at work among the runs of one cell, None = nobody that lives."""
        return next(
            (run for run in runs if run.status == RUNNING and LEASE in run.tags and not self.is_dead(run)), None
        )


def close_stale(store: Store, found: Iterable[RunInfo], error: str | None = None) -> list[RunInfo]:
    """Closes the runs among `found` that say `running` though their process on this host is dead; returns these.

    They are marked as killed, or as failed where an error is given. A run of another host is left alone: only that host
    knows. A run that said `finished` and died before it could close is closed as finished.
    """
    stale = []
    for run in found:
        if run.end_time is None and is_alive(run.tags.get(HOST, ""), run.tags.get(PROCESS, "")) is False:
            status = run.status if run.status != RUNNING else KILLED if error is None else FAILED
            set_tags(store, run.run_id, {STATUS: status, ERROR: error})
            close(store, run.run_id, IN_MLFLOW[status], run.tags)
            stale.append(run)
    return stale


def close_dead(store: Store, runs: Iterable[RunInfo], monitor: LeaseMonitor, error: str | None = None) -> list[RunInfo]:
    """Closes the runs that say `running` though their holder is dead, as killed, or as failed where an error is given; returns these.

    Each is read again once its holder is known to be dead: it may have finished, or beaten, in between. A run that said `finished` and
    died before it could close is closed as finished.
    """
    listed = list(runs)
    closed = close_stale(store, [run for run in listed if LEASE not in run.tags], error)
    for dead in [run for run in listed if run.end_time is None and LEASE in run.tags and monitor.is_dead(run)]:
        run = next((again for again in runs_of(store, dead.tags[CONFIG_HASH]) if again.run_id == dead.run_id), None)
        if run is None or run.end_time is not None or not monitor.is_dead(run):
            continue
        status = run.status if run.status != RUNNING else KILLED if error is None else FAILED
        set_tags(store, run.run_id, {STATUS: status, ERROR: error if status == FAILED else None})
        close(store, run.run_id, IN_MLFLOW[status], run.tags)
        closed.append(run)
    return closed
