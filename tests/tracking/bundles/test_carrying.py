"""Runs go from one store to another, whole, once."""

import json
import os
import re
import signal
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmlab.errors import StoreError, UsageError
from rmlab.scratch import LOCKED
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.bundles.importing import import_bundle
from rmlab.tracking.bundles.opening import open_bundle
from rmlab.tracking.query import get_run, runs
from rmlab.tracking.references import find_artifact
from rmlab.tracking.reuse import log_reuse
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import cell_runs, run_infos
from rmlab.tracking.store import Store
from tests.forked import exit_code


def contents(store: Store) -> dict[str, object]:
    """All that is known of each run, but ids and the tags of the journey."""
    names = {run.run_id: run.name for run in runs(store)} | {
        run.tags["imported_run"]: run.name for run in runs(store) if "imported_run" in run.tags
    }

    def named(text: str) -> str:
        return re.sub("[0-9a-f]{32}", lambda found: names.get(found[0], found[0]), text)

    found: dict[str, object] = {}
    for run in runs(store):
        whole = store.client.get_run(run.run_id)
        inputs = [
            (i.dataset.name, i.dataset.digest, i.dataset.source, i.dataset.profile, [(t.key, t.value) for t in i.tags])
            for i in whole.inputs.dataset_inputs
        ]
        folder = run.folder()
        assert folder is not None
        files = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        series = {
            name: [(m.step, repr(m.value), m.timestamp) for m in store.client.get_metric_history(run.run_id, name)]
            for name in run.metrics
        }
        tags = {k: named(v) for k, v in whole.data.tags.items() if k not in ("imported_run", "imported_at")}
        found[run.name] = (
            whole.info.status,
            run.start_time,
            run.end_time,
            {k: named(v) for k, v in run.params.items()},
            tags,
            series,
            inputs,
            files,
            store.client.get_experiment(run.experiment_id).name,
        )
    return found


def test_all_of_a_run_arrives_once_and_is_found_as_finished(store: Store, other: Store, bundle: Path) -> None:
    done = import_bundle(bundle, other, show=False)
    assert (done.added, done.there, done.without) == (5, 0, {})
    assert contents(other) == contents(store)
    assert "nan" in str(contents(other)["data_scale=2000 s1"])
    before = [(head.run_id, sorted(head.tags.items())) for head in run_infos(other)]
    again = import_bundle(bundle, other, show=False)
    assert (again.added, again.completed, again.there) == (0, 0, 5)
    assert [(head.run_id, sorted(head.tags.items())) for head in run_infos(other)] == before

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


def import_and_die(bundle: Path, database: str, requests: int) -> None:
    """Imports, and is killed at the request to the store that comes after so many."""
    left, call = [requests], Store.call

    def counted(store: Store, request: Callable[[], Any], patience: float = 60.0) -> Any:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(store, request, patience)

    Store.call = counted  # type: ignore[assignment,method-assign]
    import_bundle(bundle, Store.open(database), show=False)


@pytest.mark.parametrize("requests", [9, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 13, 17))])
def test_an_interrupted_import_goes_on_and_nothing_half_written_is_finished(
    store: Store, other: Store, bundle: Path, requests: int
) -> None:
    database = other.uri.removeprefix("sqlite:///")
    assert exit_code(import_and_die, bundle, database, requests) == -signal.SIGKILL
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
    for run_id in (run.run_id, run.tags["imported_run"]):
        with pytest.raises(
            StoreError, match=r"came from a bundle without weights\. To train it again: .* with --force\. Or"
        ):
            find_artifact(run_id, "model", other.uri)
    export_runs(other, tmp_path / "lighter.zip", show=False)
    assert list(import_bundle(tmp_path / "lighter.zip", other, show=False).without.values()) == ["model"], (
        "still known two bundles later"
    )
    full = import_bundle(bundle, other, show=False)
    assert (full.added, full.completed, full.there, full.without) == (0, 1, 4, {})
    assert (find_artifact(run.run_id, "model", other.uri) / "parts" / "model.safetensors").stat().st_size == 3000
    assert contents(other) == contents(store)


def test_what_is_exported_is_what_was_meant(store: Store, bundle: Path, tmp_path: Path) -> None:
    def names(*run_ids: str, **chosen: str) -> set[str]:
        export_runs(store, tmp_path / "some.zip", run_ids, show=False, **chosen)  # type: ignore[arg-type]
        with open_bundle(tmp_path / "some.zip") as opened:
            return {entry.name for entry in opened.entries}

    assert names(sweep="label_ratio") == {"label_ratio=1:1 s1", "data_scale=2000 s1"}, (
        "the run that is reused comes along"
    )
    assert names(kind="policy") == {"grpo"}
    [policy] = [run.run_id for run in runs(store) if run.name == "grpo"]
    assert names(policy[:10]) == {"grpo"}
    under_way = RunLogger.start(store, "data_scale", "under way", kind="verifier")
    assert export_runs(store, tmp_path / "some.zip", show=False).running == ["under way"]
    with pytest.raises(UsageError, match="under way is still running: export it when it has ended"):
        names(under_way.run_id)
    with pytest.raises(UsageError, match=r"no run to export, kind benchmark that has ended \(1 run still running\)"):
        RunLogger.start(store, "data_scale", "timing", kind="benchmark")
        names(kind="benchmark")
    with pytest.raises(
        UsageError, match=r"no run to export, sweep data_scal; sweeps in the store: data_scale, label_ratio"
    ):
        names(sweep="data_scal")
    with pytest.raises(UsageError, match=r"'x' is the beginning of no run's id.*whole sweeps are named with --sweep"):
        names("x")
    with pytest.raises(UsageError, match="not both"):
        names(policy, sweep="data_scale")


def test_the_same_runs_give_the_same_bytes_but_for_the_date(store: Store, bundle: Path, tmp_path: Path) -> None:
    export_runs(store, tmp_path / "again.zip", show=False)
    with zipfile.ZipFile(bundle) as one, zipfile.ZipFile(tmp_path / "again.zip") as two:
        assert one.namelist() == two.namelist()
        assert all(one.read(name) == two.read(name) for name in one.namelist() if name != "manifest.json")


def test_what_is_unpacked_lies_where_a_later_process_removes_it(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where this one ends at once (`rmlab.scratch`)."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with open_bundle(bundle) as opened:
        run = opened.runs()[0]
        run.artifact(run.owner.artifacts[0].path)
        [folder] = (tmp_path / "temporary").iterdir()
        assert folder.name.startswith(LOCKED)
    assert not folder.exists()
