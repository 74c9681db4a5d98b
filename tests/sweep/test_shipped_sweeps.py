"""Every shipped sweep runs at preset smoke, each cell as a tracked run, on a small part of the shipped attempts."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from analysis.studies.planned_cells import planned_cells
from rmlab.configuration import compose, load_program
from rmlab.fingerprint import hashed_values
from rmlab.paths import REPOSITORY, STARTER, SWEEPS
from rmlab.selection.pool import read_index
from rmlab.selection.select import check_fill
from rmlab.sweep.plan import expand
from rmlab.sweep.spec import read_sweep
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store
from rmlab.trajectories.store import TrajectorySet, read_trajectories, write_trajectories

TASKS_OF = {"supervised": 8, "verifier": 16, "validation": 2, "evaluation": 2}  # of each source


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few tasks of every part and source, with all their attempts."""
    whole = read_trajectories(STARTER / "trajectories.parquet")
    taken: Counter[tuple[str | None, str]] = Counter()
    kept: set[str] = set()
    for task, part, source in dict.fromkeys((t.task_id, t.split, t.source) for t in whole.trajectories):
        if taken[part, source] < TASKS_OF[str(part)]:
            taken[part, source] += 1
            kept.add(task)
    path = tmp_path_factory.mktemp("few") / "trajectories.parquet"
    pool: TrajectorySet = write_trajectories(path, [t for t in whole.trajectories if t.task_id in kept], whole.metadata)
    assert len(pool) > 500
    return path


@pytest.fixture(scope="session")
def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One runs folder for all of them: tokenizer, token ids and baselines are made once."""
    return tmp_path_factory.mktemp("runs")


OF_VERIFIERS = sorted(
    path.stem
    for path in SWEEPS.glob("*.yaml")
    if "factor:" in path.read_text() and "program: train_verifier" in path.read_text()
)


def test_the_one_verifier_of_the_readme_is_a_cell_of_the_demo() -> None:
    (line,) = re.findall(
        r"^rmlab train (preset=demo [^#]*)", (REPOSITORY / "README.md").read_text(encoding="utf-8"), re.M
    )
    config = compose("train_verifier", line.split())
    cells = {cell.name: cell for cell in planned_cells(read_sweep("data_scale", "demo"))}
    assert hashed_values(config) == hashed_values(cells["data_scale=1000 s1"].config)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["demo", "small"])
@pytest.mark.parametrize("name", OF_VERIFIERS)
def test_the_shipped_attempts_fill_every_level(name: str, preset: str) -> None:
    """Where a level labels by fewer tests, whose labels are not in the file, the names and the total are held against all tests'."""
    cells = planned_cells(read_sweep(name, preset, {"seeds": [0]}))
    asked = {str(cell.config.data): cell.config.data for cell in cells}
    assert asked
    for data in asked.values():
        check_fill(read_index(data.path).rows, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_VERIFIERS)
def test_a_shipped_sweep_runs_at_smoke(
    name: str, few: Path, shared_runs: Path, empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(shared_runs))
    store = f"sqlite:///{shutil.copy(empty_database, tmp_path / 'mlflow.db')}"  # of its own: finished cells of others do not count
    spec = read_sweep(name, "smoke", {"seeds": read_sweep(name, "smoke").seeds[:2]})
    program = load_program(spec.program)
    small = [
        f"data.path={few}",
        "evaluation.tasks=4",
        "evaluation.validation_tasks=2",
        "evaluation.replicates=20",
        "runtime.progress=false",
        f"tracking.uri={store}",
    ]
    if not any(factor.owns_key("data.scale") for factor in spec.factors):
        small.append("data.scale=64")
    cells = expand(spec, small, compose, program.identity)
    program.prepare([cell.config for cell in cells])
    for key, cell in {cell.identity.config_hash: cell for cell in cells}.items():
        program.run(cell.config)
        assert program.identity(cell.config).config_hash == key, "the same hash cold and warm"
    found = runs(Store.open(store), [name])
    assert {run.name for run in found} <= {cell.name for cell in cells}
    assert (
        len({run.tags["config_hash"] for run in found})
        == len({cell.identity.config_hash for cell in cells})
        == len(found)
    )
    assert {run.tags["control_hash"] for run in found} == {cells[0].identity.control_hash}
    assert {run.tags["status"] for run in found} == {"finished"}
    assert all("eval/score_rate" in run.metrics for run in found)


@pytest.mark.parametrize("preset", ["demo", "small"])
def test_a_mixture_of_experts_is_not_given_passes_of_tokens(preset: str) -> None:
    """Its training refuses them: the balance loss depends on how a batch is cut."""
    spec = read_sweep("architecture", preset)
    for level in spec.levels:
        config = compose(spec.program, [*spec.overrides, f"model={level}"])
        assert not config.model.experts or config.runtime.micro_batch_tokens is None, level
