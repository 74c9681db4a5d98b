"""A run, a cell and a folder are names of one model."""

from dataclasses import replace
from pathlib import Path

import pytest

from rmlab.errors import AmbiguousName, DataError, StoreError
from rmlab.tracking.references import find_artifact, find_model, find_run, run_among
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import RunInfo
from rmlab.tracking.store import Store

OWN = "0123456789abcdef"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The folder of a model, and a score table beside it."""
    folder = tmp_path / "trained" / "model"
    folder.mkdir(parents=True)
    (folder / "verifier.json").write_text("{}")
    (folder.parent / "scores.parquet").write_text("scores")
    return folder


@pytest.fixture
def run_id(store: Store, model: Path) -> str:
    """Of the run that made it: the main arm of a sweep's cell, beside another arm."""
    ids = []
    for name, arm, config_hash in (("data_scale=8 s0", "epochs", OWN), ("data_scale=8 steps s0", "steps", "f" * 16)):
        tags = {"sweep": "data_scale", "preset": "demo", "level": "8", "arm": arm, "config_hash": config_hash}
        with RunLogger.start(store, "data_scale", name, kind="verifier", tags=tags) as run:
            run.artifact(model)
            run.artifact(model.parent / "scores.parquet")
        ids.append(run.run_id)
    return ids[0]


def test_run_cell_and_folder_are_one_model(run_id: str, model: Path) -> None:
    names = (run_id, run_id[:8], OWN, "data_scale/demo/8/s0", "data_scale=8 s0")
    assert [find_run(name).run_id for name in names] == [run_id] * 5
    found = [find_model(name, "verifier.json") for name in (*names, str(model), str(model.parent))]
    assert [reference.run_id for reference in found] == [run_id] * 5 + [""] * 2
    assert len({reference.fingerprint() for reference in found}) == 1
    for name in (*names, str(model), str(model.parent)):
        assert find_artifact(name, "scores.parquet").read_text() == "scores"


def test_what_no_name_means_is_one_line(run_id: str, model: Path, tmp_path: Path) -> None:
    for name, words in (
        ("data_scale/demo/9/s0", "no finished run of sweep data_scale, preset demo at level 9"),
        ("e" * 16, "has no finished run with this config_hash"),
        (str(tmp_path), "has no verifier.json"),
        (str(tmp_path / "none"), "there is no such file or folder"),
        ("trained/none/at/all", "no cell or run of this name"),
    ):
        with pytest.raises(DataError, match=words) as caught:
            find_model(name, "verifier.json")
        assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=r"the model of this run has no policy\.json"):
        find_model(run_id, "policy.json")
    with pytest.raises(StoreError, match="there is no run"):
        find_model("a" * 32, "verifier.json")
    (model.parent / "scores.parquet").unlink()
    with pytest.raises(DataError, match="a model that is named by its run needs neither"):
        find_artifact(str(model), "scores.parquet")


def test_two_cells_of_one_name_are_named_by_their_hashes(store: Store, run_id: str, model: Path) -> None:
    tags = {"sweep": "data_scale", "preset": "demo", "level": "8", "config_hash": "e" * 16}
    with RunLogger.start(store, "data_scale", "data_scale=8 s0", kind="verifier", tags=tags) as run:
        run.artifact(model)
    with pytest.raises(DataError, match=f"2 different cells have this name .*: {OWN}, {'e' * 16}"):
        find_model("data_scale/demo/8/s0", "verifier.json")


def test_nothing_is_tracked_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "none"))
    with pytest.raises(DataError, match="x: there is no such file or folder, and no run has been tracked yet"):
        find_run("x")
    assert not (tmp_path / "none").exists()


def test_among_runs_of_a_bundle_a_beginning_is_enough_where_it_is_one_runs() -> None:
    """The id is that of the run in the bundle, or that of the run which was imported there."""
    first = RunInfo(f"abcdef01{'0' * 24}", "1", "a", {}, 1, 2)
    second = RunInfo(f"abcdef02{'0' * 24}", "1", "b", {"imported_run": f"123456{'0' * 26}"}, 1, 2)
    runs = [first, second]
    with pytest.raises(
        StoreError, match=rf"2 runs in x\.zip begin with abcdef0: {first.run_id}, {second.run_id}\. Give"
    ):
        run_among("abcdef0", runs, "x.zip")
    assert run_among("ABCDEF01", runs, "x.zip") is first
    assert run_among(second.run_id, runs, "x.zip") is second
    assert run_among("123456", runs, "x.zip") is second
    with pytest.raises(StoreError, match=r"there is no run '12345' in x\.zip.*give at least 6 characters"):
        run_among("12345", runs, "x.zip")


