"""Leases: which process works on a cell, on any host that shares the store.

A lease is two tags on the run that does the work: who it is (process, machine, length of the lease) and its last beat. Who wants
a cell makes its run first and looks for others' afterwards, as in Dekker's and Peterson's algorithms for mutual exclusion: of
two that start at once at least one sees the other, and only who sees nobody goes on. So no order of events lets two go on;
the store must only show what was written to it.

A holder is dead when its process is gone (seen on its own machine), or when its beat has not changed for a lease's length
between two readings of the store, by the watcher's own clock (seen from elsewhere). Clocks of two hosts are never compared, and
no clock that can be set is used. A beat counts only when it is in the store within three quarters of a length after the one
before it was begun; a holder that misses that ends itself. So no watcher has seen it silent for a length before it is gone.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterable
from functools import partial

from rmlab.errors import RmlabError, StoreError, UsageError
from rmlab.stopping import EXIT_CODE, Stopped, ask_to_stop
from rmlab.tracking.run_index import RunInfo, finished_run, runs_of
from rmlab.tracking.store import Store
from rmlab.tracking.tags import BEAT, FINISHED, LEASE, REPLACED, RUNNING, STATUS, is_alive, this_process

CLAIMING = "claiming"
TIE_SECONDS = 5.0
LAST = 0.75
"""The share of a lease's length after which a holder without a new beat is gone. The rest is for what ends slowly."""
SAME_COMMAND = "The same command continues from the last checkpoint."


class Held(RmlabError):
    """Somebody else is at work on the cell; the message says who."""

    def __init__(self, holder: RunInfo) -> None:
        super().__init__(
            f"run {holder.run_id} by {holder_words(holder)} is working on this configuration: "
            "wait until it ends, or stop it"
        )
        self.holder = holder

    def __reduce__(self) -> "tuple[type[Held], tuple[RunInfo]]":
        return Held, (self.holder,)


class Done(RmlabError):
    """The cell is finished; `run` did it."""

    def __init__(self, run: RunInfo) -> None:
        super().__init__(f"this configuration is already finished, in run {run.run_id}")
        self.run = run

    def __reduce__(self) -> "tuple[type[Done], tuple[RunInfo]]":
        return Done, (self.run,)


def lease_seconds() -> float:
    """How long a beat may stay the same before its holder counts as dead elsewhere: 120 s, or RMLAB_LEASE_SECONDS.

    Raises UsageError where that is no number above 0.
    """
    text = os.environ.get("RMLAB_LEASE_SECONDS") or "120"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"RMLAB_LEASE_SECONDS={text}: must be a number of seconds above 0, or not set")
    return seconds


def lease_tags() -> dict[str, str]:
    """Tags of a run that is about to claim its cell."""
    return {LEASE: f"{this_process()} {lease_seconds():g}", BEAT: CLAIMING}


def alive(run: RunInfo) -> bool | None:
    """Whether the holder of a run's lease lives; None where this machine cannot know. A run without a lease: False."""
    process, where, _ = lease_of(run)
    return is_alive("", f"{process} {where}") if where else False


def holder_words(run: RunInfo) -> str:
    """Who holds a run's lease, for people: its process and its machine."""
    process, where, _ = lease_of(run)
    return f"process {process.partition('@')[0]} on {where.partition('/')[0]}" if where else "another process"


def lease_of(run: RunInfo) -> tuple[str, str, float]:
    """Of a run's lease: process, machine, and its length in seconds, which is the holder's and not this process'."""
    process, where, length = [*run.tags.get(LEASE, "").split(), "", "", ""][:3]
    return process, where, float(length or lease_seconds())


def _is_ours(run: RunInfo) -> bool:
    return run.tags.get(LEASE, "").startswith(f"{this_process()} ")


