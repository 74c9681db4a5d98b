"""Sequences side by side in one row: the numbers of each alone, whatever stands beside it."""

from typing import Any

import pytest
import torch

from rmlab.models.attention import Segments, attend
from rmlab.models.config import ModelConfig
from rmlab.models.heads import last_hidden, last_logits, pad_right
from rmlab.models.load import scratch_model
from rmlab.models.packed import pack_branches, pack_row, packed, packed_rows, packs
from rmlab.training.device import compiled_layers

SHAPE = ModelConfig(hidden_size=16, layers=3, heads=4, kv_heads=2, head_dim=8, intermediate_size=24, max_positions=64)
LENGTHS = (9, 33, 1, 20)


def sequences(seed: int = 0) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 100, (n,), generator=generator).tolist() for n in LENGTHS]


def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=100, num_key_value_heads=2, tie_word_embeddings=True, **shape))


def mixture() -> Any:
    return scratch_model(ModelConfig(**{**vars(SHAPE), "experts": 4, "expert_size": 8}), 100, seed=0)


MODELS = {"qwen3": lambda: scratch_model(SHAPE, 100, seed=0), "llama": llama, "mixture": mixture}


def test_a_row_says_where_its_sequences_lie() -> None:
    ids_1T, row = pack_row([[5, 6, 7], [8], [9, 9]], 0, width=4)
    assert ids_1T.tolist() == [[5, 6, 7, 8, 9, 9, 0, 0]]
    assert row.segments.cu_seqlens_q.tolist() == row.segments.cu_seqlens_k.tolist() == [0, 3, 4, 6, 8]
    assert row.segments.cu_seqlens_q.dtype == torch.int32
    assert row.position_1T.tolist() == [[0, 1, 2, 0, 0, 1, 0, 1]]
    assert row.last_S.tolist() == [2, 3, 5, 7]
    assert (row.count, row.segments.max_seqlen_q, row.segments.max_seqlen_k) == (3, 3, 3)
    full = pack_row([[1, 2], [3, 4]], 0, width=4)[1]
    assert full.segments.cu_seqlens_q.tolist() == [0, 2, 4], "a full row is not filled up"


@pytest.mark.parametrize("name", MODELS)
def test_side_by_side_values_and_gradients_are_those_of_padded_rows(name: str) -> None:
    found = []
    for join in (pad_right, pack_row, lambda rows, pad: pack_row(rows, pad, width=1)):
        model = MODELS[name]()
        assert packs(model)
        assert not packed(model)
        with packed_rows(model, join is not pad_right):
            logits_BV = last_logits(model, *join(sequences(), 0))
        assert not packed(model)
        logits_BV.square().sum().backward()
        found.append([logits_BV.detach(), *(p.grad for p in model.parameters())])
    for other in found[1:]:
        for ours, theirs in zip(other, found[0], strict=True):
            assert torch.allclose(ours, theirs, atol=1e-5 * max(float(theirs.abs().max()), 1.0))


@pytest.mark.parametrize("name", MODELS)
def test_no_sequence_sees_another(name: str) -> None:
    model = MODELS[name]().eval()
    rows, others = sequences(), sequences(seed=1)
    mixed = [others[0], rows[1], others[2], others[3]]
    with torch.no_grad(), packed_rows(model):
        first, second = (last_hidden(model, *pack_row(these, 0)) for these in (rows, mixed))
        backwards = last_hidden(model, *pack_row(rows[::-1], 0)).flip(0)
    assert torch.allclose(first[1], second[1], atol=1e-6)
    assert not torch.allclose(first[0], second[0], atol=1e-3)
    assert torch.allclose(first, backwards, atol=1e-6), "the order in a row changes nothing"


