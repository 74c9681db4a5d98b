"""A cell that came finished in a bundle, without its weights, is finished for a sweep: each machine goes on where another one stopped."""

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from rmlab.errors import MissingArtifact
from rmlab.launchers.jobs import Event, JobQueue
from rmlab.paths import REPOSITORY
from rmlab.sweep.dry_run import description, redo_rule, runs_without_weights, weights_words
from rmlab.sweep.plan import Cell
from rmlab.sweep.request import Plan, make_plan
from rmlab.sweep.scheduler import SweepOutcome, run_cells
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.bundles.importing import import_bundle
from rmlab.tracking.config import sweep_params, sweep_tags
from rmlab.tracking.query import runs
from rmlab.tracking.references import find_artifact
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import cell_runs
from rmlab.tracking.store import Store
from tests.sweeping import sweep_here
from tests.verifiers.examples import write_pool

TOY = REPOSITORY / "tests" / "sweep" / "toy" / "toy_scale.yaml"


class Recording:
    """A launcher that trains what it is given in no time, as a verifier's run with a model and a score table."""

    def __init__(self, store: Store, cells: Sequence[Cell]) -> None:
        self.store, self.cells = store, {cell.identity.config_hash: cell for cell in cells}
        self.trained: list[str] = []

    def run(self, queue: JobQueue, preload: Sequence[str]) -> Generator[Event | None]:
        while (job := queue.next()) is not None:
            assert job.planned is not None
            self.trained.append(job.name)
            train(self.store, self.cells[job.planned])
            yield Event(job, "finished")


def train(store: Store, cell: Cell) -> None:
    where = cell.config.tracking
    tags = {**sweep_tags(where), "config_hash": cell.identity.config_hash, "control_hash": cell.identity.control_hash}
    params = {"seed": cell.seed, **sweep_params(where)}
    with RunLogger.start(store, where.experiment, cell.name, kind="verifier", tags=tags, params=params) as run:
        run.metric("eval/auc_pooled", 0.5 + cell.seed / 10)
        run.text("model/verifier.json", "{}")
        run.text("model/model.safetensors", "weights")
        run.text("scores.csv", f"scores of {cell.name}")


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_database: Path) -> dict[str, Store]:
    """Two machines and home, by name; `RMLAB_RUNS` is that of the one that was used last."""

    class Machines(dict[str, Store]):
        def __getitem__(self, name: str) -> Store:
            monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / name))
            if not (tmp_path / name).exists():
                (tmp_path / name).mkdir()
                (tmp_path / name / "mlflow.db").write_bytes(empty_database.read_bytes())
            return Store.open()

    return Machines()


def plan(*arguments: str, name: str = str(TOY)) -> Plan:
    return make_plan(name, arguments, "rmlab sweep")


def carried(store: Store, bundle: Path, sweep: str = "toy_scale") -> Path:
    export_runs(store, bundle, sweep=sweep, study=True, show=False)
    return bundle


def run(made: Plan, store: Store) -> tuple[list[str], SweepOutcome]:
    """Which cells were trained, and what became of the sweep."""
    launcher = Recording(store, made.cells)
    return launcher.trained, run_cells(made.cells, store, launcher)


