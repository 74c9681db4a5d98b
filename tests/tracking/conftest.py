import shutil
from pathlib import Path

import pytest

from rmlab.tracking.store import Store


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store's file, made once: making the tables takes seconds."""
    path = tmp_path_factory.mktemp("empty") / "mlflow.db"
    Store.open(f"sqlite:///{path}")
    return path


@pytest.fixture
def store(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The project's own store in a folder of the test."""
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return Store.open()
