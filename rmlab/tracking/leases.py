"""Leases: who is at work on a cell, on any host that shares the store.

A lease is two tags on the run that does the work: who it is (machine, process id, start time) and its last beat. Who wants a
cell makes its run first and looks for others' afterwards, as in Dekker's and Peterson's algorithms for mutual exclusion: of
two that start at once at least one sees the other, and only who sees nobody goes on. So no order of events lets two go on;
the store must only show what was written to it.

A holder is dead when its process is gone (seen on its own machine), or when its beat has not changed for a lease's length by
the watcher's own clock (seen from elsewhere; clocks of two hosts are never compared). A holder that cannot beat ends itself in
half that time, so it is gone before anybody takes its place.
"""

import contextlib
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from rmlab.errors import RmlabError, StoreError
from rmlab.tracking.heads import CONFIG_HASH, RunHead, finished_run, runs_of
from rmlab.tracking.origin import is_alive, this_process
from rmlab.tracking.query import close_stale
from rmlab.tracking.run import BEAT, ERROR, FAILED, KILLED, LEASE, REPLACED, RUNNING, STATUS, RunLogger, close
from rmlab.tracking.store import Store

CLAIMING = "claiming"
TIE_SECONDS = 5.0


class Held(RmlabError):
    """Somebody else is at work on the cell; the message says who."""

    def __init__(self, holder: RunHead) -> None:
        super().__init__(
            f"this configuration is at work in run {holder.run_id} by {holder_words(holder)}: "
            "wait until it ends, or stop it"
        )
        self.holder = holder

    def __reduce__(self) -> "tuple[type[Held], tuple[RunHead]]":
        return Held, (self.holder,)


class Done(RmlabError):
    """The cell is finished; `run` did it."""

    def __init__(self, run: RunHead) -> None:
        super().__init__(f"this configuration is finished already, in run {run.run_id}")
        self.run = run

    def __reduce__(self) -> "tuple[type[Done], tuple[RunHead]]":
        return Done, (self.run,)


def lease_seconds() -> float:
    """How long a beat may stay the same before its holder counts as dead elsewhere: 120 s, or RMLAB_LEASE_SECONDS."""
    return float(os.environ.get("RMLAB_LEASE_SECONDS") or 120.0)


@cache
def machine() -> str:
    """This boot of this host, and the space of its process ids: two containers of one name are two machines."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text()[:8])
        parts.append(str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]"))
    return "/".join(parts)


def lease_tags() -> dict[str, str]:
    """Tags of a run that is about to claim its cell."""
    return {LEASE: f"{this_process()} {machine()}", BEAT: CLAIMING}


def alive(run: RunHead) -> bool | None:
    """Whether the holder of a run's lease lives; None where this machine cannot know. A run without a lease: False."""
    process, _, where = run.tags.get(LEASE, "").partition(" ")
    if not where:
        return False
    return is_alive(platform.node(), process) if where == machine() else None


def holder_words(run: RunHead) -> str:
    """Who holds a run's lease, for people: its process and its machine."""
    process, _, where = run.tags.get(LEASE, "").partition(" ")
    return f"process {process.partition('@')[0]} on {where.partition('/')[0]}" if where else "another process"


def claim(store: Store, run_id: str, config_hash: str, replaces: Collection[str] = ()) -> None:
    """Makes the new run `run_id`, which carries `lease_tags`, the only one that works on its cell; or gives way.

    replaces: finished runs that do not count, because this one is to take their place.
    Raises Held where another is at work, Done where the cell is finished; the own run is deleted then.
    """
    deadline = time.monotonic() + TIE_SECONDS
    try:
        while True:
            found = [run for run in runs_of(store, config_hash) if run.run_id != run_id]
            if (whole := finished_run(run for run in found if run.run_id not in replaces)) is not None:
                raise Done(whole)
            others = [run for run in found if run.status == RUNNING and alive(run) is not False]
            if not others:
                break
            # Of those that claim at once the first by id waits for the rest to give way. It never goes on beside one.
            ahead = [run for run in others if run.tags.get(BEAT) != CLAIMING or run.run_id < run_id]
            if ahead or time.monotonic() > deadline:
                raise Held((ahead or others)[0])
            time.sleep(0.05)
        _set_tag(store, run_id, BEAT, "0")
    except BaseException:
        store.call(lambda: store.client.delete_run(run_id))
        raise


