"""The bundle of a study: small, the same bytes again, and nothing of the machine in it."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rmlab.commands.runs import list_runs
from rmlab.errors import DataError, StoreError, UsageError
from rmlab.paths import REPOSITORY
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table
from rmlab.scores.writing import write_score_table
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.bundles.format import weights
from rmlab.tracking.bundles.importing import import_bundle
from rmlab.tracking.bundles.opening import is_bundle, open_bundle
from rmlab.tracking.bundles.reading import Bundle
from rmlab.tracking.bundles.study import anonymous, left_out
from rmlab.tracking.query import runs
from rmlab.tracking.reuse import log_reuse
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import run_infos
from rmlab.tracking.store import Store

ELSEWHERE = "/srv/people/somebody/clone"
TAGS = {"sweep": "data_scale", "preset": "demo", "level": "100", "control_hash": "c0"}


@pytest.fixture
def store(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store in the runs folder."""
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    (tmp_path / "runs").mkdir()
    shutil.copy(empty_database, tmp_path / "runs" / "mlflow.db")
    return Store.open()


def scored(seed: int, rows: int = 400) -> Scores:
    """The same attempts for every seed, with scores of its own."""
    rng = np.random.default_rng(seed)
    names = [f"{i:016x}" for i in np.random.default_rng(99).integers(2**60, size=rows)]
    resolved = np.arange(rows) % 2 == 0
    scores = rng.random(rows).astype(np.float32).astype(float)
    return Scores.of([f"t{i // 4}" for i in range(rows)], scores, resolved, trajectory_id=names)


def track(store: Store, folder: Path, seed: int, **tags: str) -> str:
    """A verifier's run with a path in everything that a run may hold."""
    write_score_table(folder / "scores.parquet", scored(seed))
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "model.safetensors").write_bytes(b"weights")
    (folder / "figure.png").write_bytes(b"picture")
    said = {**TAGS, "config_hash": f"h{seed}", "start": f"{ELSEWHERE}/runs/policies/x", **tags}
    with RunLogger.start(
        store,
        "data_scale",
        f"data_scale=100 s{seed}",
        kind="verifier",
        tags=said,
        params={"seed": seed, "verifier": "/mnt/disk 1/y"},
    ) as run:
        run.json("report.json", {"path": f"{ELSEWHERE}/rmlab/starter/tasks.parquet", "auc": 0.5})
        run.text(
            "config.yaml", f"tracking:\n  uri: sqlite:///{ELSEWHERE}/s.db\ndata: {ELSEWHERE}/rmlab/starter/a.parquet\n"
        )
        run.text("browse.html", f"<p>{ELSEWHERE}</p>")
        run.metric("eval/auc", 0.5)
        run.dataset("pool", "a" * 16, "training", {"path": f"{ELSEWHERE}/data/pool.parquet"})
        run.tags({"mlflow.note.content": f"`rmlab train data.path={ELSEWHERE}/data/pool.parquet`, 3 tokens/s, a / b"})
        for name in ("scores.parquet", "model", "figure.png"):
            run.artifact(folder / name, "figures" if name == "figure.png" else None)
    return run.run_id


