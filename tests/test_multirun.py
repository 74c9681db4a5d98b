"""`rmlab train -m +sweep=NAME`: Hydra's own multirun runs the cells of `rmlab sweep NAME`, through its launchers and ours."""

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore

from rmlab.commands.multirun import multirun as multirun_of
from rmlab.configuration import compose, load_program
from rmlab.paths import REPOSITORY
from rmlab.sweep.plan import expand
from rmlab.sweep.spec import read_sweep
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store
from tests import sweeping
from tests.command_line import rmlab_here
from tests.forked_command import ForkedCommand, start_warm_fork_server
from tests.sweeping import cells_that_said
from tests.waiting import PATIENCE

TOY = REPOSITORY / "tests" / "sweep" / "toy"
SCALE = f"+sweep={TOY / 'toy_scale.yaml'}"
SMALL = ("levels=[1,3]", "baseline=1", "arms=[epochs]", "seeds=[0]")


@pytest.fixture(autouse=True)
def where(runs_folder: Path) -> Path:
    return runs_folder


def multirun(*overrides: str) -> tuple[int | None, str, str]:
    """What `rmlab train -m` does, of the toy, in a process of its own."""
    return ended(ForkedCommand(str(TOY / "toy.py"), *overrides, work=sweeping.multirun))


def ended(process: ForkedCommand) -> tuple[int | None, str, str]:
    out, err = process.communicate(PATIENCE)
    return process.returncode, out, err


def multirun_here(*overrides: str) -> str:
    """The same in this process, whose cells are processes of their own; its output. Raises what is wrong."""
    start_warm_fork_server()
    with redirect_stdout(io.StringIO()) as out:
        multirun_of(str(TOY / "toy.py"), list(overrides))
    assert "sweep" not in ConfigStore.instance().repo, "what this process composes next has no such group"
    return out.getvalue()


def rmlab(*arguments: str) -> tuple[int | None, str, str]:
    return ended(ForkedCommand(*arguments))


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher",
    [
        (),
        ("hydra/launcher=basic",),
        ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2"),
        (
            "hydra/launcher=slurm",
            "hydra.launcher.cluster=local",
            "hydra.launcher.poll_seconds=0.2",
            "hydra.launcher.workers=2",
        ),
    ],
    ids=["default", "basic", "joblib", "slurm"],
)
def test_the_same_cells_through_every_launcher(where: Path, launcher: tuple[str, ...]) -> None:
    if not launcher:
        multirun_here(SCALE, *SMALL, "seconds=1.5")
    else:  # its cells run where no pipe leads back from
        code, _, err = multirun(SCALE, *SMALL, "seconds=1.5", *launcher)
        assert code == 0, err
        assert "data_scale=3 s0 submitted as " in err
        assert "data_scale=3 s0 started" in err
    found = runs(Store.open(), ["toy_scale"])
    assert {(run.name, run.status) for run in found} == {
        ("data_scale=1 s0", "finished"),
        ("data_scale=3 s0", "finished"),
    }
    assert sorted(cells_that_said("end").values()) == [1, 1]
    spec = read_sweep(
        str(TOY / "toy_scale.yaml"), None, {"levels": [1, 3], "baseline": 1, "arms": ["epochs"], "seeds": [0]}
    )
    planned = expand(spec, ["seconds=1.5"], compose, load_program(spec.program).identity)
    assert {cell.identity.config_hash for cell in planned} == set(cells_that_said("end")), "the cells of rmlab sweep"


@pytest.mark.slow
def test_rmlab_sweep_takes_a_launcher_too_and_failures_are_told(where: Path) -> None:
    arguments = ("sweep", str(TOY / "toy_scale.yaml"), *SMALL, "trouble={3:error}", "--on-error", "continue")
    code, _, err = rmlab(
        *(*arguments, "hydra/launcher=slurm", "hydra.launcher.cluster=local", "hydra.launcher.poll_seconds=0.2"),
        "hydra.launcher.workers=1",
    )
    assert code == 1
    assert "RuntimeError: this cell has no luck" in err
    assert "Traceback" in err
    assert (
        err.strip()
        .splitlines()[-1]
        .startswith("rmlab: 1 of 2 cells failed (data_scale=3 s0). Try them again with: rmlab sweep")
    )
    code, _, err = rmlab(*arguments, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "--retry-failed")
    assert code == 1
    assert err.count("this cell has no luck") >= 1
    assert {run.name: run.status for run in runs(Store.open())} == {
        "data_scale=1 s0": "finished",
        "data_scale=3 s0": "failed",
    }


