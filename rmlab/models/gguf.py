"""A Llama in GGUF, 4 bits a weight, as a transformers model: what the file holds, and the numbers that its blocks stand for.

Weights stay in their blocks until a model folder is written, so that a cut vocabulary or a journey to another machine costs no
precision. Layouts after ggml's block_q4_1 and block_q8_0. llama.cpp stores the rows of q and k in pairs, for a rotation of
neighbours; transformers rotates halves: the rows are put back. transformers can read such a file itself, but not save it then.
"""

import importlib.util
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmlab.errors import DataError
from rmlab.files import MODEL, atomic_folder
from rmlab.models.tokenizer import IM_END, PAD, Tokenizer, _checked

BLOCK = 32  # weights a block
KINDS = ("Q4_1", "Q8_0", "F32")
_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
EMBEDDING = "model.embed_tokens.weight"


@dataclass(frozen=True)
class Packed:
    """One tensor as the file holds it. kind: of KINDS. raw: bytes a row (uint8, one row a row of the matrix), or float32.

    heads: 0, or how many heads' rows lie in pairs.
    """

    kind: str
    raw: NDArray[Any]
    heads: int = 0


@dataclass(frozen=True)
class GgufLlama:
    """config: of transformers' LlamaConfig. tensors: by transformers' names. tokens: by id, in GPT-2's byte letters.

    merges: "left right", in order of rank. special: tokens that are no text.
    """

    config: dict[str, Any]
    tensors: dict[str, Packed]
    tokens: tuple[str, ...]
    merges: tuple[str, ...]
    special: tuple[str, ...]

    def with_tokens(self, kept: NDArray[np.int64], merges: tuple[str, ...]) -> "GgufLlama":
        """The same model with fewer tokens: those of the ids `kept`, which get new ids in that order."""
        embedding = self.tensors[EMBEDDING]
        tensors = self.tensors | {EMBEDDING: replace(embedding, raw=np.ascontiguousarray(embedding.raw[kept]))}
        tokens = tuple(self.tokens[i] for i in kept)
        return GgufLlama(
            self.config | {"vocab_size": len(tokens)},
            tensors,
            tokens,
            merges,
            tuple(s for s in self.special if s in tokens),
        )

    def with_token(self, left: str, right: str) -> "GgufLlama":
        """The same model with one token more: `right` behind `left`, embedded as their mean until training says better."""
        embedding = self.tensors[EMBEDDING]
        pair = replace(embedding, raw=embedding.raw[[self.tokens.index(left), self.tokens.index(right)]])
        row = quantised(dequantised(pair).mean(0, keepdims=True), embedding.kind)
        tensors = self.tensors | {EMBEDDING: replace(embedding, raw=np.concatenate([embedding.raw, row]))}
        tokens = (*self.tokens, left + right)
        return GgufLlama(
            self.config | {"vocab_size": len(tokens)}, tensors, tokens, (*self.merges, f"{left} {right}"), self.special
        )


def check_reader() -> None:
    """Raises DataError where the package that reads GGUF is missing: to be asked before a file is fetched."""
    if importlib.util.find_spec("gguf") is None:
        raise DataError("reading GGUF needs the package gguf: pip install -e '.[gguf]' -c constraints.txt")


