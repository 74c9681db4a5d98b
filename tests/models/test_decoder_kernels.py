"""Triton's kernels compute what the plain decoder does: on a CUDA device, or slowly in Triton's interpreter (TRITON_INTERPRET=1)."""

import copy
import os
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.fixture(scope="module")
def device() -> str:
    import torch

    if find_spec("triton") is None or not (torch.cuda.is_available() or INTERPRETED):
        pytest.skip("no CUDA device with triton here (and TRITON_INTERPRET is not 1)")
    return "cpu" if INTERPRETED else "cuda"


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def model(request: pytest.FixtureRequest) -> Any:
    """Nothing in it is a multiple of a tile, and norms are not 1."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    shape = {
        "hidden_size": 72,
        "intermediate_size": 84,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "vocab_size": 150,
        "max_position_embeddings": 256,
        "head_dim": 16,
    }
    made = (
        LlamaForCausalLM(LlamaConfig(**shape))
        if request.param == "llama"
        else Qwen3ForCausalLM(Qwen3Config(**shape, tie_word_embeddings=True))
    )
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(1.0, 0.2) if parameter.ndim == 1 else parameter.normal_(0.0, 0.15)
    return made.eval()


def slots(model: Any, device: str, fused: bool, dtype: str = "float32") -> Any:
    """Seven conversations of different length in ten slots; three slots hold none."""
    import torch

    from rmlab.models.generation import CapturedReads, SlotDecoder

    decoder = SlotDecoder(copy.deepcopy(model), 10, 120, 149, device, getattr(torch, dtype), graphs=False)
    decoder.acting = copy.deepcopy(decoder.acting)
    from rmlab.models.decoder import CachedDecoder

    decoder.cached = CachedDecoder(decoder.acting, 10, 120, joined=True)
    assert decoder.cached.fused
    decoder.cached.fused = fused
    decoder.reads = CapturedReads(decoder.cached, capture=device == "cuda")
    rng = np.random.default_rng(0)
    held = [0, 1, 3, 4, 6, 7, 9]
    known = [rng.integers(2, 149, length).tolist() for length in (3, 40, 5, 66, 1, 9, 17)]
    known[4] = known[2]  # a prompt in common is read once
    decoder.put(held, known, [rng.random(121, dtype=np.float32) for _ in held])
    told = [rng.integers(2, 149, length).tolist() for length in (6, 2, 20, 1, 3, 5, 4)]
    decoder.append(held, [len(ids) for ids in known], told)
    total = [len(ids) + len(more) for ids, more in zip(known, told, strict=True)]
    decoder.activate(held, [length + 20 for length in total], [1.0, 0.7, 1.0, 0.0, 1.3, 1.0, 1.0])
    return decoder


@pytest.mark.gpu
def test_a_step_has_the_logits_of_the_plain_one(model: Any, device: str) -> None:
    import torch

    found = []
    for fused in (True, False):
        decoder = slots(model, device, fused)
        with torch.inference_mode():
            ids_W = decoder.ids_BS.gather(1, decoder.position_B[:, None])[:, 0]
            logits_WV = decoder.cached.step(ids_W, decoder.position_B, 128, decoder.active_B)
        found.append(logits_WV[decoder.active_B].cpu())
    assert found[0].shape == (7, 150)
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=5e-5)


@pytest.mark.gpu
def test_what_is_drawn_is_what_the_plain_decoder_draws(model: Any, device: str) -> None:
    said = []
    for fused in (True, False):
        decoder = slots(model, device, fused)
        for _ in range(4):
            active_B, position_B = decoder.decode(3, 9, 100)
        ids_NT, logprob_NT = decoder.drawn(range(10), 0, 100)
        said.append((active_B, position_B, ids_NT, logprob_NT))
    for one, other in zip(said[0][:3], said[1][:3], strict=True):
        assert np.array_equal(one, other)
    np.testing.assert_allclose(said[0][3], said[1][3], atol=1e-4)
    assert said[0][1].tolist()[2] == 0, "a slot that does not speak stays as it is"


@pytest.mark.gpu
@pytest.mark.parametrize("vocabulary", [50, 8192, 9000])
def test_a_token_is_the_first_whose_cumulated_probability_exceeds_the_number(vocabulary: int, device: str) -> None:
    import torch

    from rmlab.models import decoder_kernels

    torch.manual_seed(0)
    slots, stop = 64, 3
    logits = 3 * torch.randn(slots, vocabulary, device=device)
    logits[5] = 0.0
    logits[5, stop] = 100.0
    ids = torch.zeros((slots, 9), dtype=torch.int64, device=device)
    logprob, uniform = torch.zeros((slots, 9), device=device), torch.rand((slots, 9), device=device)
    position = torch.arange(slots, device=device) % 4
    last, active = torch.full_like(position, 4), torch.arange(slots, device=device) % 8 != 7
    temperature = torch.full((slots,), 0.8, device=device)
    temperature[::3] = 0.0
    scaled = logits.double() / torch.where(temperature == 0, 1.0, temperature)[:, None].double()
    reached = scaled.softmax(-1).cumsum(-1)
    number = uniform.gather(1, position[:, None] + 1).double()
    expected = torch.where(temperature == 0, logits.argmax(-1), (reached > number).int().argmax(-1))
    before = position.clone()
    was_active = active.clone()
    decoder_kernels.draw(logits, ids, logprob, uniform, position, last, active, temperature, stop)
    assert torch.equal(position, before + was_active)
    token = ids.gather(1, before[:, None] + 1)[:, 0]
    assert torch.equal(token, torch.where(was_active, expected, 0))
    exact = scaled.log_softmax(-1).gather(1, expected[:, None])[:, 0].float()
    found = logprob.gather(1, before[:, None] + 1)[:, 0]
    torch.testing.assert_close(found, torch.where(was_active, exact, 0.0), rtol=0, atol=2e-5)
    assert torch.equal(active, was_active & (expected != stop) & (before + 1 < 4))
    assert not active[5]
