import math
import os
import shutil
from pathlib import Path

import pytest

from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.reuse import log_reuse
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import cell_runs
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
    with RunLogger.start(
        store,
        "data_scale",
        "data_scale=2000 s1",
        kind="verifier",
        params={"seed": 1, "data_scale": 2000},
        tags={"config_hash": "abc", "sweep": "data_scale", "preset": "demo"},
    ) as run:
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
    with RunLogger.start(
        store, "policies", "grpo", kind="policy", params={"verifier": run.run_id}, tags={"verifier_run": run.run_id}
    ):
        pass
    with RunLogger.start(
        store, "data_scale", "better", kind="verifier", tags={"replaces": f"{run.run_id} {'f' * 32}"}
    ) as better:
        pass
    run.tags({"replaced_by": better.run_id})
    with (
        pytest.raises(ZeroDivisionError),
        RunLogger.start(store, "data_scale", "bad", kind="verifier", tags={"sweep": "data_scale"}),
    ):
        _ = 1 / 0
    export_runs(store, tmp_path / "all.zip", show=False)
