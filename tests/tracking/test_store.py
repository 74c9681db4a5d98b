import contextlib
import multiprocessing
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmlab.errors import StoreError, StoreOutOfReach
from rmlab.paths import REPOSITORY
from rmlab.stopping import stop_behind
from rmlab.tracking import store as store_module
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import run_infos
from rmlab.tracking.store import Store, default_uri
from rmlab.tracking.store_errors import is_busy


def one_run(name: str) -> None:
    tags = {"config_hash": name}
    with RunLogger.start(Store.open(), "shared", name, kind="verifier", tags=tags, once=True) as run:
        for step in range(5):
            run.metrics({"train/loss": 1.0 / (step + 1)}, step)
            run.flush()


@pytest.mark.slow
def test_eight_processes_open_a_store_that_is_not_there_and_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_store_anew: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(store_module, "_create", make_store_anew)
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "new"))
    import rmlab.tracking.preload  # noqa: F401  (once, before the processes are forked)

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=one_run, args=(f"r{i}",)) for i in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    found = runs(Store.open(), ["shared"])
    assert sorted(run.name for run in found) == [f"r{i}" for i in range(8)]
    assert {run.status for run in found} == {"finished"}
    assert all(len(run.series("train/loss")) == 5 for run in found)


def same_data(name: str, all_at_once: Any) -> None:
    with RunLogger.start(Store.open(), "shared", name, kind="verifier") as run:
        for number in range(4):
            all_at_once.wait()
            run.dataset(f"set{number}", "0" * 16, "training", {"path": "pool.parquet"})


def test_a_data_set_that_four_processes_log_at_once(store: Store) -> None:
    """MLflow looks for the data set, then inserts it: without another try, all but one of them fail."""
    store.experiment("shared")
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    processes = [context.Process(target=same_data, args=(f"r{i}", barrier)) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    inputs = [store.client.get_run(run.run_id).inputs.dataset_inputs for run in runs(store)]
    assert [len(of_run) for of_run in inputs] == [4] * 4


def test_an_experiment_opens_as_model_training_and_is_made_once(store: Store) -> None:
    first = store.experiment("data_scale")
    assert Store.open().experiment("data_scale") == first
    assert store.client.get_experiment(first).tags["mlflow.experimentKind"] == "custom_model_development"
    with pytest.raises(StoreError, match="cannot name an experiment"):
        store.experiment("a/b")


def test_the_environment_decides_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "f" * 32)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "elsewhere")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////nowhere/mlflow.db")
    with RunLogger.start(Store.open(), "here", "run", kind="verifier"):
        pass
    [run] = runs(store)
    assert run.experiment_id == store.experiment("here")


def test_an_older_schema_or_another_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("not a database, whatever its name says" * 100)
    with pytest.raises(StoreError, match=r"does not work: .*not a database") as caught:
        Store.open(f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match="cannot be read"):
        run_infos(Store.existing(f"sqlite:///{tmp_path / 'mlflow.db'}"))


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("sqlite:////etc/passwd/mlflow.db", "cannot be written: .*/etc/passwd"),
        ("sqlite:////proc/rmlab/mlflow.db", "cannot be written"),
        ("sqlite:///relative.db", "depends on the working directory"),
        (
            "nowhere/mlflow.db",
            r"nowhere/mlflow\.db: there is no such file\. A new store is named by its URL: sqlite:////.*/mlflow\.db",
        ),
        ("./mlruns", r"\./mlruns: there is no such file or folder\. A new store is named by its URL: sqlite:////"),
        ("/tmp", "is a folder: MLflow's file store is no longer supported"),
        ("file:///tmp/mlruns", "is a folder: MLflow's file store"),
    ],
)
def test_a_store_that_cannot_be_opened_is_one_clear_line(uri: str, words: str) -> None:
    with pytest.raises(StoreError, match=words) as caught:
        Store.open(uri)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("open_store", [Store.open, Store.existing, Store.to_read])
def test_a_relative_url_is_refused_whoever_opens_it(
    open_store: Callable[[str], Store | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.db").touch()
    with pytest.raises(
        StoreError, match=f"depends on the working directory of each process: use sqlite:///{tmp_path}/"
    ):
        open_store("sqlite:///there.db")


def test_a_folder_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").mkdir()
    with pytest.raises(StoreError, match="it is a folder"):
        Store.open(f"sqlite:///{tmp_path / 'mlflow.db'}")


def test_a_server_that_is_not_there_is_said_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(StoreOutOfReach, match="no tracking server answers") as caught:
            Store.open(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert stop_behind(caught.value) is caught.value, "a cell that begins while the server restarts has not failed"


@pytest.mark.parametrize(("code", "busy"), [(502, True), (503, True), (504, True), (403, False), (400, False)])
def test_what_stands_between_says_that_a_server_restarts(code: int, busy: bool) -> None:
    assert (
        is_busy(Exception(f"API request to endpoint /api/2.0/mlflow/runs/create failed with error code {code} != 200"))
        is busy
    )


def test_looking_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "none"))
    assert Store.existing() is None
    assert not (tmp_path / "none").exists()
    assert default_uri() == f"sqlite:///{tmp_path / 'none' / 'mlflow.db'}"


def test_importing_the_package_imports_no_mlflow() -> None:
    code = (
        "import sys, rmlab.tracking.store, rmlab.tracking.run, rmlab.tracking.query, rmlab.tracking.run_index, rmlab.tracking.ui; "
        "assert not {'mlflow', 'torch', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


def test_a_store_that_is_busy_while_an_experiment_is_made_is_asked_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.exceptions import MlflowException

    make, tries = store.client.create_experiment, []

    def busy_once(*arguments: Any, **named: Any) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise MlflowException("(sqlite3.OperationalError) database is locked")
        return str(make(*arguments, **named))

    monkeypatch.setattr(store.client, "create_experiment", busy_once)
    assert store.experiment("fresh")
    assert len(tries) == 2


def test_a_store_that_stays_busy_is_out_of_reach_and_one_that_refuses_is_not(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmlab.tracking import run_index as heads

    def locked() -> None:
        raise RuntimeError("(sqlite3.OperationalError) database is locked")

    with pytest.raises(StoreOutOfReach, match="database is locked"):
        store.call(locked, patience=0.0)
    monkeypatch.setattr(heads, "BUSY_SECONDS", 0.0)
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db")) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreOutOfReach, match="is still busy: database is locked"):
            heads.run_infos(store)
    assert heads.run_infos(store) == []
    with pytest.raises(StoreError, match=r"\b0{32}\b") as refused:
        store.call(lambda: store.client.get_run("0" * 32))
    assert not isinstance(refused.value, StoreOutOfReach)


def test_what_a_database_refuses_is_said_without_mlflows_traceback(
    store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = RunLogger.start(store, "shared", "r", kind="verifier")
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.execute("DROP TABLE tags")
    capfd.readouterr()
    with pytest.raises(StoreError, match="no such table: tags"):
        run.tags({"level": "1"})
    assert capfd.readouterr().err == ""


def test_the_reason_is_the_databases_own_and_not_sqlalchemys_advice(store: Store) -> None:
    def full() -> None:
        raise RuntimeError(
            "(raised as a result of Query-invoked autoflush; consider using a session.no_autoflush block)\n"
            "(sqlite3.OperationalError) database or disk is full\n[SQL: UPDATE tags]\n(Background on this error at: x)"
        )

    with pytest.raises(
        StoreError, match=r"does not work: \(sqlite3\.OperationalError\) database or disk is full\. Check"
    ):
        store.call(full)