def test_a_name_means_the_finished_run_that_has_it() -> None:
    """A run that was stopped before, one that was replaced, and a reuse of the same cell are not in its way."""

    def info(digit: str, name: str, status: str, **tags: str) -> RunInfo:
        return RunInfo(digit * 32, "1", name, {"status": status, **tags}, int(digit, 16), 2)

    found = [
        info("1", "execution_a", "stopped"),
        info("2", "execution_a", "finished", config_hash=OWN),
        info("3", "execution_a", "replaced"),
        info("4", "execution_a", "finished", config_hash=OWN, source_run="2" * 32),
        info("5", "begun/alone", "running"),
        info("6", "twice", "finished", config_hash=OWN, kind="rl"),
        info("7", "twice", "finished", config_hash="f" * 16, level="4:1"),
    ]
    assert run_among("execution_a", found, "x.zip") is found[1]
    assert run_among("begun/alone", found, "x.zip") is found[4]
    with pytest.raises(AmbiguousName, match=r"2 runs in x\.zip are named twice\. Name one by its id: ") as refused:
        run_among("twice", found, "x.zip")
    assert f"{'6' * 32} (rl, finished, started 19" in str(refused.value)
    assert f"{'7' * 32} (level 4:1, finished, started" in str(refused.value)
    with pytest.raises(StoreError, match=r"there is no run 'execution'"):
        run_among("execution", found, "x.zip")


def test_a_name_of_hexadecimal_digits_is_a_name_too() -> None:
    """Where it is also the beginning of another run's id, or a config_hash, the message names both; a whole id is always an id."""
    called = RunInfo("1" * 32, "1", "facade", {"status": "finished"}, 1, 2)
    other = RunInfo(f"abcdef{'2' * 26}", "1", "other", {"status": "finished", "config_hash": OWN}, 1, 2)
    begins = RunInfo("3" * 32, "1", "abcdef", {"status": "finished"}, 1, 2)
    hashed = RunInfo("4" * 32, "1", OWN, {"status": "finished"}, 1, 2)
    whole = RunInfo("5" * 32, "1", "1" * 32, {"status": "finished"}, 1, 2)
    cell = RunInfo("6" * 32, "1", "a/b/c/s0", {"status": "finished"}, 1, 2)
    imported = RunInfo("7" * 32, "1", "x", {"imported_run": f"facade{'8' * 26}"}, 1, 2)
    found = [called, other, begins, hashed, whole, cell]
    assert run_among("facade", found, "x.zip") is called
    assert run_among("1" * 32, found, "x.zip") is called
    assert run_among("a/b/c/s0", found, "x.zip") is cell
    assert run_among("abcdef", [called, begins], "x.zip") is begins
    both = rf"abcdef can mean several runs in x\.zip\. Name one by its id: {'3' * 32} \(named abcdef\); {other.run_id} \(other, whose id"
    with pytest.raises(AmbiguousName, match=both):
        run_among("abcdef", found, "x.zip")
    with pytest.raises(
        AmbiguousName, match=rf"{'4' * 32} \(named {OWN}\); {other.run_id} \(other, whose config_hash this is\)"
    ):
        run_among(OWN, found, "x.zip")
    with pytest.raises(AmbiguousName, match=rf"{imported.run_id} \(x, whose id begins so\)"):
        run_among("facade", [*found, imported], "x.zip")
    there = f"facade{'8' * 26}"
    assert run_among(there, [*found, replace(whole, name=there), imported], "x.zip") is imported


def test_a_run_that_is_meant_in_two_ways_is_meant() -> None:
    """Its name is the beginning of its own id, or its own config_hash: nothing else is."""
    begins = RunInfo(f"abcdef{'2' * 26}", "1", "abcdef", {"status": "finished"}, 1, 2)
    origin = RunInfo("4" * 32, "1", "c", {"status": "finished", "config_hash": OWN}, 1, 2)
    reuse = RunInfo("3" * 32, "1", OWN, {"status": "finished", "config_hash": OWN, "source_run": "4" * 32}, 2, 2)
    assert run_among("abcdef", [begins, origin], "x.zip") is begins
    assert run_among(OWN, [begins, origin, reuse], "x.zip") is reuse


def test_a_name_in_the_form_of_a_cell_that_is_another_run_means_neither() -> None:
    tags = {"sweep": "a", "preset": "b", "level": "c", "status": "finished"}
    cell, named = RunInfo("1" * 32, "1", "x=c s0", tags, 1, 2), RunInfo("2" * 32, "1", "a/b/c/s0", tags, 1, 2)
    assert run_among("a/b/c/s0", [cell], "x.zip") is cell
    with pytest.raises(
        AmbiguousName, match=rf"{named.run_id} \(named a/b/c/s0\); {cell.run_id} \(x=c s0, whose cell this is\)"
    ):
        run_among("a/b/c/s0", [cell, named], "x.zip")


def test_a_run_of_the_store_is_found_by_a_name_of_hexadecimal_digits(store: Store) -> None:
    with RunLogger.start(store, "verifiers", "facade01", kind="verifier") as run:
        pass
    assert find_run("facade01").run_id == run.run_id
    with pytest.raises(StoreError, match="there is no run 'facade02'"):
        find_run("facade02")