class Keeper:
    """Beats for a run until it is stopped, in a thread of its own. Ends the process where the lease cannot be kept."""

    def __init__(self, store: Store, run_id: str) -> None:
        self.store, self.run_id = store, run_id
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more beats; returns when the last is written."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _beat(self) -> None:
        length = lease_seconds()
        last, count = _now(), 0
        while not self._stopped.wait(length / 8):
            began, count = _now(), count + 1
            if began - last > length / 2:
                break  # the process stood still: somebody may have taken its place
            with contextlib.suppress(StoreError):
                _set_tag(self.store, self.run_id, BEAT, str(count), patience=length / 8)
                last = began
            if _now() - last > length / 2:
                break
        else:
            return
        print(
            f"rmlab: run {self.run_id} could not renew its lease for {length / 2:.0f} s (the store was out of reach, or the process "
            "stood still): it ends, because another process may take its place. The same command goes on.",
            file=sys.stderr,
            flush=True,
        )
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
        os._exit(1)


class Watch:
    """Tells live holders from dead ones by looking again and again; keeps when each beat was seen to change."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, float]] = {}

    def is_dead(self, run: RunHead) -> bool:
        """Whether the holder of a run that says `running` is gone. From another machine it takes a lease's length to know."""
        here = alive(run)
        if here is not None:
            return not here
        beat, now = run.tags.get(BEAT, ""), time.monotonic()
        known, since = self._seen.get(run.run_id, ("", now))
        if known != beat:
            since = now
        self._seen[run.run_id] = (beat, since)
        return now - since > lease_seconds()

    def holder(self, runs: Iterable[RunHead]) -> RunHead | None:
        """Who is at work among the runs of one cell, None = nobody that lives."""
        return next(
            (run for run in runs if run.status == RUNNING and LEASE in run.tags and not self.is_dead(run)), None
        )


def close_dead(store: Store, runs: Iterable[RunHead], watch: Watch, error: str | None = None) -> list[RunHead]:
    """Closes the runs that say `running` though their holder is dead, as killed, or as failed where an error is given; returns these.

    Each is read again once its holder is known to be dead: it may have finished in between. A run that said `finished` and
    died before it could close is closed as finished.
    """
    listed = list(runs)
    closed = close_stale(store, [run for run in listed if LEASE not in run.tags], error)
    for dead in [run for run in listed if run.end_time is None and LEASE in run.tags and watch.is_dead(run)]:
        run = next((again for again in runs_of(store, dead.tags[CONFIG_HASH]) if again.run_id == dead.run_id), None)
        if run is None or run.end_time is not None:
            continue
        status = run.status if run.status != RUNNING else KILLED if error is None else FAILED
        RunLogger(store, run.run_id, run.experiment_id).tags(
            {STATUS: status, ERROR: error if status == FAILED else None}
        )
        close(store, run.run_id, "FINISHED" if status == REPLACED else status.upper(), run.tags)
        closed.append(run)
    return closed


def replace(store: Store, run_ids: Iterable[str], by: str) -> None:
    """Marks finished runs as replaced by a newer one; who looks for finished runs does not see them any more."""
    for run_id in run_ids:
        for name, value in (("replaced_by", by), (STATUS, REPLACED)):
            _set_tag(store, run_id, name, value)


def _set_tag(store: Store, run_id: str, name: str, value: str, patience: float = 60.0) -> None:
    store.call(lambda: store.client.set_tag(run_id, name, value), patience=patience)


def _now() -> float:
    """Seconds that go on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
