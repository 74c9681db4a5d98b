"""Models and attempts that several files of tests start from."""

from pathlib import Path

import pytest

from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import write_trajectories
from tests.verifiers.examples import episode
from tests.verifiers.tiny_models import write_model


@pytest.fixture(scope="session")
def pretrained_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny models with ChatML markers by family."""
    return {
        family: write_model(tmp_path_factory.mktemp(family), family, positions=4096) for family in ("qwen2", "llama")
    }


@pytest.fixture
def attempts() -> list[Trajectory]:
    """Four of micro-SWE, of different lengths and both labels."""
    return [episode(n, n % 2 == 0, longer=3 * n) for n in range(4)]


@pytest.fixture
def pool(tmp_path: Path, attempts: list[Trajectory]) -> Path:
    """Their file."""
    write_trajectories(tmp_path / "pool.parquet", attempts)
    return tmp_path / "pool.parquet"
