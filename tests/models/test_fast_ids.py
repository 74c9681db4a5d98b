"""`Tokenizer.encode` asks for ids alone, without their places in the text: they are those of a tokenizer that is asked for both."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Backend

from rmlab.models.config import TokenizerConfig
from rmlab.models.tokenizer import IM_END, IM_START, Tokenizer, load_tokenizer, train_tokenizer
from rmlab.paths import STARTER
from rmlab.trajectories.store import read_trajectories
from rmlab.verifiers.prompt import render

GPT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
"""How Qwen's tokenizers cut a text before they merge."""
PIECES = (
    *("def ", "return", "x", "ab", "foo_bar", "is", "41", "7", "(", ")", "==", "'s", "\\", "<|im_", "|>", "<s>", "▁"),
    *(" ", "  ", "\t", "\n", "\r\n", "\n    ", "\u00a0", "\u2003", "\u200b", "\x1c", "\x00", "\u2028", "\ufffd"),
    *("é", "e\u0301", "ß", "ﬁ", "日本", "한", "٣", "½", "🙂", "👩\u200d💻", IM_START, IM_END),
)


def drawn(number: int) -> list[str]:
    rng = random.Random(0)
    return ["".join(rng.choices(PIECES, k=rng.randrange(40))) for _ in range(number)]


def of_qwens_kind() -> Any:
    """NFC, GPT's rule with its look ahead, bytes."""
    backend = Backend(models.BPE())
    backend.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(GPT), behavior="isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    return trained(backend, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def of_llamas_kind() -> Any:
    """A space in front of all, no rule that cuts, bytes where a character is not known."""
    backend = Backend(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return trained(backend, special_tokens=["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256))])


def trained(backend: Any, **how: Any) -> Any:
    texts = [text.replace(IM_START, "").replace(IM_END, "") for text in drawn(300)]
    backend.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=700, show_progress=False, **how))
    backend.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in (IM_START, IM_END)])
    backend.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    return backend


def our_own() -> Any:
    return train_tokenizer(drawn(300), TokenizerConfig(vocab_size=400)).hf.backend_tokenizer


@pytest.mark.parametrize("made", [our_own, of_qwens_kind, of_llamas_kind])
def test_ids_are_those_that_come_with_their_places(made: Callable[[], Any]) -> None:
    backend = made()
    texts = drawn(3000)
    found = Tokenizer(SimpleNamespace(backend_tokenizer=backend, bos_token_id=None, bos_token=None)).encode(texts)
    assert found == [encoding.ids for encoding in backend.encode_batch(texts, add_special_tokens=False)]
    assert len({id_ for ids in found for id_ in ids}) > 100, "many of its ids occur"


def test_ids_of_prompts_are_those_that_come_with_their_places() -> None:
    tokenizer = load_tokenizer(STARTER / "base")
    pool = read_trajectories(STARTER / "trajectories.parquet", parts=["evaluation"]).trajectories
    prompts = [render(trajectory, tokenizer.reserved) for trajectory in pool[::20]]
    plain = tokenizer.hf.backend_tokenizer.encode_batch(prompts, add_special_tokens=False)
    assert tokenizer.encode(prompts) == [tokenizer.front + encoding.ids for encoding in plain]
