"""Where other people's data lies, and one call that imports something."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rmlab.paths import REPOSITORY
from rmlab.trajectories.ingest.assemble import settle
from rmlab.trajectories.ingest.drafts import Spool
from rmlab.trajectories.ingest.importing import Reader, Reading
from rmlab.trajectories.ingest.summary import summary
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
    def run(*paths: Path, labels: tuple[Path, ...] = (), **reading: Any) -> Imported:
        spool, out = Spool(), tmp_path / "imported.parquet"
        try:
            reader = Reader(Reading(**reading), spool)
            for path in paths:
                reader.read(path)
            for path in labels:
                reader.read(path, labels_only=True)
            settled = settle(reader.found)
            settled.write(out, {}, lambda amount: None)
            found = summary(settled)
        finally:
            spool.close()
        json.dumps(found, allow_nan=False)
        return Imported(found, read_trajectories(out).trajectories)

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
