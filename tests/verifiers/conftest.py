"""Models and attempts that several files of tests start from."""

from pathlib import Path

import pytest

from rmlab.models.config import ModelConfig, TokenizerConfig
from rmlab.models.load import scratch_model
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import write_trajectories
from rmlab.verifiers.answer import prove_answers, verifier_tokenizer
from rmlab.verifiers.config import PromptConfig
from rmlab.verifiers.prompt import render
from rmlab.verifiers.verifier import Verifier
from tests.verifiers.examples import episode, episodes
from tests.verifiers.tiny_models import write_model


@pytest.fixture(scope="session")
def pretrained_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny models with ChatML markers by family."""
    return {
        family: write_model(tmp_path_factory.mktemp(family), family, positions=4096) for family in ("qwen2", "llama")
    }


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    """Of random weights, with the tokenizer of attempts made by hand; it reads 300 tokens."""
    tokenizer = verifier_tokenizer(episodes(40, "supervised"), TokenizerConfig(400))
    shape = ModelConfig(hidden_size=32, layers=2, heads=4, kv_heads=2, head_dim=8, intermediate_size=48)
    answer = prove_answers(tokenizer, [render(t) for t in episodes(3)])
    return Verifier(scratch_model(shape, tokenizer.size, 0), tokenizer, PromptConfig(max_tokens=300), answer)


@pytest.fixture
def attempts() -> list[Trajectory]:
    """Four of micro-SWE, of different lengths and both labels."""
    return [episode(n, n % 2 == 0, longer=3 * n) for n in range(4)]


@pytest.fixture
def pool(tmp_path: Path, attempts: list[Trajectory]) -> Path:
    """Their file."""
    write_trajectories(tmp_path / "pool.parquet", attempts)
    return tmp_path / "pool.parquet"