def everything(bundle: Bundle) -> str:
    """All that is in a bundle, as text; a table's columns and what its file says of itself."""
    import pyarrow.parquet as pq

    parts = [json.dumps([bundle.origin, bundle.experiments])]
    for entry in bundle.entries:
        parts += [repr(entry), repr(bundle.record(entry)), repr(bundle.metrics(entry))]
        for file in entry.artifacts:
            path = bundle.artifact(entry, file.path)
            table = pq.read_table(path) if path.suffix == ".parquet" else None
            parts.append(path.read_text() if table is None else f"{table.to_pydict()} {table.schema.metadata}")
    return "\n".join(parts)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{REPOSITORY}/rmlab/starter/tasks.parquet", "rmlab/starter/tasks.parquet"),
        (f"cd {REPOSITORY} && x", "cd . && x"),
        (f"{Path.home()}/data/x", "~/data/x"),
        ("path: /srv/a/rmlab/rmlab/starter/base", "path: rmlab/starter/base"),
        ("'data.path=/mnt/x/y.parquet', [/mnt/a/b,/mnt/c/d]", "'data.path=y.parquet', [b,d]"),
        ('File "/srv/a/.venv/lib/x.py", line 3', 'File ".venv/lib/x.py", line 3'),
        ("rmlab rl tracking.uri=http://me:secret@host/x seed=1", "rmlab rl tracking.uri=null seed=1"),
        ("sqlite:////srv/a/runs/mlflow.db", "sqlite:///runs/mlflow.db"),
        ("file:///srv/a/runs/x", "file://runs/x"),
        (r"one line\n/srv/a/b/c, {2: '/srv/d/e'}", r"one line\nc, {2: 'e'}"),
        ("tracking:\n  uri: postgresql://me@host/x\n  level: 1\n", "tracking:\n  uri: null\n  level: 1\n"),
        ("/srv/a/b", "b"),
        ("eval/rm_at_k, 3 tokens/s, a / b, 1/2, https://arxiv.org/abs/1, ~/x, ../y, <p>/</p>", None),
    ],
)
def test_paths_become_relative_and_other_words_stay(text: str, left: str | None) -> None:
    assert anonymous(text) == (text if left is None else left)


