"""Leases with real processes on a real store: of many that want a cell one gets it, and a dead one is not waited for."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY
from rmlab.tracking import leases
from rmlab.tracking.heads import cell_runs, runs_of
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store

CONTENDER = """
import sys, time
from rmlab.tracking.leases import Done, Held
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
start, seconds = float(sys.argv[1]), float(sys.argv[2])
store = Store.open()
store.experiment("shared")
time.sleep(max(0.0, start - time.time()))
try:
    with RunLogger.start(store, "shared", "cell", kind="toy", tags={"config_hash": "abc"}, once=True) as run:
        print("got", run.run_id, flush=True)
        time.sleep(seconds)
except Held as error:
    print("held", error.holder.run_id)
except Done as error:
    print("done", error.run.run_id)
"""


def contend(number: int, seconds: float, wait: float) -> list[subprocess.Popen]:
    start = str(time.time() + wait)
    return [
        subprocess.Popen(
            [sys.executable, "-c", CONTENDER, start, str(seconds)],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        for _ in range(number)
    ]


@pytest.mark.slow
def test_of_many_that_start_at_once_one_gets_the_cell(store: Store) -> None:
    others = contend(6, 1.0, wait=6.0)
    answers = [process.communicate(timeout=120)[0].split()[0] for process in others]
    assert answers.count("got") == 1, answers
    assert set(answers) <= {"got", "held", "done"}
    assert [run.status for run in runs(store)] == ["finished"], "who gave way left no run behind"


@pytest.mark.slow
def test_the_cell_of_a_killed_process_goes_to_one_of_many(store: Store) -> None:
    [first] = contend(1, 60.0, wait=0.0)
    assert first.stdout is not None
    word, run_id = first.stdout.readline().split()
    assert word == "got"
    with pytest.raises(leases.Held, match=run_id):
        RunLogger.start(store, "shared", "cell", kind="toy", tags={"config_hash": "abc"}, once=True)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    answers = [process.communicate(timeout=120)[0].split()[0] for process in contend(4, 0.5, wait=6.0)]
    assert answers.count("got") == 1, answers
    assert [run.run_id for run in leases.close_dead(store, runs(store), leases.Watch())] == [run_id]
    assert sorted(run.status for run in runs(store)) == ["finished", "killed"]


def begun(store: Store, **more) -> RunLogger:
    return RunLogger.start(store, "shared", "cell", kind="toy", tags={"config_hash": "abc"}, once=True, **more)


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
    leases._set_tag(store, left.run_id, "lease", f"999999@1.00 {leases.machine()}")
    leases.close_dead(store, runs_of(store, "abc"), leases.Watch())
    with RunLogger.start(store, "shared", "no cell", kind="toy"):
        assert "process" in runs(store)[0].tags
    ended = runs(store)
    assert Counter(run.status for run in ended) == {"finished": 2, "failed": 1, "killed": 1}
    assert not [run.tags for run in ended if {"lease", "beat", "process"} & run.tags.keys()]
    assert all("host" in run.tags for run in ended)


def test_a_holder_on_another_machine_is_dead_when_its_beat_stands_still(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMLAB_LEASE_SECONDS", "0.8")
    run = begun(store)
    [head] = runs_of(store, "abc")
    monkeypatch.setattr(leases, "machine", lambda: "another/boot/1")
    watch = leases.Watch()
    assert leases.alive(head) is None
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:  # it beats every 0.1 s, so it lives however long one looks
        assert not watch.is_dead(runs_of(store, "abc")[0])
        time.sleep(0.1)
    with pytest.raises(leases.Held):
        begun(store)
    assert run._keeper is not None
    run._keeper.stop()
    assert leases.close_dead(store, runs_of(store, "abc"), watch) == []
    time.sleep(1.0)
    [closed] = leases.close_dead(store, runs_of(store, "abc"), watch)
    assert closed.run_id == run.run_id
    assert runs_of(store, "abc")[0].status == "killed"
    with begun(store):
        pass


@pytest.mark.slow
def test_a_holder_that_stood_still_ends_itself_before_it_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMLAB_LEASE_SECONDS", "2")
    [process] = contend(1, 60.0, wait=0.0)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    process.send_signal(signal.SIGCONT)
    assert process.wait(20) == -signal.SIGTERM


def test_what_finished_while_it_was_looked_at_is_not_closed_as_killed(store: Store) -> None:
    run = begun(store)
    seen = runs_of(store, "abc")
    run.finish()
    dead = [
        type(head)(**{**head.__dict__, "tags": {**head.tags, "lease": f"999999@1.00 {leases.machine()}"}})
        for head in seen
    ]
    assert leases.close_dead(store, dead, leases.Watch()) == []
    assert runs_of(store, "abc")[0].status == "finished"


def test_a_reuse_holds_no_lease(store: Store, tmp_path: Path) -> None:
    from rmlab.tracking.query import log_reuse

    with begun(store) as first:
        pass
    reuse = log_reuse(store, cell_runs(store).finished["abc"], "other", "its own name", {})
    assert reuse.tags["source_run"] == first.run_id
    assert not {"lease", "beat"} & set(reuse.tags)
