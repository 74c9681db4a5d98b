"""Leases with real processes on a real store: of many that want a cell one gets it, and a dead one is not waited for.

What a lease may end is a process of its own; the tests' own leases last for a day (conftest). Nothing here depends on how fast
the machine is: processes tell each other by pipes, and where a length of time decides, the clock is given.
"""

import errno
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmlab.errors import RmlabError, StoreError, StoreOutOfReach, UsageError
from rmlab.paths import REPOSITORY
from rmlab.stopping import EXIT_CODE, Stopped
from rmlab.tracking import leases
from rmlab.tracking import tags as origin
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import RunInfo, cell_runs, runs_of
from rmlab.tracking.store import Store

CONTENDERS = """
import os, sys, threading, time
from rmlab.tracking import leases
from rmlab.tracking import tags as origin
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
import rmlab.tracking.preload

# Each argument is a contender: the machine that it is on ("" = this one), how far its clock is ahead, and what befalls it.
leases.TIE_SECONDS = 600.0
real, ahead = time.time, 0.0

def say(*words):  # in one piece: they write to one pipe
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def contend(machine, clock, trouble):
    global ahead
    ahead = float(clock)
    time.time = lambda: real() + ahead
    if machine:
        origin.machine = lambda: machine
    try:
        with RunLogger.start(Store.open(), "shared", "cell", kind="toy", tags={"config_hash": "abc"}, once=True) as run:
            if trouble:  # a slow machine would not get the cell within such a lease
                run._keeper.stop()
                os.environ["RMLAB_LEASE_SECONDS"] = "2"
                run._keeper = leases.Keeper(run.store, run.run_id, leases.now())
            say("got", run.run_id, os.getpid())
            if trouble == "late":
                leases._set_tag = lambda *arguments: threading.Event().wait()
            while word := os.read(0, 1):
                ahead += 3600.0 if word == b"+" else -3600.0
    except leases.Held as error:
        say("held", error.holder.run_id, os.getpid())
    except leases.Done as error:
        say("done", error.run.run_id, os.getpid())

wait, go = os.pipe()
for argument in sys.argv[1:]:
    if os.fork() == 0:
        os.close(go)
        os.read(wait, 1)
        try:
            contend(*argument.split(","))
        finally:
            os._exit(0)
os.close(go)
for _ in sys.argv[1:]:
    say("ended", os.waitstatus_to_exitcode(os.wait()[1]))
"""