def read_gguf(path: Path) -> GgufLlama:
    """Reads a file (needs the extra `gguf`). Raises DataError where it is no Llama with a GPT-2 tokenizer in these block kinds."""
    check_reader()
    from gguf import GGUFReader

    reader = GGUFReader(str(path))
    field = {name: value.contents() for name, value in reader.fields.items()}
    if field.get("general.architecture") != "llama" or field.get("tokenizer.ggml.model") != "gpt2":
        raise DataError(
            f"{path} holds a {field.get('general.architecture')} with a {field.get('tokenizer.ggml.model')} tokenizer; "
            "only a llama with a gpt2 tokenizer is supported"
        )
    heads, kv_heads = int(field["llama.attention.head_count"]), int(field["llama.attention.head_count_kv"])
    tensors = {}
    for tensor in reader.tensors:
        kind = tensor.tensor_type.name
        if kind not in KINDS:
            raise DataError(f"{path}: {tensor.name} is stored as {kind}; supported are {', '.join(KINDS)}")
        paired = heads if ".attn_q." in tensor.name else kv_heads if ".attn_k." in tensor.name else 0
        tensors[_name(tensor.name)] = Packed(kind, np.array(tensor.data), paired)
    config = {
        "vocab_size": len(field["tokenizer.ggml.tokens"]),
        "hidden_size": int(field["llama.embedding_length"]),
        "intermediate_size": int(field["llama.feed_forward_length"]),
        "num_hidden_layers": int(field["llama.block_count"]),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": int(field["llama.context_length"]),
        "rms_norm_eps": round(float(field["llama.attention.layer_norm_rms_epsilon"]), 9),
        "rope_theta": float(field["llama.rope.freq_base"]),
        "tie_word_embeddings": "lm_head.weight" not in tensors,
    }
    control = zip(field["tokenizer.ggml.tokens"], field["tokenizer.ggml.token_type"], strict=True)
    return GgufLlama(
        config,
        tensors,
        tuple(field["tokenizer.ggml.tokens"]),
        tuple(field["tokenizer.ggml.merges"]),
        tuple(token for token, kind in control if kind == 3),
    )


