"""Leases with real processes on a real store: of many that want a cell one gets it, and a dead one is not waited for.

What a lease may end is a process of its own; the tests' own leases last for a day (conftest). Nothing here depends on how fast
the machine is: processes tell each other by pipes.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rmlab.paths import REPOSITORY
from rmlab.stopping import EXIT_CODE
from rmlab.tracking import dead_runs, leases
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store
from tests.tracking.lease_runs import begun, seen

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
    assert [run.run_id for run in dead_runs.close_dead(store, runs(store), dead_runs.LeaseMonitor())] == [run_id]
    assert sorted(run.status for run in runs(store)) == ["finished", "killed"]


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_clock_that_differs_or_steps_neither_ends_nor_hides_a_holder(store: Store, ahead: int) -> None:
    monitor = dead_runs.LeaseMonitor()
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
    assert said.endswith("The same command continues from the last checkpoint.")


@pytest.mark.slow
def test_a_holder_whose_store_does_not_answer_ends_itself(store: Store) -> None:
    with contending(",0,late") as holder:
        run_id, _ = holder.got()
        assert holder.line() in (["ended", str(-signal.SIGTERM)], ["ended", str(EXIT_CODE)])
        assert f"run {run_id} could not renew its lease" in holder.let_go()[1]