class Contenders:
    """Processes that want one cell at once. Who gets it keeps it until `let_go`."""

    def __init__(self, *arguments: str) -> None:
        self.number = len(arguments)
        self.process = subprocess.Popen(
            [sys.executable, "-c", CONTENDERS, *arguments],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> list[str]:
        """What one of them says next."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()

    def got(self) -> tuple[str, int]:
        """The run of the only one, and its process."""
        word, run_id, process = self.line()
        assert word == "got"
        return run_id, int(process)

    def step_clock(self, sign: str) -> None:
        """Its wall clock steps by an hour, + or -."""
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), sign.encode())

    def let_go(self) -> tuple[str, str]:
        """What is left to read of output and errors when all have ended."""
        return self.process.communicate()


@contextmanager
def contending(*arguments: str) -> Iterator[Contenders]:
    contenders = Contenders(*arguments)
    try:
        yield contenders
    finally:
        if contenders.process.poll() is None:
            contenders.let_go()


@pytest.mark.slow
@pytest.mark.parametrize("machines", ["one", "many, whose clocks differ"])
def test_of_many_that_start_at_once_one_gets_the_cell(store: Store, machines: str) -> None:
    who = [",0," if machines == "one" else f"host{n}/boot/1,{3600 * (n - 2)}," for n in range(5)]
    store.experiment("shared")
    with contending(*who) as contenders:
        said = Counter(contenders.line()[0] for _ in who if contenders.number)
        while said["ended"]:  # who gave way has ended, perhaps before another spoke
            said += Counter(contenders.line()[0] for _ in range(said.pop("ended")))
        assert said == {"got": 1, "held": 4}
        contenders.let_go()
    assert [run.status for run in runs(store)] == ["finished"], "who gave way left no run behind"


@pytest.mark.slow
def test_the_cell_of_a_killed_process_goes_to_one_of_many(store: Store) -> None:
    with contending(",0,") as first:
        run_id, process = first.got()
        with pytest.raises(leases.Held, match=run_id):
            begun(store)
        os.kill(process, signal.SIGKILL)
        assert first.line() == ["ended", str(-signal.SIGKILL)]
    with contending(*[",0,"] * 3) as others:
        answers = others.let_go()[0].split()  # who gets it ends at once, so others may find the cell done
    assert answers.count("got") == 1, answers
    assert [run.run_id for run in leases.close_dead(store, runs(store), leases.LeaseMonitor())] == [run_id]
    assert sorted(run.status for run in runs(store)) == ["finished", "killed"]


def begun(store: Store, **more) -> RunLogger:
    return RunLogger.start(store, "shared", "cell", kind="toy", tags={"config_hash": "abc"}, once=True, **more)


def seen(store: Store, after: float = 0.0) -> RunInfo:
    """The cell's only run, as if the store had been asked so many seconds from now."""
    [head] = runs_of(store, "abc")
    return type(head)(**{**head.__dict__, "asked": time.monotonic() + after})


def test_a_finished_cell_is_not_done_again_unless_it_is_to_be_replaced(store: Store) -> None:
    with begun(store) as first:
        pass
    with pytest.raises(leases.Done) as caught:
        begun(store)
    assert caught.value.run.run_id == first.run_id
    with begun(store, replaces=[first.run_id]) as second:
        assert cell_runs(store).finished["abc"].run_id == first.run_id, (
            "until the new one is finished the old one stands"
        )
    assert cell_runs(store).finished["abc"].run_id == second.run_id
    leases.replace(store, [first.run_id], second.run_id)
    assert {run.run_id: run.status for run in runs(store)} == {first.run_id: "replaced", second.run_id: "finished"}


def test_who_is_at_work_is_said_only_while_somebody_is(store: Store) -> None:
    with begun(store) as first:
        [head] = runs_of(store, "abc")
        assert {"lease", "beat"} <= head.tags.keys()
    with pytest.raises(RuntimeError), begun(store, replaces=[first.run_id]):
        raise RuntimeError
    left = begun(store, replaces=[first.run_id])
    assert left._keeper is not None
    left._keeper.stop()
    leases._set_tag(store, left.run_id, "lease", f"999999@1.00 {origin.machine()}")
    leases.close_dead(store, runs_of(store, "abc"), leases.LeaseMonitor())
    with RunLogger.start(store, "shared", "no cell", kind="toy"):
        assert "process" in runs(store)[0].tags
    ended = runs(store)
    assert Counter(run.status for run in ended) == {"finished": 2, "failed": 1, "killed": 1}
    assert not [run.tags for run in ended if {"lease", "beat", "process"} & run.tags.keys()]
    assert all("host" in run.tags for run in ended)


def test_a_holder_on_another_machine_is_dead_when_its_beat_stands_still(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(store)
    length = leases.lease_seconds()
    monkeypatch.setattr(origin, "machine", lambda: "another/boot/1")
    monitor = leases.LeaseMonitor()
    assert leases.alive(seen(store)) is None
    assert not monitor.is_dead(seen(store, after=10 * length)), "seen for the first time"
    for beat in range(1, 4):
        leases._set_tag(store, run.run_id, "beat", str(beat))
        assert not monitor.is_dead(seen(store, after=10 * length)), "it beats, so it lives however long one looks"
        assert not monitor.is_dead(seen(store, after=0.9 * length))
    with pytest.raises(leases.Held):
        begun(store)
    assert run._keeper is not None
    run._keeper.stop()
    assert leases.close_dead(store, [seen(store, after=0.9 * length)], monitor) == []
    monkeypatch.setattr(leases, "runs_of", lambda *_: [seen(store, after=1.1 * length)])
    [closed] = leases.close_dead(store, [seen(store, after=1.1 * length)], monitor)
    monkeypatch.undo()
    monkeypatch.setenv("RMLAB_RUNS", str(store.artifacts.parent) if store.artifacts else "")
    assert closed.run_id == run.run_id
    assert runs_of(store, "abc")[0].status == "killed"
    with begun(store):
        pass


def test_a_watcher_that_stands_still_makes_nobody_dead(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it read is as old as its question to the store; before it closes a run it asks again."""
    run = begun(store)
    length = leases.lease_seconds()
    monkeypatch.setattr(origin, "machine", lambda: "another/boot/1")
    monitor = leases.LeaseMonitor()
    known = seen(store)
    assert not monitor.is_dead(known)
    with monkeypatch.context() as later:
        much_later = time.monotonic() + 10 * length
        later.setattr(leases.time, "monotonic", lambda: much_later)
        assert not monitor.is_dead(known), "read before it stood still"
    old = seen(store, after=2 * length)
    leases._set_tag(store, run.run_id, "beat", "17")
    assert monitor.is_dead(old)
    assert leases.close_dead(store, [old], monitor) == [], "it beat in between"
    assert runs_of(store, "abc")[0].status == "running"
    run.finish()


@pytest.mark.parametrize("text", ["abc", "0", "-1", "nan", "inf"])
def test_a_lease_of_no_length_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RMLAB_LEASE_SECONDS", text)
    with pytest.raises(UsageError, match=f"RMLAB_LEASE_SECONDS={text}: it is a number of seconds above 0"):
        leases.lease_seconds()


def test_how_long_a_beat_may_stand_is_the_holders_to_say(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begun(store)
    monkeypatch.setattr(origin, "machine", lambda: "another/boot/1")
    monkeypatch.setenv("RMLAB_LEASE_SECONDS", "1")
    monitor = leases.LeaseMonitor()
    assert not monitor.is_dead(seen(store))
    assert not monitor.is_dead(seen(store, after=100.0)), "its holder said a day"
    assert monitor.is_dead(seen(store, after=100_000.0))
    run.finish()


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_clock_that_differs_or_steps_neither_ends_nor_hides_a_holder(store: Store, ahead: int) -> None:
    monitor = leases.LeaseMonitor()
    with contending(f"host/boot/1,{ahead},") as holder:
        run_id, process = holder.got()
        for sign in ("", "+", "-", "-"):
            if sign:
                holder.step_clock(sign)
            assert not monitor.is_dead(seen(store, after=0.9 * leases.lease_seconds()))
            with pytest.raises(leases.Held, match=run_id):
                begun(store)
        os.kill(process, signal.SIGKILL)
        holder.let_go()
    assert monitor.is_dead(seen(store, after=1.1 * leases.lease_seconds()))


@pytest.mark.slow
def test_a_holder_that_stood_still_ends_itself_and_says_why(store: Store) -> None:
    with contending(",0,still") as holder:
        run_id, process = holder.got()
        os.kill(process, signal.SIGSTOP)
        time.sleep(2.5)  # longer than the lease: a slow machine makes it longer still
        os.kill(process, signal.SIGCONT)
        assert holder.line() in (["ended", str(-signal.SIGTERM)], ["ended", str(EXIT_CODE)])
        [said] = holder.let_go()[1].strip().splitlines()
    assert said.startswith(f"rmlab: run {run_id} could not renew its lease for ")
    assert said.endswith("The same command goes on from the last checkpoint.")


@pytest.mark.slow
def test_a_holder_whose_store_does_not_answer_ends_itself(store: Store) -> None:
    with contending(",0,late") as holder:
        run_id, _ = holder.got()
        assert holder.line() in (["ended", str(-signal.SIGTERM)], ["ended", str(EXIT_CODE)])
        assert f"run {run_id} could not renew its lease" in holder.let_go()[1]


@pytest.fixture
def unending(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost lease ends no process here: that process would be the tests' own."""
    monkeypatch.setattr(leases.Keeper, "_end", lambda keeper, reason: None)


@pytest.mark.usefixtures("unending")
@pytest.mark.parametrize(("taken", "words"), [("closed", "closed as killed"), ("deleted", "deleted")])
def test_a_holder_finds_that_its_run_was_taken(
    store: Store, monkeypatch: pytest.MonkeyPatch, taken: str, words: str
) -> None:
    run = begun(store)
    assert run._keeper is not None
    run._keeper.stop()
    monkeypatch.setenv("RMLAB_LEASE_SECONDS", "4")  # not before: a slow machine takes longer to begin a run
    run._keeper = leases.Keeper(store, run.run_id, leases.now())
    if taken == "closed":
        leases._set_tag(store, run.run_id, "status", "killed")
    else:
        store.client.delete_run(run.run_id)
    while not run._keeper._taken:
        time.sleep(0.05)
    with pytest.raises(Stopped, match=f"was {words} by another process, which may do its work now"):
        run._keeper.confirm()
    run._keeper.stop()


@pytest.mark.usefixtures("unending")
def test_a_run_that_lost_its_lease_does_not_finish(store: Store) -> None:
    with pytest.raises(Stopped, match=r"could not renew its lease .* The same command goes on"), begun(store) as run:
        assert run._keeper is not None
        run._keeper._beaten -= 0.8 * leases.lease_seconds()
    assert [head.status for head in runs_of(store, "abc")] == ["stopped"], "not finished, and not failed"
    with begun(store):
        pass


@pytest.mark.parametrize(("taken", "status"), [("closed", "stopped"), ("deleted", None)])
def test_a_run_that_was_taken_between_two_beats_does_not_finish(store: Store, taken: str, status: str | None) -> None:
    """As while its virtual machine was paused: no clock there has gone on, and the next beat is far."""
    with (
        pytest.raises(Stopped, match=f"was {'closed as killed' if taken == 'closed' else taken} by"),
        begun(store) as run,
    ):
        if taken == "closed":
            leases._set_tag(store, run.run_id, "status", "killed")
        else:
            store.client.delete_run(run.run_id)
    assert [head.status for head in runs_of(store, "abc")] == ([status] if status else [])


@pytest.mark.usefixtures("unending")
def test_work_is_asked_to_stop_before_its_lease_is_lost_and_a_beat_takes_that_back(store: Store) -> None:
    from rmlab.stopping import stop_asked

    def until(asked: bool) -> None:
        while bool(stop_asked()) != asked:
            time.sleep(0.01)

    with begun(store) as run:
        assert run._keeper is not None
        beaten = run._keeper._beaten
        run._keeper._beaten = beaten - 0.6 * leases.lease_seconds()
        until(True)
        run._keeper._beaten = beaten
        until(False)


def test_a_claim_that_took_too_long_gives_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = iter(range(0, 24 * 100, 24))
    monkeypatch.setattr(leases, "now", lambda: next(hours) * 3600.0)
    with pytest.raises(Stopped, match=r"it took \d+ s to begin run"):
        begun(store)
    assert runs_of(store, "abc") == []


def test_a_run_that_a_late_store_made_twice_is_no_rival(store: Store) -> None:
    tags = {**leases.lease_tags(), "status": "running", "config_hash": "abc"}
    twin = store.client.create_run(store.experiment("shared"), tags=tags)
    with begun(store) as run:
        assert [head.run_id for head in runs_of(store, "abc")] == [run.run_id]
    assert store.client.get_run(twin.info.run_id).info.lifecycle_stage == "deleted"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError("Not enough free space to write 26470700 bytes after offset 128"),  # NumPy: without a number
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),  # safetensors
        StoreError("the tracking store does not work: (sqlite3.OperationalError) database or disk is full"),
    ],
)
def test_a_full_disk_is_no_failure_of_the_cell(store: Store, error: Exception) -> None:
    with pytest.raises(RmlabError), begun(store):
        raise RmlabError("checkpoint.safetensors cannot be written") from error
    assert [run.status for run in runs_of(store, "abc")] == ["stopped"]


def test_a_store_out_of_reach_leaves_no_failure_behind(store: Store) -> None:
    with pytest.raises(StoreOutOfReach), begun(store):
        raise StoreOutOfReach("the tracking store does not work: database is locked")
    assert [run.status for run in runs_of(store, "abc")] == ["stopped"]
    assert "abc" not in cell_runs(store).failed


def test_what_finished_while_it_was_looked_at_is_not_closed_as_killed(store: Store) -> None:
    run = begun(store)
    found = runs_of(store, "abc")
    run.finish()
    dead = [
        type(head)(**{**head.__dict__, "tags": {**head.tags, "lease": f"999999@1.00 {origin.machine()}"}})
        for head in found
    ]
    assert leases.close_dead(store, dead, leases.LeaseMonitor()) == []
    assert runs_of(store, "abc")[0].status == "finished"


def test_a_reuse_holds_no_lease(store: Store, tmp_path: Path) -> None:
    from rmlab.tracking.reuse import log_reuse

    with begun(store) as first:
        pass
    reuse = log_reuse(store, cell_runs(store).finished["abc"], "other", "its own name", {})
    assert reuse.tags["source_run"] == first.run_id
    assert not {"lease", "beat"} & set(reuse.tags)
