import json
import os
import signal
import sqlite3
import threading
from pathlib import Path

import pytest

from rmlab.errors import StoreError
from rmlab.tracking import metric_writer
from rmlab.tracking.dead_runs import close_stale
from rmlab.tracking.query import get_run, runs
from rmlab.tracking.reuse import log_reuse
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import cell_runs, run_infos
from rmlab.tracking.store import Store
from rmlab.tracking.tags import check_names
from tests.forked import exit_code


def finished(store: Store, name: str, config_hash: str, experiment: str = "data_scale", **tags: str) -> str:
    with RunLogger.start(
        store,
        experiment,
        name,
        kind="verifier",
        params={"seed": 0, "data_scale": 2000},
        tags={"config_hash": config_hash, "sweep": experiment, **tags},
    ) as run:
        run.metrics({"eval/auc_pooled": 0.8})
        run.metric("eval/rm_at_k", 0.2, 1)
        run.metric("eval/rm_at_k", 0.3, 8)
        run.json("report.json", {"auc_pooled": 0.8})
    return run.run_id


def test_what_goes_in_comes_out(store: Store, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights.txt").write_text("w")
    with RunLogger.start(
        store,
        "data_scale",
        "data_scale=2000 s1",
        kind="verifier",
        params={"seed": 1, "left_out": None},
        tags={"sweep": "data_scale", "empty": None},
        metrics=["train/loss"],
    ) as run:
        for step in range(2500):  # more than one batch
            run.metrics({"train/loss": 1 / (step + 1), "undefined": None}, step)
        run.artifact(tmp_path / "model")
        run.text("note.txt", "hello")
        run.dataset("starter", "a" * 16, "training", {"path": "trajectories.parquet"}, {"trajectories": 2000})
        run.tags({"later": 3})
    [found] = runs(store, ["data_scale"], {"sweep": "data_scale"})
    assert (found.name, found.status, found.params) == ("data_scale=2000 s1", "finished", {"seed": "1"})
    series = found.series("train/loss")
    assert [step for step, _ in series] == list(range(2500))
    assert series[2499][1] == pytest.approx(1 / 2500)
    assert found.series("undefined") == []
    assert (found.artifact("model") / "weights.txt").read_text() == "w"
    assert found.artifact("note.txt").read_text() == "hello"
    assert found.tags["later"] == "3"
    assert len(found.tags["commit"].split("+")[0]) == 40
    whole = store.client.get_run(found.run_id)
    assert whole.info.status == "FINISHED"
    assert whole.inputs.dataset_inputs[0].dataset.digest == "a" * 16
    assert [i.dataset.name for i in whole.inputs.dataset_inputs] == ["starter"]


@pytest.mark.parametrize(
    "name", ["eval/rm@8", "auc (within)", "a,b", "a//b", "/a", "..", "a/../b", "", "x" * 251, "ünï"]
)
def test_a_name_that_a_store_would_refuse_is_refused_before_the_run_starts(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a metric"):
        RunLogger.start(store, "data_scale", "r", kind="verifier", metrics=["fine", name])
    assert run_infos(store) == []


def test_our_names_are_names_that_mlflow_takes() -> None:
    from mlflow.utils.validation import _validate_metric_name

    for name in ["eval/rm_at_k", "train/tokens_per_second", "eval/ece_width_10", "a.b-c d:e"]:
        check_names([name])
        _validate_metric_name(name)


def test_an_error_is_recorded_with_its_traceback_and_what_was_measured(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), RunLogger.start(store, "data_scale", "r", kind="verifier") as run:
        run.metrics({"train/loss": 2.0}, 7)
        _ = 1 / 0
    found = get_run(store, run.run_id)
    assert (found.status, store.client.get_run(run.run_id).info.status) == ("failed", "FAILED")
    assert found.tags["error"] == "ZeroDivisionError: division by zero"
    assert "1 / 0" in found.tags["traceback"]
    assert "ZeroDivisionError" in found.artifact("traceback.txt").read_text()
    assert found.series("train/loss") == [(7, 2.0)]


def test_an_interruption_is_no_failure(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt), RunLogger.start(store, "data_scale", "r", kind="verifier") as run:
        raise KeyboardInterrupt
    assert (get_run(store, run.run_id).status, store.client.get_run(run.run_id).info.status) == ("stopped", "SCHEDULED")


@pytest.mark.parametrize(("moment", "status"), [("start", "stopped"), ("flush", "stopped"), ("finish", "finished")])
def test_ctrl_c_in_the_middle_of_a_write_waits_for_its_end(store: Store, moment: str, status: str) -> None:
    """Where it cut a transaction, the lock on the store stayed taken: nothing more could be written, by any process."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    store.experiment("data_scale")
    now = "start"

    def press(connection: object) -> None:
        nonlocal now
        if now == moment:
            now = "pressed"
            os.kill(os.getpid(), signal.SIGINT)

    event.listen(Engine, "commit", press)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            RunLogger.start(
                store, "data_scale", "r", kind="verifier", once=True, tags={"config_hash": "c0"}, params={"seed": 1}
            ) as run,
        ):
            now = "flush"
            run.metrics({"train/loss": 1.0})
            run.flush()
            now = "finish"
    finally:
        event.remove(Engine, "commit", press)
    [found] = runs(store)
    assert (found.status, found.params) == (status, {"seed": "1"})
    assert found.series("train/loss") == ([] if moment == "start" else [(0, 1.0)])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_ended_unfinished_names_the_run_that_goes_on_with_it(store: Store) -> None:
    def begin(name: str, cell: str = "c0", **more: bool) -> RunLogger:
        return RunLogger.start(store, "verifiers", name, kind="verifier", tags={"config_hash": cell}, **more)

    begin("failed").fail(ValueError("no"))
    second = begin("stopped")
    second.fail(KeyboardInterrupt())
    begin("other cell", "c1").fail(ValueError("no"))
    with begin("on", once=True) as on:
        pass
    named = {run.name: run.tags.get("continued_by") for run in runs(store)}
    assert named == {"failed": second.run_id, "stopped": on.run_id, "other cell": None, "on": None}


def test_a_long_parameter_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="too long for a parameter"):
        RunLogger.start(store, "data_scale", "r", kind="verifier", params={"everything": "x" * 300})


def test_metrics_are_written_while_the_run_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_writer, "FLUSH_SECONDS", 0.0)
    with RunLogger.start(store, "data_scale", "r", kind="verifier") as run:
        run.metrics({"train/loss": 1.0}, 0)
        run.metrics({"train/loss": 0.5}, 1)
        assert get_run(store, run.run_id).series("train/loss") == [(0, 1.0), (1, 0.5)]
        assert get_run(store, run.run_id).status == "running"


def test_a_resumed_run_has_the_whole_series(store: Store) -> None:
    with RunLogger.start(store, "data_scale", "before", kind="verifier") as before:
        before.metrics({"train/loss": 1.0}, 0)
        history = json.loads(json.dumps(before.series.history))
    with RunLogger.start(store, "data_scale", "after", kind="verifier") as after:
        after.replay(history)
        after.metrics({"train/loss": 0.5}, 1)
    assert get_run(store, after.run_id).series("train/loss") == [(0, 1.0), (1, 0.5)]


def test_a_locked_store_is_waited_for(store: Store, tmp_path: Path) -> None:
    run = RunLogger.start(store, "data_scale", "r", kind="verifier")
    blocker = sqlite3.connect(tmp_path / "mlflow.db", check_same_thread=False)
    blocker.execute("BEGIN EXCLUSIVE")
    threading.Timer(1.0, blocker.rollback).start()
    run.metrics({"train/loss": 1.0})
    run.finish()
    assert get_run(store, run.run_id).metrics == {"train/loss": 1.0}


def killed_in_the_middle(when: str) -> None:
    run = RunLogger.start(Store.open(), "data_scale", "r", kind="verifier", tags={"config_hash": "abc"})
    run.metrics({"train/loss": 1.0})
    run.flush()
    if when == "after":
        run.tags({"status": "finished"})
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("when", "status"), [("before", "killed"), ("after", "finished")])
def test_a_killed_run_is_closed_and_only_counts_when_it_had_said_finished(store: Store, when: str, status: str) -> None:
    assert exit_code(killed_in_the_middle, when) == -signal.SIGKILL
    assert ("abc" in cell_runs(store).finished) == (when == "after")
    with RunLogger.start(store, "data_scale", "alive", kind="verifier") as alive:
        [closed] = close_stale(store, run_infos(store))
        assert get_run(store, alive.run_id).status == "running"
    found = get_run(store, closed.run_id)
    assert (found.status, store.client.get_run(closed.run_id).info.status) == (status, status.upper())
    assert ("abc" in cell_runs(store).finished) == (when == "after")


def test_a_run_of_another_host_is_left_alone(store: Store) -> None:
    run = RunLogger.start(store, "data_scale", "r", kind="verifier", tags={"host": "elsewhere", "process": "1@1.00"})
    assert close_stale(store, run_infos(store)) == []
    assert get_run(store, run.run_id).status == "running"


def test_a_reuse_is_a_run_of_its_own_with_all_metrics_and_the_artifacts_of_its_source(store: Store) -> None:
    source = finished(store, "data_scale=2000 s0", "abc", level="2000", preset="demo")
    reuse = log_reuse(
        store,
        cell_runs(store).finished["abc"],
        "label_ratio",
        "label_ratio=1:1 s0",
        {"sweep": "label_ratio", "level": "1:1", "control_hash": "other"},
    )
    assert (reuse.tags["source_run"], reuse.status, reuse.tags["config_hash"]) == (source, "finished", "abc")
    assert (reuse.tags["sweep"], reuse.tags["level"], reuse.tags["control_hash"]) == ("label_ratio", "1:1", "other")
    assert "preset" not in reuse.tags
    assert reuse.series("eval/rm_at_k") == [(1, 0.2), (8, 0.3)]
    assert json.loads(reuse.artifact("report.json").read_text()) == {"auc_pooled": 0.8}
    again = log_reuse(store, reuse, "third", "t", {})
    assert again.tags["source_run"] == source
    assert cell_runs(store).finished["abc"].run_id == source
    assert len(cell_runs(store).all["abc"]) == 3


def test_a_store_that_was_moved_still_has_its_artifacts(store: Store, tmp_path: Path) -> None:
    finished(store, "one", "abc")
    moved = tmp_path / "moved here"
    moved.mkdir()
    for name in ("mlflow.db", "artifacts"):
        (tmp_path / name).rename(moved / name)
    [run] = runs(Store.open(str(moved / "mlflow.db")))
    assert run.artifact("report.json").is_relative_to(moved)
    with pytest.raises(StoreError, match=r"has no artifact 'other\.json'"):
        run.artifact("other.json")


def test_failed_cells_are_those_that_no_run_finished(store: Store) -> None:
    for key in ("bad", "mended"):
        with (
            pytest.raises(RuntimeError),
            RunLogger.start(store, "data_scale", "r", kind="verifier", tags={"config_hash": key}),
        ):
            raise RuntimeError("out of luck")
    finished(store, "r", "mended")
    known = cell_runs(store)
    assert (set(known.failed), set(known.finished)) == ({"bad"}, {"mended"})
    assert known.failed["bad"].tags["error"] == "RuntimeError: out of luck"


def test_heads_by_sql_are_what_mlflow_says(store: Store) -> None:
    finished(store, "one", "a")
    finished(store, "two", "b", "other")
    gone = finished(store, "deleted", "c")
    store.client.delete_run(gone)
    by_mlflow = {
        (r.run_id, r.experiment_id, r.name, r.start_time, r.end_time, tuple(sorted(r.tags.items())))
        for r in runs(store)
    }
    assert {
        (h.run_id, h.experiment_id, h.name, h.start_time, h.end_time, tuple(sorted(h.tags.items())))
        for h in run_infos(store)
    } == by_mlflow
    assert len(by_mlflow) == 2


def test_the_beginning_of_an_id_names_its_run(store: Store) -> None:
    ids = [finished(store, f"r{i}", f"hash{i}") for i in range(2)]
    for run_id in ids:
        assert get_run(store, run_id[:8]).run_id == run_id
    for none in (ids[0][:5], "0" * 8 if not ids[0].startswith("0" * 8) else "1" * 8, f"{ids[0]}0", "not-an-id"):
        with pytest.raises(StoreError, match="there is no run"):
            get_run(store, none)


def test_a_failure_is_recorded_where_its_traceback_cannot_be_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no room")

    logger = RunLogger.start(store, "e", "r", kind="verifier")
    monkeypatch.setattr(logger, "text", refuse)
    error = ValueError("no luck")
    logger.fail(error)
    [found] = runs(store, ["e"])
    assert found.status == "failed"
    assert found.tags["error"] == "ValueError: no luck"
    assert "no room" in error.__notes__[0]
