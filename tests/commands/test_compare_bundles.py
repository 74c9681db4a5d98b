"""`rmlab compare A B --from BUNDLE`: runs of a bundle are found and compared as those of a store."""

from pathlib import Path

import pytest
import yaml

from rmlab.commands.compare import compare
from rmlab.commands.figures import draw_figures
from rmlab.commands.runs import list_runs
from rmlab.errors import DataError, RmlabError, StoreError, UsageError
from rmlab.scores.table import read_score_table
from rmlab.scores.writing import write_score_table
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.tracking.tags import CONTINUED_BY, UNKNOWN, set_tags

HASH = {"1": "0123456789abcdef", "2": "fedcba9876543210"}
NAMES = ("data_scale=1 s0", "data_scale=2 s0")
SCORES = {"1": (0.9, 0.1, 0.4, 0.6), "2": (0.7, 0.1, 0.8, 0.6)}


def run_of(level: str, folder: Path, *, scored: bool = True) -> str:
    """A finished cell at a level; its id."""
    rows = zip("aabb", "1234", SCORES[level], "1010", strict=True)
    table = folder / f"level_{level}.csv"
    table.write_text("\n".join(["task_id,trajectory_id,score,resolved", *(",".join(map(str, row)) for row in rows)]))
    write_score_table(folder / "scores.parquet", read_score_table(table))
    tags = {"sweep": "data_scale", "preset": "demo", "level": level, "config_hash": HASH[level], "dataset": "d0"}
    store, name = Store.open(), f"data_scale={level} s0"
    with RunLogger.start(store, "data_scale", name, kind="verifier", tags=tags) as run:
        if scored:
            run.artifact(folder / "scores.parquet")
        run.text("config.yaml", yaml.safe_dump({"data": {"scale": int(level), "path": "nowhere.parquet"}}))
    return run.run_id


@pytest.fixture
def runs_of_levels(runs_folder: Path, tmp_path: Path) -> tuple[str, str]:
    """The ids of two runs."""
    return run_of("1", tmp_path), run_of("2", tmp_path)


@pytest.fixture
def bundle(runs_of_levels: tuple[str, str], runs_folder: Path, tmp_path: Path) -> Path:
    """Both runs in a bundle, on a machine that has no store."""
    path = tmp_path / "bundles" / "both.zip"
    path.parent.mkdir()
    export_runs(Store.open(), path, show=False)
    export_runs(Store.open(), path.with_name("first.zip"), runs_of_levels[:1], show=False)
    (runs_folder / "mlflow.db").rename(tmp_path / "elsewhere.db")
    return path


