from pathlib import Path

import pytest

from tests.rl.easy_family import write_easy_policy, write_easy_tasks


@pytest.fixture(scope="session")
def easy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tasks.parquet, a policy that can say every answer, and a verifier that knows nothing."""
    folder = tmp_path_factory.mktemp("easy")
    write_easy_tasks(folder / "tasks.parquet")
    write_easy_policy(folder / "policy")
    write_verifier(folder / "run" / "model")
    return folder


def write_verifier(folder: Path, seed: int = 0) -> None:
    """A verifier of random weights with scores of validation attempts beside it."""
    import numpy as np

    from rmlab.models.config import ModelConfig, TokenizerConfig
    from rmlab.models.load import scratch_model
    from rmlab.scores.scores import Scores
    from rmlab.scores.writing import write_score_table
    from rmlab.verifiers.answer import prove_answers, verifier_tokenizer
    from rmlab.verifiers.config import PromptConfig
    from rmlab.verifiers.prompt import render
    from rmlab.verifiers.verifier import Verifier, save_verifier
    from tests.verifiers.examples import episodes

    tokenizer = verifier_tokenizer(episodes(40, "supervised"), TokenizerConfig(400))
    shape = ModelConfig(hidden_size=16, layers=2, heads=2, kv_heads=2, head_dim=8, intermediate_size=32)
    answer = prove_answers(tokenizer, [render(t) for t in episodes(3)])
    save_verifier(
        folder, Verifier(scratch_model(shape, tokenizer.size, seed), tokenizer, PromptConfig(max_tokens=1024), answer)
    )
    rng = np.random.default_rng(0)
    table = Scores.of([f"t{i % 10}" for i in range(80)], rng.random(80), (rng.random(80) < 0.3).tolist())
    write_score_table(folder.parent / "validation_scores.parquet", table)
