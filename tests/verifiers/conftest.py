"""Models that several files of tests start from."""

from pathlib import Path

import pytest

from tests.verifiers.tiny_models import write_model


@pytest.fixture(scope="session")
def pretrained_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny models with ChatML markers by family."""
    return {
        family: write_model(tmp_path_factory.mktemp(family), family, positions=4096) for family in ("qwen2", "llama")
    }
