"""The folder of a study, and a store for its runs."""

import shutil
from pathlib import Path

import pytest

from analysis.studies import planned_study
from analysis.studies.page import NOTHING_YET
from analysis.studies.planned_cells import PlannedCell, planned_cells
from rmlab.sweep.spec import SweepSpec
from rmlab.tracking.store import Store
from tests.analysis.studies.planned_runs import Fill, bundle

_PLANNED: dict[str, list[PlannedCell]] = {}


def planned_once(spec: SweepSpec) -> list[PlannedCell]:
    """The cells of a sweep follow from its file alone; to plan them anew in each test takes half of the time of all."""
    key = repr(spec)
    if key not in _PLANNED:
        _PLANNED[key] = planned_cells(spec)
    return list(_PLANNED[key])


@pytest.fixture(autouse=True)
def plan_each_sweep_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_study, "planned_cells", planned_once)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a study of two sweeps at preset demo, whose baselines are one configuration, with a plan."""
    made = tmp_path / "two_sweeps"
    made.mkdir()
    (made / "study.yaml").write_text("preset: demo\nsweeps: [label_ratio, evidence]\n")
    (made / "README.md").write_text(f"# A plan\n\n{NOTHING_YET} Levels: many.\n")
    return made


@pytest.fixture
def store(runs_folder: Path) -> Store:
    return Store.open(None)


@pytest.fixture(scope="session")
def made_bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the bundles lie that tests copy: each is made once."""
    return tmp_path_factory.mktemp("bundles")


@pytest.fixture
def fill(folder: Path, made_bundles: Path, empty_database: Path) -> Fill:
    """Puts a bundle of trained levels (level -> quality) of each sweep into a study's folder."""

    def filled(sweeps: dict[str, dict[str, float]], seeds: int = 3) -> None:
        (folder / "bundles").mkdir(exist_ok=True)
        for sweep, levels in sweeps.items():
            name = "_".join([sweep, str(seeds), *(f"{level}={quality}" for level, quality in levels.items())])
            made = made_bundles / name.replace(":", "to")
            if not (made / "made.zip").exists():
                made.mkdir()
                shutil.copy(empty_database, made / "mlflow.db")
                store = Store.open(f"sqlite:///{made / 'mlflow.db'}")
                bundle(store, made, folder, sweep, levels, seeds).rename(made / "made.zip")
            shutil.copy(made / "made.zip", folder / "bundles" / f"{sweep}.zip")

    return filled