def test_runs_of_a_bundle_are_compared_as_in_their_store(
    runs_of_levels: tuple[str, str], bundle: Path, runs_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = runs_of_levels
    found = compare(a, b, source=str(bundle))
    assert not (runs_folder / "mlflow.db").exists(), "nothing is imported"
    said = capsys.readouterr().out
    assert f"A = data_scale=1 s0 (run {a})\nB = data_scale=2 s0 (run {b})\n" in said
    assert found["differ_in"] == {"data.scale": [1, 2]}
    assert found["metrics"]["auc_pooled"]["difference"] == pytest.approx(0.75 - 1)
    assert found["metrics"]["brier"]["difference"] == pytest.approx((0.74 - 0.5) / 4)
    for names in ((a[:8], b[:8]), HASH.values(), ("data_scale/demo/1/s0", "data_scale/demo/2/s0"), NAMES):
        assert compare(*names, source=str(bundle), as_json=True) == found
    assert compare(a, b, source=str(bundle.parent), as_json=True) == found, "a run that lies in two bundles is one"
    (bundle.parent.parent / "elsewhere.db").rename(runs_folder / "mlflow.db")
    assert compare(a, b, as_json=True) == found


@pytest.mark.parametrize(("whole", "other"), [("1.zip", "2.zip"), ("2.zip", "1.zip")])
def test_of_two_copies_of_a_run_the_one_that_has_its_scores_is_read(
    runs_of_levels: tuple[str, str], runs_folder: Path, tmp_path: Path, whole: str, other: str
) -> None:
    (folder := tmp_path / "copies").mkdir()
    export_runs(Store.open(), folder / whole, show=False)
    for table in runs_folder.rglob("scores.parquet"):
        table.unlink()
    export_runs(Store.open(), folder / other, show=False)
    with pytest.raises(DataError, match=r"has no artifact 'scores\.parquet'"):
        compare(*runs_of_levels, source=str(folder / other))
    assert compare(*runs_of_levels, source=str(folder), as_json=True)["differ_in"] == {"data.scale": [1, 2]}


def test_runs_that_do_not_differ_are_alike_in_what_is_known(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rmlab.tracking.run.origin_tags", lambda: {"commit": "abc"})
    a = run_of("1", tmp_path)
    compare(a, a)
    assert "they do not differ: same configuration and commit\n" in capsys.readouterr().out
    monkeypatch.setattr("rmlab.tracking.run.origin_tags", lambda: {"commit": UNKNOWN, "device": "a card"})
    b = run_of("1", tmp_path)
    compare(b, b)
    assert "they do not differ: same configuration and device\n" in capsys.readouterr().out


def test_the_runs_of_a_folder_of_bundles_are_listed_each_once(
    runs_of_levels: tuple[str, str], bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    list_runs(store=str(bundle.parent), as_csv=True)
    of_folder = capsys.readouterr().out
    list_runs(store=str(bundle), as_csv=True)
    assert capsys.readouterr().out == of_folder
    assert all(of_folder.count(f"\n{run_id},") == 1 for run_id in runs_of_levels)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"no bundle lies below .*empty"):
        list_runs(store=str(tmp_path / "empty"))
    for read in (lambda path: list_runs(store=path), lambda path: draw_figures(["foretelling"], path)):
        with pytest.raises(StoreError, match="nope: there is no such file or folder"):
            read(str(bundle.parent / "nope"))


def test_of_a_source_that_was_named_it_is_said_what_it_holds(runs_folder: Path) -> None:
    with RunLogger.start(Store.open(), "verifiers", "alone", kind="verifier", tags={}):
        pass
    lacking = "holds no finished RL run, which foretelling needs"
    with pytest.raises(RmlabError, match=rf"{lacking}; it holds 1 finished verifier run\. Name another source"):
        draw_figures(["foretelling"], str(runs_folder / "mlflow.db"))
    with pytest.raises(RmlabError, match=rf"{lacking}\. Launch one first: `rmlab rl`\."):
        draw_figures(["foretelling"])


def test_a_run_of_a_bundle_beside_a_table_or_a_rule(
    runs_of_levels: tuple[str, str], bundle: Path, tmp_path: Path
) -> None:
    a, b = runs_of_levels
    found = compare(a, b, source=str(bundle), as_json=True)
    beside = compare(a, str(tmp_path / "level_2.csv"), source=str(bundle), as_json=True)
    assert beside["metrics"] == found["metrics"]
    assert compare(a, "oracle", source=str(bundle))["metrics"]["auc_pooled"]["b"] == 1
    with pytest.raises(DataError, match=r"nowhere\.parquet is not here.*Name them with --trajectories"):
        compare(a, "last_value", source=str(bundle))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyboardInterrupt(), "the run was stopped before it made it. Continue it first"),
        (ValueError("no"), "the run failed before it made it. Try it again first"),
        (None, "the run is still running and has not made it yet"),
    ],
)
def test_a_run_that_is_not_finished_has_not_been_scored(
    runs_folder: Path, error: BaseException | None, words: str
) -> None:
    run = RunLogger.start(Store.open(), "data_scale", "data_scale=1 s0", kind="verifier", tags={})
    if error:
        run.fail(error)
    with pytest.raises(StoreError, match=rf"has no artifact 'scores\.parquet' in .*: {words}"):
        compare(run.run_id, "last_value")
    set_tags(Store.open(), run.run_id, {CONTINUED_BY: "d0d0"})
    with pytest.raises(StoreError, match=r"ended unfinished\. Name the one that came after it: d0d0"):
        compare(run.run_id, "last_value")
    if not error:
        run.finish()


def test_what_a_bundle_lacks_is_said(bundle: Path, tmp_path: Path) -> None:
    for name, words in (
        ("0a0a0a0a", r"there is no run '0a0a0a0a' in .*both\.zip\. `rmlab runs list --store BUNDLE` shows the runs"),
        ("1:4", r"there is no run '1:4' in .*Levels of a sweep are compared with --sweep NAME\."),
        (
            "data_scale/demo/3/s0",
            r"no finished run of sweep data_scale, preset demo at level 3 and seed s0 in .*\. `rmlab runs list --store BUNDLE`",
        ),
        ("f" * 16, r"both\.zip has no finished run with this config_hash, and no run whose id begins so"),
        ("nowhere/t.csv", "there is no such file or folder, and no cell or run of this name"),
    ):
        with pytest.raises((DataError, StoreError), match=words):
            compare(HASH["1"], name, source=str(bundle))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no bundle lies below"):
        compare(*HASH.values(), source=str(tmp_path / "empty"))
    with pytest.raises(StoreError, match=r"nowhere\.db: there is no such store"):
        compare(*HASH.values(), source=f"sqlite:///{tmp_path / 'nowhere.db'}")


def test_another_store_is_named_where_it_lacks_a_run(
    runs_of_levels: tuple[str, str], runs_folder: Path, tmp_path: Path
) -> None:
    (runs_folder / "mlflow.db").rename(tmp_path / "other.db")
    lists = r"`rmlab runs list --store sqlite:///.*other\.db` shows the runs"
    for name in ("0a0a0a0a", "data_scale/demo/3/s0"):
        with pytest.raises((DataError, StoreError), match=lists):
            compare(runs_of_levels[0], name, source=str(tmp_path / "other.db"))


def test_a_run_whose_scores_the_bundle_lacks_is_named(runs_folder: Path, tmp_path: Path) -> None:
    a, b = run_of("1", tmp_path), run_of("2", tmp_path, scored=False)
    export_runs(Store.open(), tmp_path / "runs.zip", show=False)
    with pytest.raises(DataError, match=rf"data_scale=2 s0 \({b}\) has no artifact 'scores\.parquet' in .*runs\.zip"):
        compare(a, b, source=str(tmp_path / "runs.zip"))