@pytest.mark.slow
def test_a_multirun_without_a_sweep_is_hydras_own(where: Path) -> None:
    multirun_here("data.scale=1,2", "hydra/launcher=local")
    assert [run.status for run in runs(Store.open())] == ["finished"] * 2
    code, out, err = multirun("data.scale=1,3")
    assert code == 0, err
    assert "finished already" in out
    assert sorted(cells_that_said("end").values()) == [1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-m", "+sweep=nope"], "there is no sweep 'nope'; there are: "),
        (["+sweep=nope"], "there is no sweep 'nope'; there are: "),
        (["-m", "+sweep=data_scal"], "did you mean data_scale?"),
        (["-m", "levels=[1]"], "Name a sweep with +sweep=NAME"),
        (["-m", "+sweep=data_scale", "hydra/launcher=nope"], "hydra/launcher"),
        (
            ["-m", "+sweep=data_scale", "data.scale=1", "hydra.sweeper.dry_run=true"],
            "this sweep varies data.scale (factor data_scale)",
        ),
    ],
)
def test_wrong_use_is_one_line_and_starts_nothing(where: Path, arguments: list[str], words: str) -> None:
    code, _, err = rmlab_here("train", *arguments)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert not (where / "ledger").exists()


def test_what_is_only_described_starts_nothing_through_hydra_either(where: Path) -> None:
    """Every flag reaches Hydra's sweeper: `--explain` did not, and the sweep ran."""
    code, out, err = rmlab_here("sweep", str(TOY / "toy_scale.yaml"), *SMALL, "hydra/launcher=basic", "--explain")
    assert code == 0, err
    assert "another level:" in out
    assert not (where / "ledger").exists()


def test_a_launcher_that_has_no_such_setting(where: Path) -> None:
    code, _, err = rmlab_here("sweep", str(TOY / "toy_scale.yaml"), "hydra.launcher.worker=2")
    assert (code, err.strip().splitlines()[-1]) == (
        2,
        "rmlab: hydra.launcher.worker=2: launcher local has no 'worker' (did you mean "
        "workers?); it has workers, cells_per_gpu",
    )


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in (REPOSITORY / "conf" / "hydra" / "launcher").glob("*.yaml"))
)
def test_every_launcher_is_made_from_its_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from hydra.utils import get_class
    from omegaconf import OmegaConf

    monkeypatch.syspath_prepend(str(REPOSITORY))
    monkeypatch.setattr(
        "rmlab.launchers.ray.check_package", lambda *names: None
    )  # Ray is no part of the test environment
    settings = OmegaConf.to_container(OmegaConf.load(REPOSITORY / "conf" / "hydra" / "launcher" / f"{name}.yaml"))
    made = get_class(settings.pop("_target_"))(**settings)
    launcher = made.cells_launcher(OmegaConf.create({"runtime": {"device": "cpu"}, "training": {"threads": 1}}), 3)
    assert launcher.workers == 3
    assert all(getattr(launcher, key, value) == value for key, value in settings.items() if key != "workers")


def test_the_sweepers_options_are_those_of_the_command() -> None:
    import inspect
    from dataclasses import fields

    from rmlab.commands.sweep import sweep
    from rmlab.sweep.request import SweepOptions

    named = {field.name for field in fields(SweepOptions)} - {"batch"}
    assert named == set(inspect.signature(sweep).parameters) - {"name", "arguments", "cells_per_gpu"}


def test_a_launcher_without_its_package_names_it(where: Path) -> None:
    cases = {
        "joblib": ("hydra_plugins.hydra_joblib_launcher", "needs hydra-joblib-launcher: pip install"),
        "slurm": ("submitit", "needs submitit: pip install -e '.[slurm]'"),
        "ray": ("ray", "needs ray: pip install -e '.[ray]'"),
        "submitit_slrum": ("none", "did you mean submitit_slurm"),
    }
    asked = [f"{launcher}={missing}" for launcher, (missing, _) in cases.items()]
    code, out, err = ended(ForkedCommand(*asked, work=sweeping.launches_without))
    assert code == 0, err
    assert set(out.split()) <= {"1", "2"}
    for line, (launcher, (_, words)) in zip(err.splitlines(), cases.items(), strict=True):  # before any work
        assert f"hydra/launcher={launcher}" in line
        assert words in line


@pytest.mark.slow
def test_the_runs_folder_may_have_any_name(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = where / "a%20b?x=(ü,'c'#1)"
    odd.mkdir()
    (where / "mlflow.db").rename(odd / "mlflow.db")
    monkeypatch.setenv("RMLAB_RUNS", str(odd))
    code, _, err = multirun(f"+sweep={TOY / 'toy_scale.yaml'}", *SMALL, "hydra/launcher=basic")
    assert code == 0, err
    assert cells_that_said("end")
    assert {path.name for path in where.iterdir()} == {odd.name}, "nothing beside it"
