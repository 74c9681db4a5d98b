"""Weights against models that are built, operations against torch's own counter."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rmlab.errors import DataError
from rmlab.models.config import LoraConfig, ModelConfig, TokenizerConfig
from rmlab.models.cost import KNOWN, Reading, forward_flops, mfu, read_shape, reading, shape_of, training_flops
from rmlab.models.heads import last_logits
from rmlab.models.load import scratch_model
from rmlab.models.lora import with_adapters

DENSE = ModelConfig(
    hidden_size=64, layers=3, heads=4, kv_heads=2, head_dim=16, intermediate_size=96, tokenizer=TokenizerConfig(512)
)
EXPERTS = replace(DENSE, experts=4, experts_per_token=2, expert_size=32)


@pytest.mark.parametrize("config", [DENSE, EXPERTS], ids=["dense", "experts"])
def test_weights_are_those_of_the_built_model(config: ModelConfig, tmp_path: Path) -> None:
    model = scratch_model(config, config.tokenizer.vocab_size, seed=0)
    shape = shape_of(config)
    assert shape.weights == sum(p.numel() for p in model.parameters())
    model.config.save_pretrained(tmp_path)
    assert read_shape(tmp_path) == shape
    if not config.experts:
        adapted = with_adapters(model, LoraConfig(rank=4), seed=0)
        assert shape.adapter_weights(4) == sum(p.numel() for p in adapted.parameters() if p.requires_grad)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("SmolLM2-135M", 134_515_008),
        ("Qwen3-0.6B", 596_049_920),
        ("Qwen3-4B", 4_022_468_096),
        ("Qwen3-8B", 8_190_735_360),
        ("Qwen3-30B-A3B", 30_532_122_624),
    ],
)
def test_weights_of_open_models_are_those_of_their_files(name: str, weights: int) -> None:
    assert KNOWN[name].weights == weights


def test_a_mixture_of_experts_counts_what_a_token_meets() -> None:
    """3.3 billion of 30.5 by the model's card, which counts the embedding or the head."""
    assert KNOWN["Qwen3-30B-A3B"].active_weights == pytest.approx(3.04e9, rel=0.01)


def counted(call: Any) -> float:
    with FlopCounterMode(display=False) as counter:
        call()
    return float(counter.get_total_flops())


def by_torch(config: ModelConfig, rows: int, length: int, rank: int = 0) -> tuple[float, float]:
    """Operations of the forward pass alone, and of forward and backward, as torch counts them: attention without regard to causality."""
    model = scratch_model(config, config.tokenizer.vocab_size, seed=0)
    if config.experts:
        model.set_experts_implementation("eager")  # the counter does not know grouped products
    model = with_adapters(model, LoraConfig(rank=rank), seed=0)
    ids_BT = torch.randint(2, 500, (rows, length))
    length_B = torch.full((rows,), length)

    def forward() -> torch.Tensor:
        return last_logits(model, ids_BT, length_B).sum()

    with sdpa_kernel(SDPBackend.MATH):  # nor the fused kernel of the CPU
        with torch.no_grad():
            alone = counted(forward)
        return alone, counted(lambda: forward().backward())


@pytest.mark.parametrize("config", [DENSE, EXPERTS], ids=["dense", "experts"])
def test_operations_are_those_that_torch_counts(config: ModelConfig) -> None:
    """torch counts all n² pairs of attention (and in the backward pass of its fused kernel one product more, 2.5 times the forward)."""
    rows, length = 3, 50
    alone, both = by_torch(config, rows, length)
    read = replace(reading([length] * rows), every_position=bool(config.experts))
    all_pairs = replace(read, pairs=rows * length * length)
    shape = shape_of(config)
    forward = forward_flops(shape, all_pairs)
    assert forward.total == pytest.approx(alone, rel=1e-3)
    trained = training_flops(shape, all_pairs)
    assert trained.total == pytest.approx(both, rel=0.02)
    assert trained.head == 3 * forward.head


def test_frozen_weights_take_one_backward_product() -> None:
    """Of the first layer's queries, keys and values torch needs no gradient of the input at all: 4 % less in 3 layers."""
    _, both = by_torch(DENSE, 3, 50, rank=4)
    all_pairs = replace(reading([50] * 3), pairs=3 * 50 * 50)
    first = 2 * 3 * 50 * 64 * (64 + 2 * 32)
    assert training_flops(shape_of(DENSE), all_pairs, rank=4).total - first == pytest.approx(both, rel=0.02)


def test_the_answer_alone_by_hand() -> None:
    """Two tokens, one layer: keys and values of both, the rest at the last, which sees two."""
    shape = replace(shape_of(DENSE), layers=1)
    found = forward_flops(shape, reading([2]))
    kv, rest = 2 * 64 * 32, 2 * 64 * 64 + 3 * 64 * 96
    assert found.projections == 2 * (2 * kv + rest)
    assert found.attention == 4 * 64 * 2
    assert found.head == 2 * 64 * 512


def test_checkpointing_adds_a_forward_pass_of_the_layers_that_no_mfu_counts() -> None:
    shape, read = shape_of(DENSE), reading([100, 200])
    plain, again = training_flops(shape, read), training_flops(shape, read, checkpointing=True)
    forward = forward_flops(shape, read)
    assert again.total - plain.total == pytest.approx(forward.projections + forward.attention)
    assert (again.model, mfu(again, 2.0, plain.model)) == (plain.model, 0.5)


def test_readings_add_up() -> None:
    read = reading([3, 4], answers=5, every_position=True)
    assert read == Reading(2, 7, 6 + 10, 5, True)
    assert read.scaled(2) == Reading(4, 14, 32, 10, True)


def test_a_folder_without_a_shape_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 4}))
    with pytest.raises(DataError, match="does not say what shape the model has"):
        read_shape(tmp_path)
    assert asdict(KNOWN["Qwen3-0.6B"])["vocabulary"] == 151936
