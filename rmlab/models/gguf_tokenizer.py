"""The tokenizer of a Llama in GGUF, and how its vocabulary is cut to a corpus.

SmolLM's: single digits, then GPT-2's byte-level BPE. Its BOS is <|im_start|>, which every ChatML conversation begins with
already; it is therefore given none, else each prompt would begin with two.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rmlab.errors import DataError
from rmlab.models.gguf_llama import GgufLlama
from rmlab.models.tokenizer import IM_END, PAD, Tokenizer, _checked

ENCODED_AT_ONCE = 10_000


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
