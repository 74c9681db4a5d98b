"""Runs folders that were copied or moved: what is written and deleted there is there."""

import multiprocessing
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from rmlab.tracking.home import bring_home
from rmlab.tracking.query import TrackedRun, runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store


def write(name: str, text: str, kind: str = "verifier") -> None:
    with RunLogger.start(Store.open(), "shared", name, kind=kind) as run:
        run.text("report.txt", text)


def rewrite(name: str, text: str) -> None:
    store = Store.open()
    RunLogger(store, named(store)[name].run_id, "").text("report.txt", text)


def in_processes(*calls: tuple[Callable[[str, str], None], str, str]) -> None:
    """All at once, each in a process of its own."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=function, args=arguments) for function, *arguments in calls]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(calls)


def files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*.txt"))


def named(store: Store) -> dict[str, TrackedRun]:
    return {run.name: run for run in runs(store)}


def content(store: Store) -> dict[str, str]:
    return {name: run.artifact("report.txt").read_text() for name, run in named(store).items()}


@pytest.fixture
def first(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runs folder with one run."""
    folder = tmp_path / "one"
    folder.mkdir()
    shutil.copy(empty_database, folder / "mlflow.db")
    monkeypatch.setenv("RMLAB_RUNS", str(folder))
    write("old", "of the first")
    return folder


@pytest.mark.parametrize("name", ["two", "a%20b", "q?x", "h#x ü"])
def test_a_copy_keeps_to_itself(first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    second = tmp_path / name
    shutil.copytree(first, second)
    before = files(first)
    monkeypatch.setenv("RMLAB_RUNS", str(second))
    write("new", "of the copy")
    store = Store.open()
    assert files(first) == before
    assert len(files(second)) == 2
    assert {Path(run.folder() or "").is_relative_to(second) for run in runs(store)} == {True}
    assert {run.artifact_uri.startswith(second.as_uri() + "/") for run in runs(store)} == {True}, (
        "MLflow reads it there"
    )
    rewrite("old", "changed in the copy")
    monkeypatch.setenv("RMLAB_RUNS", str(first))
    assert content(Store.open()) == {"old": "of the first"}
    shutil.rmtree(first)
    assert content(Store.open(str(second / "mlflow.db"))) == {"old": "changed in the copy", "new": "of the copy"}


def test_processes_that_open_a_copy_at_once(first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = tmp_path / "two"
    shutil.copytree(first, second)
    monkeypatch.setenv("RMLAB_RUNS", str(second))
    in_processes(*((write, f"r{i}", str(i)) for i in range(4)))
    assert (len(files(first)), len(files(second))) == (1, 5)


def test_a_database_without_tables_is_no_moved_store(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").touch()
    bring_home(tmp_path / "mlflow.db")
    assert (tmp_path / "mlflow.db").stat().st_size == 0


def test_links_to_one_folder_are_one_place(first: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(first)
    places = [Store.open(f"sqlite:///{folder}/mlflow.db").artifacts for folder in (tmp_path / "link", first)]
    assert places == [first / "artifacts"] * 2
    [run] = runs(Store.open(f"sqlite:///{tmp_path / 'link'}/mlflow.db"))
    assert run.artifact_uri.startswith(first.as_uri())


def test_what_was_put_elsewhere_or_not_copied_along_stays_readable(first: Path, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    store = Store.open()
    store.client.create_experiment("elsewhere", artifact_location=bucket.as_uri())
    with RunLogger.start(store, "elsewhere", "apart", kind="verifier") as run:
        run.text("report.txt", "in the bucket")
    (tmp_path / "two").mkdir()
    shutil.copy(first / "mlflow.db", tmp_path / "two" / "mlflow.db")
    alone = Store.open(str(tmp_path / "two" / "mlflow.db"))
    assert content(alone) == {"old": "of the first", "apart": "in the bucket"}
    with sqlite3.connect(tmp_path / "two" / "mlflow.db") as connection:
        places = dict(connection.execute("SELECT name, artifact_location FROM experiments"))
    assert places["shared"] == (tmp_path / "two" / "artifacts" / "shared").as_uri(), "what is new goes beside the store"
    assert places["elsewhere"] == bucket.as_uri()
    shutil.rmtree(first)
    with pytest.raises(Exception, match=r"has no artifact 'report\.txt'"):
        content(alone)
