"""Layers on a CPU: outputs and gradients are transformers' own to the last bit, and only where they can be."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from rmlab.models import cpu_layers as module
from rmlab.models.config import LoraConfig, ModelConfig
from rmlab.models.cpu_layers import cpu_layers
from rmlab.models.heads import ScalarModel, last_logits, last_scalar
from rmlab.models.load import scratch_model
from rmlab.models.lora import with_adapters
from rmlab.training.device import checkpointed_layers

SHAPE = ModelConfig(
    hidden_size=128, layers=3, heads=4, kv_heads=2, head_dim=32, intermediate_size=256, max_positions=512
)


@pytest.fixture
def turns(monkeypatch):
    """How often a norm with rotation was asked for: whether this path was taken."""
    calls, turned = [], module._turned
    monkeypatch.setattr(module, "_turned", lambda *values: calls.append(1) or turned(*values))
    return calls


def made_up(rows: int, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    ids_BT = torch.randint(0, 200, (rows, positions), generator=generator)
    return ids_BT, torch.randint(1, positions + 1, (rows,), generator=generator)


def gradients(model: torch.nn.Module, rows: int, positions: int, scalar: bool = False) -> dict[str, torch.Tensor]:
    """What the model says behind B sequences, and the gradients of two micro-batches, by name."""
    ids_BT, length_B = made_up(rows, positions)
    model.zero_grad()
    for _ in range(2):
        if scalar:
            said = last_scalar(model, ids_BT, length_B)
            said.square().sum().backward()
        else:
            said = last_logits(model, ids_BT, length_B)
            cross_entropy(said, length_B % 3, reduction="sum").backward()
    return {"said": said.detach()} | {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def assert_same_bits(model: torch.nn.Module, rows: int, positions: int, **more: bool) -> None:
    own = gradients(model, rows, positions, **more)
    with cpu_layers(model):
        ours = gradients(model, rows, positions, **more)
    assert len(own) > 1
    assert own.keys() == ours.keys()
    assert [name for name in own if not torch.equal(own[name], ours[name])] == []


@pytest.mark.parametrize(("rows", "positions"), [(1, 1), (1, 30), (3, 57), (16, 130)])
def test_outputs_and_gradients_are_the_same_to_the_last_bit(rows, positions, turns):
    assert_same_bits(scratch_model(SHAPE, 200, seed=0).train(), rows, positions)
    assert len(turns) == 2 * 2 * 2, "queries and keys of the two layers that are read whole, in two micro-batches"


def test_with_a_scalar_head_adapters_and_checkpointing(turns):
    assert_same_bits(ScalarModel(scratch_model(SHAPE, 200, seed=0)).train(), 3, 40, scalar=True)
    assert_same_bits(with_adapters(scratch_model(SHAPE, 200, seed=0), LoraConfig(rank=4), seed=0).train(), 3, 40)
    model, taken = scratch_model(SHAPE, 200, seed=0).train(), len(turns)
    with checkpointed_layers(model, True):
        assert_same_bits(model, 3, 40)
    assert len(turns) > taken > 0


def test_scores_without_a_gradient_are_the_same_to_the_last_bit(turns):
    model = scratch_model(SHAPE, 200, seed=0).eval()
    with torch.inference_mode():
        own = last_logits(model, *made_up(5, 70))
        with cpu_layers(model):
            assert torch.equal(last_logits(model, *made_up(5, 70)), own)
    assert len(turns) == 4


def test_what_is_not_known_here_is_left_to_transformers(turns):
    dense = scratch_model(SHAPE, 200, seed=0)
    for model, within in (
        (scratch_model(SHAPE, 200, seed=0).bfloat16(), nullcontext()),
        (scratch_model(replace(SHAPE, experts=2, experts_per_token=1), 200, seed=0), nullcontext()),
        (dense, torch.autocast("cpu", torch.bfloat16)),
    ):
        with cpu_layers(model), within, torch.inference_mode():
            last_logits(model, *made_up(2, 9))
    mask = torch.ones(2, 9)
    mask[0, :4] = 0
    with torch.inference_mode():
        own = dense(input_ids=made_up(2, 9)[0], attention_mask=mask).logits
        with cpu_layers(dense), cpu_layers(dense):  # a second block changes nothing
            assert torch.equal(dense(input_ids=made_up(2, 9)[0], attention_mask=mask).logits, own)
    assert turns == []
    assert all("forward" not in vars(layer) for layer in dense.model.layers)
