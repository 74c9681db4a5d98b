"""First weights follow from seed and shape alone; logits behind the last token do not see the padding."""

from dataclasses import replace

import pytest
import torch

from rmlab.errors import DataError, UsageError
from rmlab.models.config import ModelConfig
from rmlab.models.heads import last_logits, pad_right
from rmlab.models.load import load_model, scratch_model

SHAPE = ModelConfig(hidden_size=32, layers=2, heads=4, kv_heads=2, head_dim=8, intermediate_size=48, max_positions=64)


def test_seeded_and_independent_of_global_state() -> None:
    torch.manual_seed(1)
    first = scratch_model(SHAPE, 100, seed=3)
    state = torch.get_rng_state()
    torch.manual_seed(2)
    second = scratch_model(SHAPE, 100, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(next(first.parameters()), next(scratch_model(SHAPE, 100, seed=4).parameters()))
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state), "building a model draws nothing from the global generator"


def test_scale_of_first_weights_and_tied_head() -> None:
    model = scratch_model(SHAPE, 100, seed=0)
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    gate = model.model.layers[0].mlp.down_proj.weight
    assert gate.std().item() == pytest.approx(48**-0.5, rel=0.1)
    assert model.config.head_dim == 8


def test_last_logits_equal_the_models_own_on_each_sequence_alone() -> None:
    model = scratch_model(SHAPE, 100, seed=0).eval()
    generator = torch.Generator().manual_seed(0)
    sequences = [torch.randint(0, 100, (n,), generator=generator).tolist() for n in (1, 7, 30, 12)]
    ids_BT, length_B = pad_right(sequences, pad_id=99)
    assert ids_BT.shape == (4, 30)
    with torch.inference_mode():
        together = last_logits(model, ids_BT, length_B)
        masked = model(input_ids=ids_BT, attention_mask=(torch.arange(30) < length_B[:, None]).long()).logits
        for row, sequence in enumerate(sequences):
            alone = model(input_ids=torch.tensor([sequence])).logits[0, -1]
            assert torch.allclose(together[row], alone, atol=2e-6)
            assert torch.allclose(together[row], masked[row, len(sequence) - 1], atol=2e-6), (
                "a mask would change nothing"
            )


def test_impossible_shapes_and_missing_folders_are_named(tmp_path) -> None:
    with pytest.raises(UsageError, match="heads=3 must be a multiple"):
        scratch_model(ModelConfig(heads=3, kv_heads=2), 100, 0)
    with pytest.raises(DataError, match=r"config\.json is missing"):
        load_model(tmp_path)


def test_the_short_last_layer_is_the_models_own_in_value_and_gradient() -> None:
    generator = torch.Generator().manual_seed(0)
    ids_BT, length_B = pad_right([torch.randint(0, 100, (n,), generator=generator).tolist() for n in (9, 33, 1)], 99)
    for shape in (SHAPE, replace(SHAPE, layers=1, kv_heads=4), replace(SHAPE, layers=3, head_dim=16)):
        gradients = []
        for short in (True, False):
            model = scratch_model(shape, 100, seed=0)
            whole = model(input_ids=ids_BT).logits[torch.arange(3), length_B - 1]
            logits_BV = last_logits(model, ids_BT, length_B) if short else whole
            logits_BV.square().sum().backward()
            gradients.append([logits_BV.detach(), *(p.grad for p in model.parameters())])
        for ours, theirs in zip(*gradients, strict=True):
            assert torch.allclose(ours, theirs, atol=2e-5 * float(theirs.abs().max()))


def test_another_architecture_takes_the_models_own_path() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2)
    ).eval()
    ids_BT, length_B = pad_right([[1, 2, 3], [4]], 0)
    with torch.inference_mode():
        assert torch.allclose(
            last_logits(model, ids_BT, length_B)[1], model(input_ids=torch.tensor([[4]])).logits[0, -1], atol=1e-5
        )
