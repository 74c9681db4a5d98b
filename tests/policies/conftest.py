from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.loading import LoadedTasks, load_tasks
from rmlab.microswe.sandbox import Sandbox
from rmlab.models.config import ModelConfig, TokenizerConfig
from rmlab.models.tokenizer import Tokenizer, train_tokenizer
from rmlab.paths import STARTER
from rmlab.policies.policy import ScriptedConfig
from rmlab.policies.rollout import plan, rollout
from rmlab.policies.scripted import ScriptedPolicy
from rmlab.trajectories.store import TrajectorySet

TINY = ModelConfig(hidden_size=32, layers=2, heads=4, kv_heads=2, head_dim=16, intermediate_size=64, max_positions=512)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(2) as made:  # started before torch is imported by a test
        yield made


@pytest.fixture(scope="session")
def starter_tasks(sandbox: Sandbox) -> LoadedTasks:
    return load_tasks(STARTER / "tasks.parquet", sandbox)


@pytest.fixture(scope="session")
def few_attempts(sandbox: Sandbox, starter_tasks: LoadedTasks) -> TrajectorySet:
    """60 scripted attempts of the supervised part, 5 of the validation part."""
    script = {"careful": ScriptedPolicy("careful", ScriptedConfig())}
    planned = plan(starter_tasks.part("supervised")[::30][:30], ["careful"], 2) + plan(
        starter_tasks.part("validation")[:5], ["careful"], 1
    )
    return TrajectorySet(tuple(rollout(planned, script, sandbox, EnvironmentConfig(), seed=0)), {})


@pytest.fixture(scope="session")
def tokenizer(few_attempts: TrajectorySet) -> Tokenizer:
    few = few_attempts.trajectories
    return train_tokenizer(["\n".join(m.content for m in t.messages) for t in few], TokenizerConfig(vocab_size=512))


@pytest.fixture(scope="session")
def base_folder(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 of random start and its tokenizer, as `rmlab pretrain` would leave them."""
    from rmlab.models.load import scratch_model

    folder = tmp_path_factory.mktemp("base")
    scratch_model(TINY, tokenizer.size, seed=0).save_pretrained(str(folder))
    tokenizer.save(folder)
    return folder


@pytest.fixture(scope="session")
def qwen3(base_folder: Path) -> Any:
    import torch

    from rmlab.models.load import load_model

    torch.set_num_threads(1)  # a second thread waits more than it works on models this small
    return load_model(base_folder).eval()


@pytest.fixture(scope="session")
def llama(tokenizer: Tokenizer) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=tokenizer.size,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        intermediate_size=64,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(shape).eval()
