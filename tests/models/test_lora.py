from pathlib import Path
from typing import Any

import pytest
import torch

from rmlab.errors import DataError
from rmlab.models.config import LoraConfig, ModelConfig
from rmlab.models.generation import SlotDecoder
from rmlab.models.load import scratch_model
from rmlab.models.lora import has_adapters, load_adapters, merged_weights, save_adapters, with_adapters
from rmlab.training.policy import token_logprobs

SHAPE = ModelConfig(hidden_size=32, layers=2, heads=2, kv_heads=1, head_dim=16, intermediate_size=48, max_positions=64)


def trained(rank: int = 4) -> Any:
    """A small model whose adapters have moved away from zero."""
    torch.set_num_threads(1)
    model = with_adapters(scratch_model(SHAPE, 50, 0).eval(), LoraConfig(rank=rank), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.2, generator=generator)
    return model


def test_only_adapters_are_trained_and_none_is_none() -> None:
    model = trained()
    assert has_adapters(model)
    free = [name for name, p in model.named_parameters() if p.requires_grad]
    assert free
    assert all("lora_" in name for name in free)
    plain = scratch_model(SHAPE, 50, 0)
    assert with_adapters(plain, LoraConfig(), seed=0) is plain


def test_merged_weights_are_the_model_that_it_amounts_to() -> None:
    model = trained()
    plain = scratch_model(SHAPE, 50, 0).eval()
    before = {name: p.clone() for name, p in plain.named_parameters()}
    with torch.no_grad():
        parameters = dict(plain.named_parameters())
        for name, weight in merged_weights(model):
            parameters.pop(name).copy_(weight)
    assert not parameters
    assert any(not torch.equal(before[name], p) for name, p in plain.named_parameters())
    ids = torch.arange(1, 13)[None]
    with torch.no_grad():
        torch.testing.assert_close(model(input_ids=ids).logits, plain(input_ids=ids).logits, atol=1e-4, rtol=1e-4)


def test_slots_act_with_the_adapters_and_follow_them() -> None:
    model = trained()
    decoder = SlotDecoder(model, 2, 32, stop_id=49, device="cpu", dtype=torch.float32, graphs=False)
    import numpy as np

    def speak() -> tuple[torch.Tensor, torch.Tensor]:
        decoder.put([0, 1], [[1, 2, 3], [4, 5]], [np.full(33, 0.3, np.float32), np.full(33, 0.7, np.float32)])
        decoder.activate([0, 1], [10, 10], [1.0, 1.0])
        while decoder.decode(1, 1, 10)[0].any():
            pass
        return decoder.ids_BS.clone(), decoder.logprob_BS.clone()

    for _ in range(2):
        ids_BS, logprob_BS = speak()
        wanted = torch.zeros_like(ids_BS, dtype=torch.bool)
        for row, begin in enumerate((3, 2)):
            wanted[row, begin : int(decoder.position_B[row]) + 1] = True
        with torch.no_grad():
            plain, _ = token_logprobs(model, ids_BS, wanted)
        torch.testing.assert_close(logprob_BS[wanted], plain[wanted], atol=1e-4, rtol=0)
        with torch.no_grad():
            next(p for name, p in model.named_parameters() if "lora_B" in name).mul_(-3)
        decoder.refresh()


def test_adapters_travel(tmp_path: Path) -> None:
    model = trained()
    save_adapters(model, tmp_path / "adapters")
    again = load_adapters(scratch_model(SHAPE, 50, 0).eval(), tmp_path / "adapters")
    ids = torch.arange(1, 13)[None]
    with torch.no_grad():
        torch.testing.assert_close(model(input_ids=ids).logits, again(input_ids=ids).logits, atol=0.05, rtol=0.02)
    with pytest.raises(DataError, match="holds no adapters"):
        load_adapters(scratch_model(SHAPE, 50, 0), tmp_path)
    other = ModelConfig(
        hidden_size=48, layers=2, heads=2, kv_heads=1, head_dim=16, intermediate_size=48, max_positions=64
    )
    with pytest.raises(DataError, match="of another model"):
        load_adapters(scratch_model(other, 50, 0), tmp_path / "adapters")
