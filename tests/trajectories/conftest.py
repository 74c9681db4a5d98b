"""Where other people's data lies, and one call that imports something."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rmlab.paths import REPOSITORY
from rmlab.trajectories.ingest.importing import import_trajectories
from rmlab.trajectories.ingest.reading import ImportOptions
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import read_trajectories


class Imported(NamedTuple):
    """summary: what `rmlab import --json` prints. trajectories: what was written, read and proven again."""

    summary: dict[str, Any]
    trajectories: tuple[Trajectory, ...]

    def by_task(self) -> dict[str, Trajectory]:
        return {t.task_id: t for t in self.trajectories}


@pytest.fixture
def importing(tmp_path: Path) -> Callable[..., Imported]:
    def run(*paths: Path, labels: tuple[Path, ...] = (), **options: Any) -> Imported:
        out = tmp_path / "imported.parquet"
        out.unlink(missing_ok=True)
        _, summary = import_trajectories([str(path) for path in paths], out, labels, ImportOptions(**options))
        json.dumps(summary, allow_nan=False)
        return Imported(summary, read_trajectories(out).trajectories if out.exists() else ())

    return run


def _beside(name: str) -> Path:
    folder = REPOSITORY.parent / "shared" / "data" / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: real trajectories are kept beside the repository, not in it")
    return folder


@pytest.fixture
def real() -> Path:
    """Folder of real third-party files, one zip a source."""
    return _beside("real")


@pytest.fixture
def corpus() -> Path:
    """Folder of whole real runs."""
    return _beside("real_corpus")