def test_a_bare_machine_trains_only_what_no_bundle_has(machines: dict[str, Store], tmp_path: Path) -> None:
    part, whole = plan("preset=one_arm", "levels=[1,2]"), plan("preset=one_arm")
    trained, _ = run(part, machines["first"])
    assert len(trained) == 4
    bundle = carried(machines["first"], tmp_path / "first.zip")

    done = import_bundle(bundle, second := machines["second"], show=False)
    assert done.added == 4
    assert all(left == "model" for left in done.without.values())
    said = description(whole.cells, second, retry_failed=False, redo=redo_rule(None, stale=False))
    assert "4 of 6 runs finished, 2 to run" in said
    assert said.count(", without weights") == 4
    words = "4 of 6 cells are finished without weights in this store; to train them here: rmlab sweep x --rerun-without-weights"
    assert weights_words(whole.cells, second, "rmlab sweep x") == words
    assert not weights_words(whole.cells, machines["first"], "rmlab sweep x")
    machines["second"]
    trained, outcome = run(whole, second)
    assert sorted(trained) == ["data_scale=3 s0", "data_scale=3 s1"]
    assert (outcome.ran, outcome.failed, outcome.left) == (2, [], [])
    assert len(runs(second, ["toy_scale"])) == 6, "what is there under its own name is not logged again"
    key = whole.cells[0].identity.config_hash
    with pytest.raises(
        MissingArtifact,
        match=r"came from a bundle without weights.* --rerun-without-weights`.* Or .* without --without-models and --study",
    ):
        find_artifact(key, "model")
    assert find_artifact(key, "scores.csv").read_text() == "scores of data_scale=1 s0"

    # And home again, where the first four are already.
    home = machines["home"]
    import_bundle(bundle, home, show=False)
    done = import_bundle(carried(machines["second"], tmp_path / "second.zip"), machines["home"], show=False)
    assert (done.added, done.there) == (2, 4)
    assert sorted(run.name for run in runs(home)) == sorted(cell.name for cell in whole.cells)
    assert len(cell_runs(home).finished) == 6


def test_a_cell_of_another_sweep_s_bundle_is_reused_and_travels_on(machines: dict[str, Store], tmp_path: Path) -> None:
    run(plan("preset=one_arm", "levels=[2]"), machines["first"])
    first = carried(machines["first"], tmp_path / "first.zip")
    import_bundle(first, second := machines["second"], show=False)
    (tmp_path / "other.yaml").write_text(TOY.read_text().replace("toy.py", str(TOY.with_name("toy.py"))))
    other = plan("preset=one_arm", "levels=[1,2]", name=str(tmp_path / "other.yaml"))
    trained, outcome = run(other, second)
    assert (sorted(trained), outcome.ran) == (["data_scale=1 s0", "data_scale=1 s1"], 2)
    assert outcome.left == []

    both = carried(machines["second"], tmp_path / "both.zip", "other")
    third = machines["third"]
    import_bundle(both, third, show=False)
    assert run(other, third)[0] == []
    assert find_artifact(other.cells[2].identity.config_hash, "scores.csv").read_text() == "scores of data_scale=2 s0"
    reused = next(run for run in runs(third) if run.name == "data_scale=2 s0")
    assert reused.is_reuse, "its times are not those of a training"
    assert run(plan("preset=one_arm", "levels=[2]"), third)[0] == [], (
        "and back: the first sweep needs no training either"
    )


def test_a_training_that_failed_is_known_on_the_next_machine(machines: dict[str, Store], tmp_path: Path) -> None:
    made = plan("preset=one_arm", "levels=[1,2]", "seeds=[0]")
    first, second = machines["first"], made.cells
    train(first, second[0])
    tags = {
        **sweep_tags(second[1].config.tracking),
        "config_hash": second[1].identity.config_hash,
        "control_hash": second[1].identity.control_hash,
    }
    with (
        pytest.raises(ZeroDivisionError),
        RunLogger.start(first, "toy_scale", second[1].name, kind="verifier", tags=tags, params={"seed": 0}),
    ):
        _ = 1 / 0
    bundle = carried(first, tmp_path / "b.zip")
    import_bundle(bundle, there := machines["second"], show=False)
    trained, outcome = run(made, there)
    assert (trained, outcome.failed) == ([], ["data_scale=2 s0"])
    launcher = Recording(there, made.cells)
    assert run_cells(made.cells, there, launcher, retry_failed=True).ran == 1
    assert launcher.trained == ["data_scale=2 s0"]