def _name(gguf: str) -> str:
    whole = {
        "token_embd.weight": EMBEDDING,
        "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }
    if gguf in whole:
        return whole[gguf]
    _, layer, part, end = gguf.split(".")
    return f"model.layers.{layer}.{_NAMES[part]}.{end}"


def dequantised(packed: Packed) -> NDArray[np.float32]:
    """The numbers of a tensor, rows where transformers has them."""
    if packed.kind == "F32":
        return np.asarray(packed.raw, dtype=np.float32)
    rows = len(packed.raw)
    if packed.kind == "Q8_0":  # scale (float16), 32 signed bytes
        blocks = packed.raw.reshape(rows, -1, 2 + BLOCK)
        value = np.ascontiguousarray(blocks[..., 2:]).view(np.int8).astype(np.float32) * _half(blocks[..., :2])
    else:  # scale, minimum (float16), 16 bytes: their low halves come first, then the high ones
        blocks = packed.raw.reshape(rows, -1, 4 + BLOCK // 2)
        quarter = np.concatenate([blocks[..., 4:] & 15, blocks[..., 4:] >> 4], axis=-1).astype(np.float32)
        value = quarter * _half(blocks[..., :2]) + _half(blocks[..., 2:4])
    matrix = value.reshape(rows, -1)
    if packed.heads:
        matrix = matrix.reshape(packed.heads, rows // packed.heads // 2, 2, -1).swapaxes(1, 2).reshape(rows, -1)
    return matrix


def quantised(value: NDArray[np.float32], kind: str) -> NDArray[Any]:
    """Numbers in blocks of a kind. Only Q8_0 and F32, the kinds of embeddings. Raises DataError for another."""
    if kind == "F32":
        return value
    if kind != "Q8_0":
        raise DataError(f"no token can be added to an embedding stored as {kind}")
    blocks = value.reshape(len(value), -1, BLOCK)
    scale = (np.abs(blocks).max(-1, keepdims=True) / 127).astype(np.float16)
    steps = np.round(blocks / np.where(scale == 0, 1, scale).astype(np.float32)).clip(-127, 127).astype(np.int8)
    return np.concatenate([scale.view(np.uint8), steps.view(np.uint8)], axis=-1).reshape(len(value), -1)


def _half(pair: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.ascontiguousarray(pair).view(np.float16).astype(np.float32)


def write_model(llama: GgufLlama, folder: Path, record: Mapping[str, Any]) -> Path:
    """A model folder (float16: finer than the blocks' own steps) with its tokenizer and source.json, whole or not at all."""
    import json

    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from rmlab.models.load import no_bars

    no_bars()
    config = LlamaConfig(**llama.config, bos_token_id=None, eos_token_id=llama.tokens.index("<|im_end|>"))
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    state = {name: torch.from_numpy(dequantised(packed)).to(torch.float16) for name, packed in llama.tensors.items()}
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state[EMBEDDING]
    model.load_state_dict(state, strict=True, assign=True)
    model.tie_weights()
    with atomic_folder(folder, MODEL) as temporary:
        model.save_pretrained(str(temporary))
        gguf_tokenizer(llama).save(temporary)
        (temporary / "source.json").write_text(json.dumps(dict(record), indent=1) + "\n", encoding="utf-8")
    return folder


ENCODED_AT_ONCE = 1_000


def gguf_tokenizer(llama: GgufLlama) -> Tokenizer:
    """The tokenizer. Raises DataError where it lacks the ChatML markers."""
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Backend
    from transformers import PreTrainedTokenizerFast

    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in llama.merges)]
    backend = Backend(models.BPE(vocab={token: i for i, token in enumerate(llama.tokens)}, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in llama.special])
    fast: Any = PreTrainedTokenizerFast  # its constructor is not typed
    others = [token for token in llama.special if token not in (PAD, IM_END)]
    hf = fast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=IM_END,
        additional_special_tokens=others,
        clean_up_tokenization_spaces=False,
    )
    return _checked(hf, "the GGUF file's tokenizer")


def with_words(llama: GgufLlama, words: Sequence[str]) -> GgufLlama:
    """The model in which each word, standing alone, is one token: verifiers answer by one. Raises DataError where it stays several."""
    for word in words:
        while len(ids := gguf_tokenizer(llama).encode([word])[0]) > 1:
            left, right = llama.tokens[ids[0]], llama.tokens[ids[1]]
            if left + right in llama.tokens:
                raise DataError(f"{word!r} is written in {len(ids)} tokens, and no merge of the first two changes that")
            llama = llama.with_token(left, right)
    return llama


def cut_vocabulary(llama: GgufLlama, texts: Iterable[str], size: int) -> GgufLlama:
    """The model with the `size` tokens that the texts use most, and what these are merged from.

    Special tokens and the 256 bytes stay, so every text can still be written (of rarer words in more tokens). Raises DataError
    where `size` is less than what has to stay.
    """
    from tokenizers.pre_tokenizers import ByteLevel

    tokenizer = gguf_tokenizer(llama)
    counts: Counter[int] = Counter()
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == ENCODED_AT_ONCE:
            counts.update(i for ids in tokenizer.encode(batch) for i in ids)
            batch = []
    counts.update(i for ids in tokenizer.encode(batch) for i in ids)
    number = {token: i for i, token in enumerate(llama.tokens)}
    parts = {left + right: (left, right) for left, right in (merge.split(" ") for merge in llama.merges)}
    kept = {*llama.special, *(letter for letter in ByteLevel.alphabet() if letter in number)}
    if size < len(kept):
        raise DataError(
            f"a vocabulary of {size} is too small: {len(kept)} tokens (bytes and special ones) have to stay"
        )
    for i, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        family = _with_parts(llama.tokens[i], parts) - kept
        if len(kept) + len(family) > size:
            break
        kept |= family
    merges = tuple(m for m in llama.merges if {*m.split(" "), m.replace(" ", "")} <= kept)
    return llama.with_tokens(np.array(sorted(number[token] for token in kept)), merges)


def _with_parts(token: str, parts: dict[str, tuple[str, str]]) -> set[str]:
    """A token and all that it is merged from."""
    family, open_ones = set(), [token]
    while open_ones:
        one = open_ones.pop()
        family.add(one)
        open_ones += parts.get(one, ())
    return family