def test_nothing_of_the_machine_travels(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmlab.tracking.tags.platform.node", lambda: "host-of-somebody")
    monkeypatch.setenv("LOGNAME", "user-of-somebody")
    monkeypatch.setattr("sys.argv", [f"{tmp_path}/bin/rmlab", "sweep", f"data.path={tmp_path}/x.parquet"])
    track(store, tmp_path, 0)
    [run] = runs(store)
    assert run.tags["host"] == "host-of-somebody", "it is there to be left out"
    done = export_runs(store, tmp_path / "b.zip", study=True, show=False)
    assert {name.rpartition(": ")[2] for name in done.left_out} == {"model", "browse.html", "figures"}
    with open_bundle(tmp_path / "b.zip") as bundle:
        text, [entry] = everything(bundle), bundle.entries
        record = bundle.record(entry)
        assert {file.path for file in entry.artifacts} == {"config.yaml", "report.json", "scores.parquet"}
        report = json.loads(bundle.artifact(entry, "report.json").read_text())
        assert (
            bundle.artifact(entry, "config.yaml").read_text()
            == "tracking:\n  uri: null\ndata: rmlab/starter/a.parquet\n"
        )
        assert read_score_table(bundle.artifact(entry, "scores.parquet")).score.tolist() == scored(0).score.tolist()
    for word in (ELSEWHERE, "/srv", "/mnt", str(tmp_path), str(REPOSITORY), "host-of", "user-of", "sqlite:///"):
        assert word not in text
    assert report == {"path": "rmlab/starter/tasks.parquet", "auc": 0.5}
    assert record.tags["start"] == "runs/policies/x"
    assert record.tags["mlflow.source.name"] == "rmlab sweep data.path=x.parquet"
    assert record.tags["mlflow.note.content"] == "`rmlab train data.path=pool.parquet`, 3 tokens/s, a / b"
    assert json.loads(record.inputs[0]["source"]) == {"tags": {"path": "pool.parquet"}}


def test_a_record_is_made_without_the_paths_of_its_clone(store: Store, tmp_path: Path) -> None:
    from omegaconf import OmegaConf

    with RunLogger.start(store, "one", "one", kind="toy", tags={"start": f"{tmp_path}/runs/policies/x"}) as run:
        run.configuration(OmegaConf.create({"path": f"{REPOSITORY}/rmlab/starter/x", "other": "/mnt/x"}))
        run.json("a.json", [f"{REPOSITORY}/conf"])
    [found] = runs(store)
    assert found.tags["start"] == "runs/policies/x"
    assert found.artifact("config.yaml").read_text() == "path: rmlab/starter/x\nother: /mnt/x\n"
    assert json.loads(found.artifact("a.json").read_text()) == ["conf"]


def test_the_same_runs_give_the_same_bytes_and_few_more_a_run(store: Store, tmp_path: Path) -> None:
    track(store, tmp_path, 0)
    first = export_runs(store, tmp_path / "one.zip", study=True, show=False).bytes
    track(store, tmp_path, 1)
    second = export_runs(store, tmp_path / "two.zip", study=True, show=False).bytes
    export_runs(store, tmp_path / "again.zip", study=True, show=False)
    assert (tmp_path / "two.zip").read_bytes() == (tmp_path / "again.zip").read_bytes()
    assert second - first < first / 2, "what both runs hold is there once"


def test_the_newest_finished_run_of_each_cell_what_failed_beside_it_and_no_summary(
    store: Store, tmp_path: Path
) -> None:
    old, new = track(store, tmp_path, 0), track(store, tmp_path, 0)
    with RunLogger.start(store, "data_scale", "summary", kind="summary", tags=TAGS):
        pass
    for control in ("c0", "c1"):
        tags = TAGS | {"control_hash": control}
        with (
            pytest.raises(ZeroDivisionError),
            RunLogger.start(store, "data_scale", f"bad {control}", kind="verifier", tags=tags),
        ):
            _ = 1 / 0
    source = next(head for head in run_infos(store) if head.run_id == new)
    reuse = log_reuse(store, source, "data_scale", "steps", {**TAGS, "arm": "steps"}).run_id
    export_runs(store, tmp_path / "b.zip", sweep="data_scale", preset="demo", study=True, show=False)
    with open_bundle(tmp_path / "b.zip") as bundle:
        found = {run.run_id: run for run in bundle.runs()}
        bad = next(run for run in bundle.runs() if run.status == "failed")
        assert set(found) == {new, reuse, bad.run_id}
        assert (bad.name, bad.tags["error"]) == ("bad c0", "ZeroDivisionError: division by zero")
        assert "source_run" not in found[reuse].tags
        assert [run.is_reuse for run in (found[new], found[reuse])] == [False, True]
        assert (
            found[reuse].artifact("scores.parquet").read_bytes() == found[new].artifact("scores.parquet").read_bytes()
        )
    export_runs(store, tmp_path / "b.zip", [old], study=True, show=False)  # named, it is meant
    with open_bundle(tmp_path / "b.zip") as bundle:
        assert [entry.run_id for entry in bundle.entries] == [old]


def test_runs_that_share_no_figure_are_refused_until_one_kind_is_named(store: Store, tmp_path: Path) -> None:
    track(store, tmp_path, 0)
    track(store, tmp_path, 1, control_hash="c1")
    with pytest.raises(
        UsageError, match=r"do not share figures, by control hash: c1 \(1 runs\), c0 \(1 runs\)|c0 .*c1"
    ):
        export_runs(store, tmp_path / "b.zip", sweep="data_scale", study=True, show=False)
    assert export_runs(store, tmp_path / "b.zip", control="c1", study=True, show=False).runs == 1
    track(store, tmp_path, 2, preset="smoke")
    with pytest.raises(UsageError, match="a study is one sweep at one preset"):
        export_runs(store, tmp_path / "b.zip", control="c0", study=True, show=False)
    with pytest.raises(UsageError, match=r"no run to export, sweep data_scale, preset paper; sweeps in the store: "):
        export_runs(store, tmp_path / "b.zip", sweep="data_scale", preset="paper", study=True, show=False)
    for seed in (0, 1):  # single runs of no sweep
        with RunLogger.start(
            store, "policies", "p", kind="rl", tags={"config_hash": f"p{seed}", "control_hash": f"c{seed}"}
        ):
            pass
    assert export_runs(store, tmp_path / "b.zip", kind="rl", study=True, show=False).runs == 2
    with RunLogger.start(store, "collections", "c", kind="collection") as run:
        pass
    with pytest.raises(UsageError, match="none of 1 runs is a finished verifier or RL run"):
        export_runs(store, tmp_path / "b.zip", [run.run_id], study=True, show=False)


def test_it_is_listed_like_a_store_and_named_where_only_a_store_will_do(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (0, 1):
        track(store, tmp_path, seed)
    bundle = tmp_path / "b.zip"
    export_runs(store, bundle, study=True, show=False)
    list_runs(as_csv=True)
    by_store = capsys.readouterr().out
    list_runs(store=str(bundle), as_csv=True)
    assert capsys.readouterr().out == by_store.replace("/mnt/disk", "disk")
    list_runs("aa", store=str(bundle))
    assert capsys.readouterr().out == f"no runs of sweep aa in {bundle}\n"
    with pytest.raises(
        StoreError, match=r"b\.zip is a zip archive, not a store: if it is a bundle, `rmlab runs import"
    ):
        Store.open(str(bundle))


def test_it_is_imported_and_read_from_its_folder_like_any_bundle(store: Store, other: Store, tmp_path: Path) -> None:
    track(store, tmp_path, 0)
    export_runs(store, tmp_path / "b.zip", study=True, show=False)
    done = import_bundle(tmp_path / "b.zip", other, show=False)
    assert (done.added, list(done.without.values())) == (1, ["model"])
    [run] = runs(other)
    assert run.status == "finished"
    assert read_score_table(run.artifact("scores.parquet")).score.tolist() == scored(0).score.tolist()
    with open_bundle(tmp_path / "b.zip") as bundle:
        whole = everything(bundle)
        bundle._archive.extractall(tmp_path / "folder")
    assert is_bundle(tmp_path / "folder")
    with open_bundle(tmp_path / "folder") as bundle:
        assert everything(bundle) == whole
    (tmp_path / "folder" / "stranger").write_text("x")
    with pytest.raises(DataError, match="stranger"), open_bundle(tmp_path / "folder"):
        pass
    with pytest.raises(DataError, match=r"has no manifest\.json: name a bundle"), open_bundle(tmp_path / "model"):
        pass


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_one_that_was_cut_short_or_changed_is_refused(store: Store, tmp_path: Path, kept: float) -> None:
    track(store, tmp_path, 0)
    export_runs(store, tmp_path / "b.zip", study=True, show=False)
    data = (tmp_path / "b.zip").read_bytes()
    (tmp_path / "short.zip").write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(DataError, match="truncated in transfer"), open_bundle(tmp_path / "short.zip"):
        pass
    place = int(len(data) * kept * 0.9)
    (tmp_path / "changed.zip").write_bytes(data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :])
    with pytest.raises(DataError, match="Get the bundle again"), open_bundle(tmp_path / "changed.zip"):
        pass
    with zipfile.ZipFile(tmp_path / "nested.zip", "w") as archive:
        archive.writestr("runs.zip", b"no archive")
    with pytest.raises(DataError, match="is not a bundle"), open_bundle(tmp_path / "nested.zip"):
        pass


def test_a_path_behind_a_line_break_within_json_is_a_path_too() -> None:
    text = json.dumps({"log": "read\n/srv/someone/models/small", "table": "a\t/srv/someone/runs/x.csv"})
    assert "someone" not in anonymous(text)


def test_only_the_folder_of_weights_stays_behind_and_not_what_lies_beside_it() -> None:
    files = {
        "folds/1/model/config.json": 10,
        "folds/1/model/model.safetensors": 1000,
        "folds/1/selection.json": 5,
        "folds/1/validation_scores.parquet": 7,
        "model/config.json": 10,
        "model/parts/model.safetensors": 1000,
        "model/model.safetensors": 1000,
        "browse.html": 3,
        "report.json": 2,
    }
    assert weights(files) == {"folds/1/model": 1010, "model": 2010}
    assert left_out(files) == {"folds/1/model": 1010, "model": 2010, "browse.html": 3}


def test_scores_that_no_figure_reads_stay_behind_and_their_reports_travel() -> None:
    files = {f"{name}_{kind}": 7 for name in ("validation", "after_rl") for kind in ("scores.parquet", "report.json")}
    figures_read = {"scores.parquet": 9, "report.json": 2, "policy_identity_scores.parquet": 5}
    assert left_out(files | figures_read) == {"validation_scores.parquet": 7, "after_rl_scores.parquet": 7}
