from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store's file, made once: making the tables takes seconds."""
    from rmlab.tracking.store import Store

    path = tmp_path_factory.mktemp("empty") / "mlflow.db"
    Store.open(f"sqlite:///{path}")
    return path
