"""Stores for the tests of analysis: an empty one, and one with a sweep of made-up runs."""

import shutil
from pathlib import Path

import pytest

from rmlab.tracking.store import Store
from tests.analysis.sweep.level_runs import track


@pytest.fixture
def store(runs_folder: Path) -> Store:
    """The project's own store, empty, in a folder of the test."""
    return Store.open(None)


@pytest.fixture(scope="module")
def one_sweep(tmp_path_factory, empty_database):
    """A folder whose store has a sweep of words: `good` is better than the baseline, `same` is not. And the scores of its runs."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copy(empty_database, folder / "mlflow.db")
    store = Store.open(f"sqlite:///{folder / 'mlflow.db'}")
    return folder, {
        (level, seed): track(store, folder, "mixture", level, seed, quality, place=place, baseline="usual")
        for place, (level, quality) in enumerate([("usual", 1.0), ("good", 6.0), ("same", 1.0)])
        for seed in range(3)
    }


@pytest.fixture
def words(one_sweep, monkeypatch):
    """The store with that sweep, which tests read and leave as it is."""
    monkeypatch.setenv("RMLAB_RUNS", str(one_sweep[0]))
    return Store.open(None)
