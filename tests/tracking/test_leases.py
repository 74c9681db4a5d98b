"""Who holds a cell, who is taken for dead, and what a holder does that lost its lease.

Nothing here depends on how fast the machine is: where a length of time decides, the clock is given.
"""

import errno
import time
from collections import Counter
from pathlib import Path

import pytest

from rmlab.errors import RmlabError, StoreError, StoreOutOfReach, UsageError
from rmlab.stopping import Stopped
from rmlab.tracking import dead_runs, leases
from rmlab.tracking import tags as origin
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import cell_runs, runs_of
from rmlab.tracking.store import Store
from tests.tracking.lease_runs import begun, seen


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
    dead_runs.close_dead(store, runs_of(store, "abc"), dead_runs.LeaseMonitor())
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
    monitor = dead_runs.LeaseMonitor()
    assert leases.alive(seen(store)) is None
    assert not monitor.is_dead(seen(store, after=10 * length)), "seen for the first time"
    for beat in range(1, 4):
        leases._set_tag(store, run.run_id, "beat", str(beat))
        assert not monitor.is_dead(seen(store, after=10 * length)), "it beats, so it lives however long one looks"
        assert not monitor.is_dead(seen(store, after=0.9 * length))
    with pytest.raises(leases.Held, match=run.run_id):
        begun(store)
    assert run._keeper is not None
    run._keeper.stop()
    assert dead_runs.close_dead(store, [seen(store, after=0.9 * length)], monitor) == []
    monkeypatch.setattr(dead_runs, "runs_of", lambda *_: [seen(store, after=1.1 * length)])
    [closed] = dead_runs.close_dead(store, [seen(store, after=1.1 * length)], monitor)
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
    monitor = dead_runs.LeaseMonitor()
    known = seen(store)
    assert not monitor.is_dead(known)
    with monkeypatch.context() as later:
        much_later = time.monotonic() + 10 * length
        later.setattr(dead_runs.time, "monotonic", lambda: much_later)
        assert not monitor.is_dead(known), "read before it stood still"
    old = seen(store, after=2 * length)
    leases._set_tag(store, run.run_id, "beat", "17")
    assert monitor.is_dead(old)
    assert dead_runs.close_dead(store, [old], monitor) == [], "it beat in between"
    assert runs_of(store, "abc")[0].status == "running"
    run.finish()


@pytest.mark.parametrize("text", ["abc", "0", "-1", "nan", "inf"])
def test_a_lease_of_no_length_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RMLAB_LEASE_SECONDS", text)
    with pytest.raises(UsageError, match=f"RMLAB_LEASE_SECONDS={text}: must be a number of seconds above 0"):
        leases.lease_seconds()


def test_how_long_a_beat_may_stand_is_the_holders_to_say(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begun(store)
    monkeypatch.setattr(origin, "machine", lambda: "another/boot/1")
    monkeypatch.setenv("RMLAB_LEASE_SECONDS", "1")
    monitor = dead_runs.LeaseMonitor()
    assert not monitor.is_dead(seen(store))
    assert not monitor.is_dead(seen(store, after=100.0)), "its holder said a day"
    assert monitor.is_dead(seen(store, after=100_000.0))
    run.finish()


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
    with pytest.raises(Stopped, match=r"could not renew its lease .* The same command continues"), begun(store) as run:
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
    with pytest.raises(Stopped, match=r"it took \d+ s to start run"):
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
    with pytest.raises(RmlabError, match=r"^checkpoint\.safetensors cannot be written"), begun(store):
        raise RmlabError("checkpoint.safetensors cannot be written") from error
    assert [run.status for run in runs_of(store, "abc")] == ["stopped"]


def test_a_store_out_of_reach_leaves_no_failure_behind(store: Store) -> None:
    with pytest.raises(StoreOutOfReach, match="database is locked"), begun(store):
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
    assert dead_runs.close_dead(store, dead, dead_runs.LeaseMonitor()) == []
    assert runs_of(store, "abc")[0].status == "finished"


def test_a_reuse_holds_no_lease(store: Store, tmp_path: Path) -> None:
    from rmlab.tracking.reuse import log_reuse

    with begun(store) as first:
        pass
    reuse = log_reuse(store, cell_runs(store).finished["abc"], "other", "its own name", {})
    assert reuse.tags["source_run"] == first.run_id
    assert not {"lease", "beat"} & set(reuse.tags)
