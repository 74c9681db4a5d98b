"""What conversations in slots have read, whatever stands beside them."""

from typing import Any

import pytest


@pytest.fixture(scope="module")
def llama() -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=50,
        max_position_embeddings=256,
        head_dim=8,
    )
    return LlamaForCausalLM(config).eval()


def logits(model: Any, joined: bool, lengths: list[int]) -> Any:
    """Of the next token after two readings in each of the slots 1, 2, ..., slot 0 holding a conversation of its own."""
    import torch

    from rmlab.models.decoder import CachedDecoder

    cached = CachedDecoder(model, 6, 120, joined=joined)
    drawn = torch.Generator().manual_seed(1)
    row_N = torch.arange(1, 1 + len(lengths))
    with torch.inference_mode():
        cached.read(torch.tensor([[3, 1, 4, 1, 5]]), torch.tensor([0]), torch.tensor([0]), torch.tensor([5]), 64)
        position_N = torch.zeros_like(row_N)
        for times in (1, 2):
            length_N = torch.tensor(lengths) * times
            ids_NT = torch.randint(2, 50, (len(lengths), int(length_N.max())), generator=drawn)
            cached.read(ids_NT, row_N, position_N, length_N, 128)
            position_N = position_N + length_N
        ids_W = torch.full((6,), 7)
        position_W = torch.cat([torch.tensor([5]), position_N, torch.zeros(5 - len(lengths), dtype=torch.int64)])
        return cached.step(ids_W, position_W, 128)[: 1 + len(lengths)]


@pytest.mark.parametrize("lengths", [[6, 2, 9], [1], [20, 5, 11, 3]])
def test_conversations_that_are_read_together_are_as_if_each_were_read_alone(llama: Any, lengths: list[int]) -> None:
    import torch

    from rmlab.models.decoder import CachedDecoder

    together = logits(llama, False, lengths)
    drawn = torch.Generator().manual_seed(1)
    parts = [torch.randint(2, 50, (len(lengths), times * max(lengths)), generator=drawn) for times in (1, 2)]
    for row, length in enumerate(lengths):
        ids = [*parts[0][row, :length].tolist(), *parts[1][row, : 2 * length].tolist(), 7]
        with torch.inference_mode():
            alone = llama(input_ids=torch.tensor([ids])).logits[0, -1]
        torch.testing.assert_close(together[1 + row], alone, rtol=0, atol=2e-6)
    assert CachedDecoder(llama, 2, 64).fused is False


def test_joined_projections_are_the_same_products_and_follow_the_weights(llama: Any) -> None:
    import copy

    import torch

    mine = copy.deepcopy(llama)
    torch.testing.assert_close(logits(mine, True, [4, 2]), logits(llama, False, [4, 2]), rtol=0, atol=2e-6)
    from rmlab.models.decoder import CachedDecoder

    cached = CachedDecoder(mine, 2, 64, joined=True)
    with torch.no_grad():
        for name in ("q_proj", "v_proj"):  # written in place, as `refresh` does
            getattr(mine.model.layers[0].self_attn, name).weight.mul_(2)
        mine.model.layers[1].mlp.up_proj.weight.zero_()
    ids, position = torch.tensor([5, 9]), torch.tensor([0, 0])
    with torch.inference_mode():
        found = cached.step(ids, position, 64)
        plain = mine(input_ids=ids[:, None]).logits[:, 0]
    torch.testing.assert_close(found, plain, rtol=0, atol=2e-6)


def test_what_is_copied_is_as_if_it_had_been_read(llama: Any) -> None:
    import numpy as np
    import torch

    from rmlab.models.generation import SlotDecoder

    uniform = [np.random.default_rng(n).random(41, dtype=np.float32) for n in range(3)]
    known = [[3, 1, 4, 1, 5], [2, 7], [3, 1, 4, 1, 5]]
    said = []
    for together in (True, False):
        decoder = SlotDecoder(llama, 3, 40, stop_id=49, device="cpu", dtype=torch.float32, graphs=False)
        for part in [[0, 1, 2]] if together else [[0], [1], [2]]:
            decoder.put(part, [known[n] for n in part], [uniform[n] for n in part])
        decoder.activate([0, 1, 2], [12, 12, 12], [1.0, 1.0, 1.0])
        for _ in range(12):
            decoder.decode(1, 2, 12)
        said.append((decoder.drawn([0, 1, 2], 0, 13), decoder.state()[1]))
    assert np.array_equal(said[0][0][0], said[1][0][0])
    np.testing.assert_allclose(said[0][0][1], said[1][0][1], atol=2e-6)
    assert not np.array_equal(said[0][0][0][0], said[0][0][0][2])  # the same prompt, random numbers of their own
