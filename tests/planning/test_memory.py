"""Bytes that a layer keeps for its backward pass, against what torch saves; the parts of a training's memory by hand."""

from typing import Any

import numpy as np
import pytest
import torch

from rmlab.models import prefix_decoder
from rmlab.models.config import LoraConfig, ModelConfig, TokenizerConfig
from rmlab.models.cost import KNOWN, ModelShape
from rmlab.models.heads import last_logits
from rmlab.models.load import scratch_model
from rmlab.models.lora import with_adapters
from rmlab.models.packed import pack_row, packed_rows
from rmlab.models.packed_layers import packed_layers
from rmlab.planning.memory import (
    GIB,
    TrainingMemory,
    layer_activations,
    rollout_memory,
    scoring_memory,
    training_memory,
)
from rmlab.training.device import checkpointed_layers

SHAPE = {"hidden_size": 64, "heads": 8, "kv_heads": 2, "head_dim": 16, "intermediate_size": 160}
VOCABULARY = 512


def built(head_norms: bool, layers: int) -> Any:
    if head_norms:
        return scratch_model(ModelConfig(layers=layers, tokenizer=TokenizerConfig(VOCABULARY), **SHAPE), VOCABULARY, 0)
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=64,
            num_hidden_layers=layers,
            num_attention_heads=8,
            num_key_value_heads=2,
            head_dim=16,
            intermediate_size=160,
            vocab_size=VOCABULARY,
            tie_word_embeddings=True,
            use_cache=False,
        )
    )


def saved(head_norms: bool, layers: int, tokens: int, half: bool, rank: int, checkpointing: bool) -> int:
    """Bytes of all storages that one forward pass leaves for its backward pass, without the weights themselves."""
    model = built(head_norms, layers)
    model = with_adapters(model.to(torch.bfloat16) if rank and half else model, LoraConfig(rank=rank), 0).train()
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if (place := tensor.untyped_storage().data_ptr()) not in weights:
            kept.setdefault(place, tensor)
        return tensor

    with (
        checkpointed_layers(model, checkpointing),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=half),
    ):
        last_logits(model, torch.randint(2, 500, (1, tokens)), torch.tensor([tokens]))
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("head_norms", [True, False], ids=["qwen3", "llama"])
def test_a_layer_keeps_what_torch_saves(head_norms: bool, rank: int, half: bool) -> None:
    """Exactly: what a further layer takes at a further 64 tokens."""

    def at(layers: int, tokens: int) -> int:
        return saved(head_norms, layers, tokens, half, rank, checkpointing=False)

    more = (at(3, 128) - at(2, 128)) - (at(3, 64) - at(2, 64))
    shape = ModelShape(64, 3, 8, 2, 16, 160, VOCABULARY, head_norms=head_norms)
    assert layer_activations(shape, half, rank) == more / 64


@pytest.mark.parametrize("head_norms", [True, False], ids=["qwen3", "llama"])
def test_a_layer_for_packed_rows_keeps_what_torch_saves(head_norms: bool) -> None:
    """Exactly, but for a copy of what attention gives: on a CPU its heads lie before its positions. Masks are a CPU's too."""

    def at(layers: int, tokens: int) -> int:
        model = built(head_norms, layers).train()
        weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
        kept: dict[int, torch.Tensor] = {}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            if (place := tensor.untyped_storage().data_ptr()) not in weights and tensor.shape[-2:] != (tokens, tokens):
                kept.setdefault(place, tensor)
            return tensor

        ids_1T, row = pack_row([np.full(tokens, 7, np.int32)], 1, width=1)
        with (
            packed_rows(model),
            packed_layers(model, True),
            torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
            torch.autocast("cpu", torch.bfloat16),
        ):
            last_logits(model, ids_1T, row)
        return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())

    more = (at(3, 200) - at(2, 200)) - (at(3, 100) - at(2, 100))
    shape = ModelShape(64, 3, 8, 2, 16, 160, VOCABULARY, head_norms=head_norms)
    assert layer_activations(shape, True, 0, packed_layers=True) + 2 * shape.queries == more / 100


@pytest.mark.parametrize(("rank", "half", "kept"), [(0, True, 4 * 64), (0, False, 4 * 64), (4, True, 2 * 64)])
def test_checkpointing_keeps_what_goes_into_a_layer(rank: int, half: bool, kept: int) -> None:
    more = saved(True, 3, 64, half, rank, True) - saved(True, 2, 64, half, rank, True)
    assert more == 64 * kept


def test_parts_by_hand() -> None:
    """AdamW in float32: 4 bytes of weights, 4 of gradients, 8 of moments each; sharded over two GPUs half of it."""
    shape = KNOWN["Qwen3-0.6B"]
    run = TrainingMemory(True, 0, True, 8192, 1, 1)
    memory = training_memory(shape, run)
    assert (memory.weights, memory.gradients, memory.moments) == tuple(596_049_920 * n for n in (4, 4, 8))
    assert memory.total == sum(memory.parts().values())
    two = training_memory(shape, TrainingMemory(True, 0, True, 8192, 1, 1, gpus=2))
    assert (two.weights, two.moments) == (memory.weights / 2, memory.moments / 2)
    adapted = training_memory(shape, TrainingMemory(True, 16, True, 8192, 1, 1))
    trained = shape.adapter_weights(16)
    assert adapted.weights == 2 * 596_049_920 + 4 * trained
    assert adapted.moments == 8 * trained


def test_scoring_and_rollouts_by_hand() -> None:
    shape = KNOWN["SmolLM2-135M"]
    assert scoring_memory(shape, True, True, 1000, 1).weights == 2 * 134_515_008
    assert rollout_memory(shape, 512, 768, True).cache == 2 * 2 * 30 * 3 * 64 * 512 * 768


def test_what_was_measured() -> None:
    """The Qwen3-0.6B shape on an H200, 79 GiB at 32,768 padded tokens and 45 GiB at 16,384 (two rows of up to 8,192, several a step)."""
    for tokens, measured in ((32768, 79), (16384, 45)):
        run = TrainingMemory(True, 0, False, tokens, tokens // 8192, tokens // 8192)
        assert training_memory(KNOWN["Qwen3-0.6B"], run).total / GIB == pytest.approx(measured, rel=0.05)


def test_what_scoring_makes_at_once_is_what_the_decoder_makes() -> None:
    """Widths of `rmlab.models.prefix_decoder`: 8 bytes of each inner value, with experts 10 of each hidden one too; at most PARTS_BYTES."""
    dense, mixed = KNOWN["Qwen3-4B"], KNOWN["Qwen3-30B-A3B"]
    for shape, width in ((dense, 8 * 9728), (mixed, 2 * 8 * (5 * 2048 + 4 * 768))):
        stream = 12 * shape.hidden_size + 2 * (shape.hidden_size + 2 * shape.queries + 2 * shape.keys)
        assert scoring_memory(shape, True, True, 1000, 1).activations == 1000 * (stream + width)
        many = scoring_memory(shape, True, True, 131072, 1).activations
        assert many - 131072 * stream == prefix_decoder.PARTS_BYTES
