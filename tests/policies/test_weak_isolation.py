"""Where only resource limits keep programs in: what is collected, trained and refused there, and what the runs record."""

import json
from pathlib import Path

import pytest

from rmlab.configuration import load_program
from rmlab.errors import RmlabError
from rmlab.microswe.loading import LoadedTasks
from rmlab.microswe.task import write_tasks
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store
from rmlab.trajectories.store import TrajectorySet, read_trajectories, write_trajectories

REFUSED = (
    r"no seccomp \(not in this test\)\. sandbox\.allow_weak=true runs model-written code with resource limits alone"
)


@pytest.fixture
def tasks(tmp_path: Path, starter_tasks: LoadedTasks) -> Path:
    write_tasks(tmp_path / "tasks.parquet", starter_tasks.part("validation")[:4], {})
    return tmp_path / "tasks.parquet"


@pytest.fixture
def collection(tmp_path: Path, tasks: Path) -> list[str]:
    none = [f"parts.{part}.tasks=0" for part in ("supervised", "verifier", "evaluation")]
    some = ["parts.validation={policies: [], tasks: 2, attempts: 1}", "progress=false", "workers=1"]
    return [*none, *some, f"tasks={tasks}", f"output={tmp_path / 'made.parquet'}"]


def test_scripts_are_collected_and_the_run_and_the_set_say_at_which_level(
    collection: list[str], runs_folder: Path, tmp_path: Path, weak_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    load_program("collect").main([*collection, "policy=[hasty]"])
    (run,) = runs(Store.open(), ["collections"])
    assert run.tags["isolation"].startswith("limits: rlimits, as ")
    assert read_trajectories(tmp_path / "made.parquet").metadata["isolation"] == run.tags["isolation"]
    assert capsys.readouterr().err.count("warning: code runs with resource limits alone") == 1


def test_a_language_model_is_collected_only_where_that_is_asked_for(
    collection: list[str], base_folder: Path, runs_folder: Path, tmp_path: Path, weak_machine: None
) -> None:
    model = ["policy=[language]", f"language.language.model={base_folder}", "language.language.device=cpu"]
    arguments = [*collection, *model, "language.language.max_action_tokens=4", "language.language.engine.capacity=448"]
    with pytest.raises(RmlabError, match=REFUSED):
        load_program("collect").main(arguments)
    assert not (tmp_path / "made.parquet").exists()
    load_program("collect").main([*arguments, "sandbox.allow_weak=true"])
    (run,) = runs(Store.open(), ["collections"])
    assert run.tags["isolation"].startswith("limits: ")


def test_a_policy_is_measured_only_where_that_is_asked_for(
    base_folder: Path, few_attempts: TrajectorySet, runs_folder: Path, tmp_path: Path, tasks: Path, weak_machine: None
) -> None:
    write_trajectories(tmp_path / "demonstrations.parquet", few_attempts.trajectories[:8])
    arguments = [
        "model=path", f"model.pretrained={base_folder}", f"demonstrations.paths=[{tmp_path / 'demonstrations.parquet'}]",
        "demonstrations.capacity=320", f"tasks={tasks}", f"output={tmp_path / 'policy'}", "runtime=cpu",
        "runtime.progress=false", "training.threads=1", "training.epochs=1", "engine.capacity=448", "held_out.tasks=1",
        "held_out.attempts=1", "held_out.max_action_tokens=4", "held_out.parts=[validation]", "workers=1",
    ]  # fmt: skip
    with pytest.raises(RmlabError, match=REFUSED):
        load_program("train_policy").main(arguments)
    assert not (tmp_path / "policy").exists()
    load_program("train_policy").main([*arguments, "sandbox.allow_weak=true"])
    (run,) = runs(Store.open(), ["policies"])
    assert run.tags["isolation"].startswith("limits: ")
    assert json.loads((tmp_path / "policy" / "policy.json").read_text())["isolation"] == run.tags["isolation"]