def claim(store: Store, run_id: str, config_hash: str, made: float, replaces: Collection[str] = ()) -> float:
    """Makes the new run `run_id`, which carries `lease_tags`, the only one that works on its cell; or gives way.

    made: `now()` before the run was made. replaces: finished runs that do not count, because this one is to take their place.
    Returns when its first beat was begun.
    Raises Held where another is at work, Done where the cell is finished, Stopped where all this took so long that another may
    have taken the run for dead; the own run is deleted then.
    """
    deadline = time.monotonic() + TIE_SECONDS
    try:
        while True:
            found = [run for run in runs_of(store, config_hash) if run.run_id != run_id]
            for twin in [run for run in found if run.tags.get(BEAT) == CLAIMING and _is_ours(run)]:
                store.call(partial(store.client.delete_run, twin.run_id))  # made twice: the store had answered too late
                found.remove(twin)
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
        began = now()
        _set_tag(store, run_id, BEAT, "0")
        if now() - made > LAST * lease_seconds():
            raise Stopped(
                f"it took {now() - made:.0f} s to start run {run_id} (the store was slow, or the process was suspended), and "
                f"another process may be at work on it by now. {SAME_COMMAND}"
            )
        return began
    except BaseException:
        store.call(lambda: store.client.delete_run(run_id))
        raise


class Keeper:
    """Beats for a run until it is stopped, and sees to it that the work ends where the lease cannot be kept.

    One thread beats, another watches the clock, because a store may keep a beat waiting for minutes. After half a lease's length
    without a beat the work is asked to end at its next safe point (`rmlab.stopping`), which a beat takes back; after three quarters,
    or where the run was taken, the process ends.
    """

    def __init__(self, store: Store, run_id: str, beaten: float) -> None:
        """beaten: when the last beat that is in the store was begun."""
        self.store, self.run_id = store, run_id
        self._length, self._beaten, self._taken = lease_seconds(), beaten, ""
        self._stopped = threading.Event()
        ask_to_stop(None)
        self._threads = [
            threading.Thread(target=work, name=f"lease {work.__name__}", daemon=True)
            for work in (self._beat, self._guard)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """No more beats; returns when the last is written."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        if not self._lost():
            ask_to_stop(None)

    def confirm(self) -> None:
        """Raises Stopped where another process may be at work on the cell by now. The store is asked, too: no clock of a virtual machine
        says that it was paused."""
        if reason := self._lost() or self._taken_by_another():
            raise Stopped(reason)

    def _lost(self) -> str:
        """Why the lease is lost, "" while it is kept."""
        return self._taken or (self._silence() if now() - self._beaten > LAST * self._length else "")

    def _silence(self) -> str:
        return (
            f"run {self.run_id} could not renew its lease for {now() - self._beaten:.0f} s (the store was unreachable, or the "
            f"process stood still), and another process may take its place. {SAME_COMMAND}"
        )

    def _taken_by_another(self, patience: float = 60.0) -> str:
        """What the store says of who took the run, "" where nobody did."""
        run = self.store.call(lambda: self.store.client.get_run(self.run_id), patience)
        status, is_there = run.data.tags.get(STATUS), run.info.lifecycle_stage == "active"
        if is_there and status in (RUNNING, FINISHED, REPLACED):
            return ""
        return (
            f"run {self.run_id} was {f'closed as {status}' if is_there else 'deleted'} by another process, which "
            f"may do its work now. {SAME_COMMAND}"
        )

    def _beat(self) -> None:
        count, patience = 0, self._length / 8
        while not self._stopped.wait(self._length / 8):
            began, count = now(), count + 1
            with contextlib.suppress(StoreError):  # the guard says what comes of it
                if reason := self._taken_by_another(patience):
                    self._taken = reason
                    return
                _set_tag(self.store, self.run_id, BEAT, str(count), patience)
                if not self._lost():  # a beat that comes too late is none
                    self._beaten = began

    def _guard(self) -> None:
        while not self._stopped.wait(min(self._length / 32, 1.0)):
            if reason := self._lost():
                self._end(reason)
                return
            ask_to_stop(self._silence() if now() - self._beaten > self._length / 2 else None)

    def _end(self, reason: str) -> None:
        """Ends the process: first so that it can say so in its run and clean up, then at once."""
        ask_to_stop(reason)
        print(f"rmlab: {reason}", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        if not self._stopped.wait(min(self._length / 8, 10.0)):
            os._exit(EXIT_CODE)


def replace(store: Store, run_ids: Iterable[str], by: str) -> None:
    """Marks finished runs as replaced by a newer one; who looks for finished runs does not see them any more."""
    for run_id in run_ids:
        for name, value in (("replaced_by", by), (STATUS, REPLACED)):
            _set_tag(store, run_id, name, value)


def _set_tag(store: Store, run_id: str, name: str, value: str, patience: float = 60.0) -> None:
    store.call(lambda: store.client.set_tag(run_id, name, value), patience=patience)


def now() -> float:
    """Seconds that no clock setting moves and that go on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
