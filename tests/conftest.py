import signal
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job ignores Ctrl-C, and so would all that tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store's file, made once: making the tables takes seconds."""
    from rmlab.tracking.store import Store

    path = tmp_path_factory.mktemp("empty") / "mlflow.db"
    Store.open(f"sqlite:///{path}")
    return path