def test_only_cells_without_weights_are_trained_again_when_asked(machines: dict[str, Store], tmp_path: Path) -> None:
    made = plan("preset=one_arm", "levels=[1,2]", "seeds=[0]")
    bare, own = made.cells
    train(machines["first"], bare)
    import_bundle(carried(machines["first"], tmp_path / "b.zip"), store := machines["second"], show=False)
    train(store, own)
    (tmp_path / "other.yaml").write_text(TOY.read_text().replace("toy.py", str(TOY.with_name("toy.py"))))
    assert (
        run(plan("preset=one_arm", "levels=[1]", "baseline=1", "seeds=[0]", name=str(tmp_path / "other.yaml")), store)[
            0
        ]
        == []
    )
    reuse, imported = (next(r for r in runs(store, [sweep]) if r.name == bare.name) for sweep in ("other", "toy_scale"))

    lacking = runs_without_weights(made.cells, store)
    assert lacking == {reuse.run_id, imported.run_id}, "whichever sweep asks for the cell gets the new run"
    redo = redo_rule(None, stale=False, lacking=lacking)
    said = description(made.cells, store, retry_failed=False, redo=redo)
    assert f"to run again (finished in run {imported.run_id}, without weights)" in said
    assert "1 of 2 runs finished, 1 to run" in said
    launcher = Recording(store, made.cells)
    run_cells(made.cells, store, launcher, redo=redo)
    assert launcher.trained == [bare.name]
    assert find_artifact(bare.identity.config_hash, "model").is_dir()
    states = {run.run_id: run.status for run in runs(store)}
    assert [states[run_id] for run_id in (imported.run_id, reuse.run_id)] == ["replaced", "replaced"]
    assert runs_without_weights(made.cells, store) == set(), "the same command trains nothing now"


def test_a_failed_run_here_is_not_shown_beside_the_run_that_came_later_in_a_bundle(
    machines: dict[str, Store], tmp_path: Path
) -> None:
    made = plan("preset=one_arm", "levels=[1]", "baseline=1", "seeds=[0]")
    [cell] = made.cells
    here = machines["second"]
    tags = {"config_hash": cell.identity.config_hash, "sweep": "toy_scale"}
    RunLogger.start(here, "toy_scale", cell.name, kind="verifier", tags=tags).fail(ValueError("no"))
    train(machines["first"], cell)
    import_bundle(carried(machines["first"], tmp_path / "b.zip"), machines["second"], show=False)
    found = {run.status: run for run in runs(here)}
    assert found["failed"].tags["continued_by"] == found["finished"].run_id


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_a_sweep_of_verifiers_goes_on_from_its_study_s_bundle(machines: dict[str, Store], tmp_path: Path) -> None:
    pool = write_pool(tmp_path / "hand.parquet")
    asked = ("label_ratio", "preset=smoke", "seeds=[0]", f"data.path={pool}")
    assert machines["first"] is not None
    code, _, err = sweep_here(*asked, "levels=[2:1]", "baseline=2:1")
    assert code == 0, err
    bundle = tmp_path / "runs.zip"
    export_runs(machines["first"], bundle, sweep="label_ratio", preset="smoke", study=True, show=False)
    import_bundle(bundle, machines["second"], show=False)
    code, out, err = sweep_here(*asked, "--dry-run")
    assert code == 0, err
    assert "1 of 2 runs finished, 1 to run" in out
    code, _, err = sweep_here(*asked)
    assert code == 0, err
    by_name = {run.name: run for run in runs(machines["second"], ["label_ratio"])}
    assert set(by_name) >= {"label_ratio=2:1 s0", "label_ratio=1:2 s0"}
    assert "imported_run" in by_name["label_ratio=2:1 s0"].tags
    assert "imported_run" not in by_name["label_ratio=1:2 s0"].tags
    assert "data_scale" not in by_name
    assert "1 of 2 cells is finished without weights in this store; to train it here: rmlab sweep label_ratio" in err

    code, out, err = sweep_here(*asked, "--rerun-without-weights", "--dry-run")
    assert code == 0, err
    assert f"to run again (finished in run {by_name['label_ratio=2:1 s0'].run_id}, without weights)" in out
    code, _, err = sweep_here(*asked, "--rerun-without-weights")
    assert code == 0, err
    states = {run.name: run.status for run in runs(machines["second"], ["label_ratio"]) if "imported_run" in run.tags}
    assert states == {"label_ratio=2:1 s0": "replaced"}
    out = sweep_here(*asked, "--rerun-without-weights", "--dry-run")[1]
    assert "2 of 2 runs finished, 0 to run" in out
