import shutil
from pathlib import Path

import pytest

from rmlab.tracking.store import Store


@pytest.fixture
def store(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The project's own store in a folder of the test."""
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return Store.open()
