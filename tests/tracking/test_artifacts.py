"""Artifacts that lie elsewhere than in a folder of the store: here at a plain path, which MLflow treats as any remote place."""

import shutil
from pathlib import Path

import pytest

from rmlab.errors import StoreError
from rmlab.tracking import artifacts
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.bundles.opening import open_bundle
from rmlab.tracking.query import TrackedRun, get_run
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store


@pytest.fixture
def run(store: Store, tmp_path: Path) -> TrackedRun:
    """A finished run whose artifacts are elsewhere."""
    store.client.create_experiment("elsewhere", artifact_location=str(tmp_path / "bucket"))
    (tmp_path / "model" / "parts").mkdir(parents=True)
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "parts" / "weights").write_bytes(b"w" * 1000)
    with RunLogger.start(store, "elsewhere", "r", kind="verifier") as logger:
        logger.artifact(tmp_path / "model")
        logger.text("note.txt", "hello")
    return get_run(store, logger.run_id)


def test_a_file_and_then_its_folder_are_both_whole(run: TrackedRun) -> None:
    assert run.folder() is None
    assert run.artifact("model/config.json").read_text() == "{}"
    assert sorted(p.name for p in run.artifact("model").rglob("*")) == ["config.json", "parts", "weights"]
    assert run.artifact("note.txt").read_text() == "hello"
    with pytest.raises(StoreError, match=r"has no artifact 'other' .*: the server lists model, note\.txt"):
        run.artifact("other")


def test_a_download_that_was_cut_short_is_no_artifact(
    run: TrackedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(run_id: str, path: str, folder: str) -> str:
        shutil.copytree(tmp_path / "model", Path(folder) / "model")
        (Path(folder) / "model" / "parts" / "weights").write_bytes(b"w" * 10)
        return f"{folder}/model"

    monkeypatch.setattr(run.store.client, "download_artifacts", cut)
    with pytest.raises(StoreError, match=r"'model/parts/weights' of run .* came with 10 of 1000 bytes"):
        run.artifact("model")
    assert not list((tmp_path / "cache" / "fetched" / run.run_id).iterdir()), "nothing half is left"
    monkeypatch.undo()
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    assert (run.artifact("model") / "parts" / "weights").stat().st_size == 1000


def test_a_second_reader_takes_the_copy_that_is_there(run: TrackedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run.artifact("model")
    monkeypatch.setattr(artifacts, "download", None)
    assert run.artifact("model") == first


def test_they_are_exported(run: TrackedRun, tmp_path: Path) -> None:
    export_runs(run.store, tmp_path / "b.zip", show=False)
    with open_bundle(tmp_path / "b.zip") as bundle:
        [carried] = bundle.runs()
        assert (carried.artifact("model") / "parts" / "weights").read_bytes() == b"w" * 1000
        assert [file.path for file in carried.entry.artifacts] == [
            "model/config.json",
            "model/parts/weights",
            "note.txt",
        ]