def test_attention_is_softmax_within_each_sequence_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(7, heads, 4, generator=generator) for heads in (4, 2, 2))
    segments = Segments.of([3, 4], [3, 4], "cpu")
    whole = attend(query, key, value, segments, 0.5)
    for token, (first, head) in {0: (0, 0), 2: (0, 1), 3: (3, 2), 6: (3, 3)}.items():
        seen = slice(first, token + 1)
        share = torch.softmax(0.5 * key[seen, head // 2] @ query[token, head], 0)
        assert torch.allclose(whole[token, head], share @ value[seen, head // 2], atol=1e-6)
    assert torch.allclose(attend(query[[2, 6]], key, value, segments.last_alone(), 0.5), whole[[2, 6]], atol=1e-6)


def test_models_whose_attention_cannot_be_told_keep_their_padding() -> None:
    for name, value in (("sliding_window", 8), ("attention_dropout", 0.1), ("layer_types", ["sliding_attention"] * 3)):
        model = scratch_model(SHAPE, 100, seed=0)
        setattr(model.config, name, value)
        assert not packs(model), name


def test_a_decoder_that_is_not_known_keeps_its_padding() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 50, "n_positions": 32}
    assert not packs(GPT2LMHeadModel(GPT2Config(**shape))), "its dropout has a name of its own"


def test_adapters_with_dropout_keep_their_padding() -> None:
    model = scratch_model(SHAPE, 100, seed=0)
    assert packs(model)
    model.model.layers[0].dropout = torch.nn.Dropout(0.1)
    assert not packs(model)


def test_compiled_once_for_rows_of_any_length_and_number_of_sequences() -> None:
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    counter, model = CompileCounter(), scratch_model(SHAPE, 100, seed=0).train()
    generator = torch.Generator().manual_seed(0)
    with packed_rows(model), compiled_layers(model, True, backend=counter):
        for lengths in ((5, 9), (7, 3, 20, 11), (30,), (60, 40, 50), (64, 64), (64, 64, 60, 3, 3, 3), (1, 2)):
            rows = [torch.randint(0, 100, (n,), generator=generator).tolist() for n in lengths]
            last_logits(model, *pack_row(rows, 0)).sum().backward()
    assert counter.frame_count == 1
    torch._dynamo.reset()


BEGINNINGS = ([5, 9, 2, 7], [8])
CONTINUATIONS = ([[4, 4, 1], [6], [3, 11, 12, 13, 14]], [[20, 21]])


def test_a_row_of_continuations_holds_each_beginning_once() -> None:
    ids_1T, branched, places = pack_branches([([5, 6], [[7], [8, 9]]), ([3], [[4]])], 0, width=4)
    assert ids_1T.tolist() == [[5, 6, 7, 8, 9, 3, 4, 0]]
    assert branched.segments.cu_seqlens_q.tolist() == [0, 2, 3, 5, 6, 7, 8]
    assert branched.position_1T.tolist() == [[0, 1, 2, 2, 3, 0, 1, 0]]
    assert branched.key_place_U is not None
    assert branched.key_place_U.tolist() == [0, 1, 0, 1, 2, 0, 1, 3, 4, 5, 5, 6, 7]
    assert branched.segments.cu_seqlens_k.tolist() == [0, 2, 5, 9, 10, 12, 13]
    assert branched.segments.cu_seqlens_k.dtype == torch.int32
    assert (branched.segments.max_seqlen_q, branched.segments.max_seqlen_k) == (2, 4)
    assert [[p.tolist() for p in of] for of in places] == [[[0, 1, 2], [0, 1, 3, 4]], [[5, 6]]]


@pytest.mark.parametrize("name", MODELS)
def test_continuations_read_and_teach_what_whole_conversations_do(name: str) -> None:
    found = []
    for branched in (True, False):
        model = MODELS[name]()
        decoder = model.get_decoder()
        with packed_rows(model, branched):
            if branched:
                ids_1T, rows, places = pack_branches(list(zip(BEGINNINGS, CONTINUATIONS, strict=True)), 0)
                hidden_TH = decoder(input_ids=ids_1T, use_cache=False, **rows.decoder_arguments).last_hidden_state[0]
                hidden = [hidden_TH[torch.from_numpy(of)] for group in places for of in group]
            else:
                whole = [[*b, *c] for b, of in zip(BEGINNINGS, CONTINUATIONS, strict=True) for c in of]
                hidden = [decoder(input_ids=torch.tensor([ids]), use_cache=False).last_hidden_state[0] for ids in whole]
        wave_H = torch.arange(16).sin()
        total = sum(torch.linspace(-1, 1, len(states)) @ (states @ wave_H) for states in hidden)
        total.backward()
        found.append(
            [*[states.detach() for states in hidden], *(p.grad for p in model.parameters() if p.grad is not None)]
        )
    assert len(found[0]) == len(found[1]) > 8
    for ours, theirs in zip(*found, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5 * max(float(theirs.abs().max()), 1.0))
