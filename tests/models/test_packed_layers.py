"""The layers as a GPU trains through them: the model's own in value and gradient, and one compiled function for all."""

import pytest
import torch

from rmlab.models.heads import last_logits
from rmlab.models.packed import pack_row, packed_rows
from rmlab.models.packed_layers import has_packed_layers, packed_layers, packed_layers_of
from tests.models.test_packed import MODELS, sequences


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", ["qwen3", "llama"])
def test_values_and_gradients_are_the_models_own(name: str, checkpointing: bool) -> None:
    found = []
    for wanted in (False, True):
        model = MODELS[name]().train()
        decoder = model.get_decoder()
        assert has_packed_layers(decoder)
        names = [key for key, _ in model.named_parameters()]
        with packed_rows(model), packed_layers(model, wanted, checkpointing=checkpointing):
            assert (packed_layers_of(decoder) is not None) is wanted
            assert [key for key, _ in model.named_parameters()] == names
            logits_BV = last_logits(model, *pack_row(sequences(), 0))
        assert packed_layers_of(decoder) is None
        logits_BV.square().sum().backward()
        found.append([logits_BV.detach(), *(p.grad for p in model.parameters())])
    for ours, theirs in zip(*found, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5 * max(float(theirs.abs().max()), 1.0))


def test_one_compiled_function_serves_all_layers_and_rows_of_any_length() -> None:
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    counter, model = CompileCounter(), MODELS["qwen3"]().train()
    generator = torch.Generator().manual_seed(0)
    with packed_rows(model), packed_layers(model, True, compiled=True, backend=counter):
        for lengths in ((5, 9), (7, 3, 20, 11), (30,), (60, 40, 50), (64, 64, 60, 3, 3, 3), (1, 2)):
            rows = [torch.randint(0, 100, (n,), generator=generator).tolist() for n in lengths]
            with torch.autocast("cpu", torch.bfloat16):
                last_logits(model, *pack_row(rows, 0)).sum().backward()
    assert counter.frame_count == 1
    torch._dynamo.reset()


def test_adapters_and_experts_keep_the_layers_of_transformers() -> None:
    peft = pytest.importorskip("peft")
    assert not has_packed_layers(MODELS["mixture"]().get_decoder())
    adapted = peft.get_peft_model(MODELS["qwen3"](), peft.LoraConfig(r=2, target_modules=["q_proj"]))
    assert not has_packed_layers(adapted.get_base_model().get_decoder())
