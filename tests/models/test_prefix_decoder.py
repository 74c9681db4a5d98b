"""What stands behind prompts whose starts are shared is what the model itself says of each alone."""

from typing import Any

import numpy as np
import pytest
import torch

from rmlab.models import prefix_decoder
from rmlab.models.config import ModelConfig
from rmlab.models.load import scratch_model
from rmlab.models.prefix_decoder import can_share, prefix_last_hidden
from rmlab.models.prefixes import prefix_batches

SHAPE = {"hidden_size": 64, "layers": 3, "heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate_size": 48}
VOCABULARY = 50


def model_of(family: str) -> Any:
    if family == "llama":
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(0)
        shape = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
        more = {"initializer_range": 0.2, "attention_bias": True, "mlp_bias": True}
        return LlamaForCausalLM(LlamaConfig(**shape, **more, intermediate_size=48, vocab_size=VOCABULARY)).eval()
    experts = {"experts": 4, "experts_per_token": 2, "expert_size": 24} if family == "qwen3_moe" else {}
    return scratch_model(ModelConfig(**SHAPE, **experts), VOCABULARY, 0).eval()  # type: ignore[arg-type]


def prompts() -> list[list[int]]:
    """Some that share a start, twins, one that is another's start, and one token alone."""
    rng = np.random.default_rng(0)
    starts = [rng.integers(1, VOCABULARY, n).tolist() for n in (20, 9)]
    drawn = [starts[i % 2] + rng.integers(0, 3, 2 + i % 7).tolist() for i in range(20)]
    return [*drawn, drawn[3], starts[0], [5]]


@torch.inference_mode()
def alone(model: Any, drawn: list[list[int]]) -> torch.Tensor:
    return torch.stack([model.get_decoder()(input_ids=torch.tensor([p])).last_hidden_state[0, -1] for p in drawn])


@torch.inference_mode()
def shared(model: Any, drawn: list[list[int]], tokens: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    device = next(model.parameters()).device
    found = torch.full((len(drawn), 64), torch.nan)
    for batch in prefix_batches(drawn, tokens):
        found[torch.from_numpy(batch.row_N)] = prefix_last_hidden(model.to(device), batch, dtype).cpu()
    return found


@pytest.mark.parametrize("family", ["qwen3", "llama", "qwen3_moe"])
def test_shared_starts_change_nothing(family: str) -> None:
    model, drawn = model_of(family), prompts()
    assert can_share(model)
    expected = alone(model, drawn)
    for tokens in (1, 60, 10_000):
        assert (shared(model, drawn, tokens) - expected).abs().max() < 1e-5
    order = np.random.default_rng(1).permutation(len(drawn)).tolist()
    assert (shared(model, [drawn[i] for i in order], 60) - expected[order]).abs().max() < 1e-5


def test_tokens_in_small_parts_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for family in ("qwen3", "qwen3_moe"):
        model, drawn = model_of(family), prompts()
        whole = shared(model, drawn, 10_000)
        monkeypatch.setattr(prefix_decoder, "PARTS_BYTES", 4096)
        assert (shared(model, drawn, 10_000) - whole).abs().max() < 1e-5
        monkeypatch.undo()


def test_half_precision_stays_near() -> None:
    model, drawn = model_of("qwen3"), prompts()
    assert (shared(model, drawn, 100, torch.bfloat16) - alone(model, drawn)).abs().mean() < 0.02


def test_what_is_not_known_is_not_shared() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel, Qwen3Config, Qwen3ForCausalLM

    assert not can_share(GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=1, vocab_size=10)))
    small = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": 8,
    }
    sliding = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}
    assert not can_share(Qwen3ForCausalLM(Qwen3Config(**small, **sliding, intermediate_size=8, vocab_size=10)))


@pytest.mark.gpu
@pytest.mark.parametrize("family", ["qwen3", "llama", "qwen3_moe"])
def test_a_gpu_shares_starts(family: str) -> None:
    """float32: the same to 1e-4 (hidden states of about 1, sums in another order); bfloat16, fused or not: near."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    model, drawn = model_of(family), prompts()
    expected = alone(model, drawn)
    model.to("cuda")
    assert (shared(model, drawn, 10_000) - expected).abs().max() < 1e-4
    assert (shared(model, drawn, 10_000, torch.bfloat16) - expected).abs().mean() < 0.02
