import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmlab.configuration import load_program
from rmlab.errors import DataError, RmlabError, StoreError, UsageError
from rmlab.paths import REPOSITORY
from rmlab.tracking.bundles import importing
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.bundles.importing import import_bundle
from rmlab.tracking.bundles.reading import is_bundle, open_bundle
from rmlab.tracking.heads import cell_runs, run_heads
from rmlab.tracking.query import get_run, log_reuse, runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store


@pytest.fixture
def other(tmp_path: Path, empty_database: Path) -> Store:
    """Another machine's store."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mlflow.db").write_bytes(empty_database.read_bytes())
    return Store.open(str(tmp_path / "other" / "mlflow.db"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Path:
    """A folder with a store and the bundle of its runs: one with everything a run may have, one that reuses it, a policy that
    names it, a failed one. Made once; tests have copies."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "mlflow.db").write_bytes(empty_database.read_bytes())
    fill(Store.open(str(folder / "mlflow.db")), folder)
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A copy of the store, whose runs' artifacts stay where they were made."""
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    shutil.copy(made / "mlflow.db", tmp_path)
    return Store.open()


@pytest.fixture
def bundle(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    return Path(shutil.copy(made / "all.zip", tmp_path))


def fill(store: Store, tmp_path: Path) -> None:
    (tmp_path / "model" / "parts").mkdir(parents=True)
    (tmp_path / "model" / "verifier.json").write_text("{}")
    (tmp_path / "model" / "parts" / "model.safetensors").write_bytes(os.urandom(3000))
    with RunLogger.start(store, "data_scale", "data_scale=2000 s1", kind="verifier", params={"seed": 1, "data_scale": 2000},
                         tags={"config_hash": "abc", "sweep": "data_scale", "preset": "demo"}) as run:
        for step in range(1200):  # more than one batch
            run.metric("train/loss", 1 / (step + 1), step)
        run.metrics({"eval/auc": 0.75, "odd/nan": math.nan, "odd/most": math.inf})
        run.metric("eval/rm_at_k", 0.2, 1)
        run.metric("eval/rm_at_k", 0.3, 8)
        run.json("report.json", {"auc_pooled": 0.8})
        run.artifact(tmp_path / "model")
        run.dataset("starter", "a" * 16, "training", {"path": "trajectories.parquet"}, {"trajectories": 2000})
        run.tags({"mlflow.note.content": "# A note\n\n| a |\n|---|\n"})
    log_reuse(store, cell_runs(store).finished["abc"], "label_ratio", "label_ratio=1:1 s1", {"sweep": "label_ratio"})
    with RunLogger.start(store, "policies", "grpo", kind="policy", params={"verifier": run.run_id}, tags={"verifier_run": run.run_id}):
        pass
    with RunLogger.start(store, "data_scale", "better", kind="verifier", tags={"replaces": f"{run.run_id} {'f' * 32}"}) as better:
        pass
    run.tags({"replaced_by": better.run_id})
    with pytest.raises(ZeroDivisionError), RunLogger.start(store, "data_scale", "bad", kind="verifier", tags={"sweep": "data_scale"}):
        _ = 1 / 0
    export_runs(store, tmp_path / "all.zip", show=False)


def contents(store: Store) -> dict[str, object]:
    """All that is known of each run, but ids and the tags of the journey."""
    names = {run.run_id: run.name for run in runs(store)} | {
        run.tags["imported_run"]: run.name for run in runs(store) if "imported_run" in run.tags}

    def named(text: str) -> str:
        return re.sub("[0-9a-f]{32}", lambda found: names.get(found[0], found[0]), text)

    found: dict[str, object] = {}
    for run in runs(store):
        whole = store.client.get_run(run.run_id)
        inputs = [(i.dataset.name, i.dataset.digest, i.dataset.source, i.dataset.profile, [(t.key, t.value) for t in i.tags])
                  for i in whole.inputs.dataset_inputs]
        folder = run.folder()
        assert folder is not None
        files = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        series = {name: [(m.step, repr(m.value), m.timestamp) for m in store.client.get_metric_history(run.run_id, name)]
                  for name in run.metrics}
        tags = {k: named(v) for k, v in whole.data.tags.items() if k not in ("imported_run", "imported_at")}
        found[run.name] = (whole.info.status, run.start_time, run.end_time, {k: named(v) for k, v in run.params.items()},
                           tags, series, inputs, files, store.client.get_experiment(run.experiment_id).name)
    return found


def test_all_of_a_run_arrives_once_and_is_found_as_finished(store: Store, other: Store, bundle: Path) -> None:
    done = import_bundle(bundle, other, show=False)
    assert (done.added, done.there, done.without) == (5, 0, {})
    assert contents(other) == contents(store)
    assert "nan" in str(contents(other)["data_scale=2000 s1"])
    before = [(head.run_id, sorted(head.tags.items())) for head in run_heads(other)]
    again = import_bundle(bundle, other, show=False)
    assert (again.added, again.completed, again.there) == (0, 0, 5)
    assert [(head.run_id, sorted(head.tags.items())) for head in run_heads(other)] == before

    here = {run.name: run for run in runs(other)}
    verifier = here["data_scale=2000 s1"]
    assert cell_runs(other).finished["abc"].run_id == verifier.run_id
    assert here["label_ratio=1:1 s1"].tags["source_run"] == verifier.run_id
    assert here["grpo"].tags["verifier_run"] == here["grpo"].params["verifier"] == verifier.run_id
    assert json.loads(here["label_ratio=1:1 s1"].artifact("report.json").read_text()) == {"auc_pooled": 0.8}
    assert get_run(other, verifier.tags["imported_run"]).run_id == verifier.run_id, "found by the id that it had, too"
    assert here["better"].tags["replaces"] == f"{verifier.run_id} {'f' * 32}"
    assert verifier.tags["replaced_by"] == here["better"].run_id
    assert here["bad"].status == "failed"


def test_back_where_they_come_from_nothing_is_added(store: Store, other: Store, bundle: Path, tmp_path: Path) -> None:
    before = contents(store)
    assert import_bundle(bundle, store, show=False).there == 5
    import_bundle(bundle, other, show=False)
    export_runs(other, tmp_path / "back.zip", show=False)
    assert import_bundle(tmp_path / "back.zip", store, show=False).there == 5
    assert contents(store) == before
    reuse = log_reuse(other, cell_runs(other).finished["abc"], "third", "third", {})
    assert not {"imported_run", "imported_at"} & reuse.tags.keys(), "a reuse was made here"


KILLED = """
import os, signal, sys
from pathlib import Path
from rmlab.tracking.bundles import importing
from rmlab.tracking.store import Store
left = [int(sys.argv[3])]
original = Store.call
def call(self, request, patience=60.0):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(self, request, patience)
Store.call = call
importing.import_bundle(Path(sys.argv[1]), Store.open(sys.argv[2]), show=False)
"""


@pytest.mark.parametrize("requests", [4, 9, 13, 17])
def test_an_interrupted_import_goes_on_and_nothing_half_written_is_finished(
        store: Store, other: Store, bundle: Path, requests: int) -> None:
    database = other.uri.removeprefix("sqlite:///")
    process = subprocess.run([sys.executable, "-c", KILLED, str(bundle), database, str(requests)], cwd=REPOSITORY,
                             env=dict(os.environ), check=False)
    assert process.returncode == -signal.SIGKILL
    whole = contents(store)
    half = {run.name: run for run in runs(other)}
    assert half, "it was killed in the middle"
    for name, run in half.items():
        if "imported_at" not in run.tags:
            assert run.status == "running"
            assert "config_hash" not in run.tags
        else:
            assert contents(other)[name][5] == whole[name][5]  # type: ignore[index]
    done = import_bundle(bundle, other, show=False)
    assert done.added + done.there == 5
    assert contents(other) == whole


def test_models_stay_behind_are_named_and_can_follow(store: Store, other: Store, bundle: Path, tmp_path: Path) -> None:
    done = export_runs(store, tmp_path / "light.zip", models=False, show=False)
    [(name, size)] = done.left_out.items()
    assert name.startswith("data_scale=2000 s1 (")
    assert name.endswith("): model")
    assert size == 3002
    light = import_bundle(tmp_path / "light.zip", other, show=False)
    assert list(light.without.values()) == ["model"]
    [run] = [run for run in runs(other) if run.name == "data_scale=2000 s1"]
    assert run.artifact("report.json").exists()
    model_folder = load_program("score").model_folder
    for run_id in (run.run_id, run.tags["imported_run"]):
        with pytest.raises(StoreError, match=r"it was left out when the run was exported from .* again without --without-models"):
            model_folder(run_id, other.uri)
    export_runs(other, tmp_path / "lighter.zip", show=False)
    assert list(import_bundle(tmp_path / "lighter.zip", other, show=False).without.values()) == ["model"], "still known two bundles later"
    full = import_bundle(bundle, other, show=False)
    assert (full.added, full.completed, full.there, full.without) == (0, 1, 4, {})
    assert (model_folder(run.run_id, other.uri) / "parts" / "model.safetensors").stat().st_size == 3000
    assert contents(other) == contents(store)


def test_what_is_exported_is_what_was_meant(store: Store, bundle: Path, tmp_path: Path) -> None:
    def names(*run_ids: str, **chosen: str) -> set[str]:
        export_runs(store, tmp_path / "some.zip", run_ids, show=False, **chosen)  # type: ignore[arg-type]
        with open_bundle(tmp_path / "some.zip") as opened:
            return {entry.name for entry in opened.entries}

    assert names(sweep="label_ratio") == {"label_ratio=1:1 s1", "data_scale=2000 s1"}, "the run that is reused comes along"
    assert names(kind="policy") == {"grpo"}
    [policy] = [run.run_id for run in runs(store) if run.name == "grpo"]
    assert names(policy[:10]) == {"grpo"}
    under_way = RunLogger.start(store, "data_scale", "under way", kind="verifier")
    assert export_runs(store, tmp_path / "some.zip", show=False).running == ["under way"]
    with pytest.raises(UsageError, match="under way: export it when it has ended"):
        names(under_way.run_id)
    with pytest.raises(UsageError, match=r"no run to export, sweep data_scal .*: data_scale, label_ratio"):
        names(sweep="data_scal")
    with pytest.raises(UsageError, match="'x' is the beginning of 0 run ids"):
        names("x")
    with pytest.raises(UsageError, match="not both"):
        names(policy, sweep="data_scale")


def test_the_same_runs_give_the_same_bytes_but_for_the_date(store: Store, bundle: Path, tmp_path: Path) -> None:
    export_runs(store, tmp_path / "again.zip", show=False)
    with zipfile.ZipFile(bundle) as one, zipfile.ZipFile(tmp_path / "again.zip") as two:
        assert one.namelist() == two.namelist()
        assert all(one.read(name) == two.read(name) for name in one.namelist() if name != "manifest.json")


def rewritten(bundle: Path, change: Callable[[str, bytes], Iterator[tuple[zipfile.ZipInfo | str, bytes]]]) -> Path:
    """A bundle whose members went through `change`."""
    target = bundle.with_name("changed.zip")
    with zipfile.ZipFile(bundle) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for name in source.namelist():
            for new, data in change(name, source.read(name)):
                out.writestr(new, data)
    return target


def test_a_changed_file_is_found_before_anything_is_written(other: Store, bundle: Path) -> None:
    def change(name: str, data: bytes) -> Iterator[tuple[zipfile.ZipInfo | str, bytes]]:
        yield name, data.replace(b"0.8", b"0.9") if name.endswith("report.json") else data

    with pytest.raises(DataError, match=r"report\.json is not the file that was exported"):
        import_bundle(rewritten(bundle, change), other, show=False)
    assert run_heads(other) == []


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_a_bundle_that_was_cut_short_is_refused(other: Store, bundle: Path, kept: float) -> None:
    data = bundle.read_bytes()
    bundle.write_bytes(data[:int(len(data) * kept)])
    with pytest.raises(DataError, match="cut short on its way"):
        import_bundle(bundle, other, show=False)


def a_link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o120777 << 16
    return info


@pytest.mark.parametrize("name", ["../../evil", "/etc/evil", "runs/../../evil", "runs\\..\\evil", "runs//evil", "C:/../evil", "a\nb",
                                  "x" * 300, "extra", "runs/link"])
def test_names_that_lead_out_links_and_strangers_are_refused(other: Store, bundle: Path, name: str) -> None:
    def change(old: str, data: bytes) -> Iterator[tuple[zipfile.ZipInfo | str, bytes]]:
        yield old, data
        if old == "manifest.json":
            yield a_link(name) if "link" in name else name, b"evil"

    with pytest.raises(DataError, match=r"is no name for a file|is no plain file|has too long a name|bytes in the archive and no by"):
        import_bundle(rewritten(bundle, change), other, show=False)
    assert run_heads(other) == []


@pytest.mark.parametrize(("change", "words"), [
    (lambda m: m["runs"][0]["artifacts"][0].update(path="../../../evil"), "bytes in the archive"),
    (lambda m: m["runs"][0].update(run_id="../evil"), "is no run id"),
    (lambda m: m["runs"][0].update(experiment="a/b"), "cannot name an experiment"),
    (lambda m: m["runs"][0]["record"].update(sha256="x"), "has no SHA-256"),
    (lambda m: m["runs"].append(m["runs"][0]), "a run is listed twice"),
    (lambda m: m["runs"].pop(), "bytes in the archive and no by the manifest"),
    (lambda m: m.update(version=2), "version 2; this rmlab reads rmlab-bundle 1"),
    (lambda m: m.pop("runs"), "does not hold what it has to: KeyError"),
])
def test_a_manifest_that_says_what_is_not_so_is_refused(
        other: Store, bundle: Path, change: Callable[[dict[str, object]], object], words: str) -> None:
    def through(name: str, data: bytes) -> Iterator[tuple[zipfile.ZipInfo | str, bytes]]:
        if name == "manifest.json":
            manifest = json.loads(data)
            change(manifest)
            data = json.dumps(manifest).encode()
        yield name, data

    with pytest.raises(DataError, match=words) as caught:
        import_bundle(rewritten(bundle, through), other, show=False)
    assert "\n" not in str(caught.value)
    assert run_heads(other) == []


def test_other_files_are_no_bundles(other: Store, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("hello", "hello")
    for name, words in (("text", "is no bundle"), ("zip", "has no manifest.json"), ("nothing", "no such file")):
        with pytest.raises(DataError, match=words):
            import_bundle(tmp_path / name, other, show=False)
    assert not is_bundle(tmp_path / "text")
    assert not is_bundle(Path(other.uri.removeprefix("sqlite:///")))


def test_a_disk_without_room_is_said_before_anything_is_written(other: Store, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing.shutil, "disk_usage", lambda _: os.terminal_size((0, 0)) and type("Usage", (), {"free": 10}))
    with pytest.raises(RmlabError, match=r"unpacks to .* has room for 0\.0 GB"):
        import_bundle(bundle, other, show=False)
    assert run_heads(other) == []


def test_an_artifact_that_is_a_link_is_not_followed(store: Store, tmp_path: Path) -> None:
    with RunLogger.start(store, "linked", "linked", kind="verifier") as run:
        run.text("plain", "plain")
    folder = get_run(store, run.run_id).folder()
    assert folder is not None
    (folder / "secret").symlink_to("/etc/passwd")
    with pytest.raises(RmlabError, match="is a link"):
        export_runs(store, tmp_path / "linked.zip", show=False)
    assert not (tmp_path / "linked.zip").exists()
