"""The corpus as token ids: its tokenizer, the rows that a base model reads, and those that are held out."""

from typing import TYPE_CHECKING

from rmlab.models.config import ModelConfig
from rmlab.models.tokenizer import Tokenizer, train_tokenizer
from rmlab.pretraining.comparisons import OTHER, SAME, comparisons
from rmlab.pretraining.corpus import Corpus, Kind
from rmlab.training.config import LanguageConfig
from rmlab.verifiers.prompt import NO, OPEN_ANSWER, YES

if TYPE_CHECKING:
    from rmlab.training.batching import Rows

TOKENIZER_CHARACTERS = 6_000_000  # of each kind of document


def base_tokenizer(corpus: Corpus, model: ModelConfig) -> Tokenizer:
    """BPE over as much of every kind; the answers are among the texts, so that each becomes one token behind its turn."""
    texts: list[str] = []
    for kind in Kind:
        room = TOKENIZER_CHARACTERS
        for document in corpus.of(kind):
            texts.append(document.text)
            room -= len(document.text)
            if room < 0:
                break
    answers = [OPEN_ANSWER + answer for answer in (YES, NO, SAME, OTHER) for _ in range(len(texts) // 10 + 2)]
    return train_tokenizer([*texts, *answers], model.tokenizer)


def packed(corpus: Corpus, tokenizer: Tokenizer, config: LanguageConfig) -> "tuple[Rows, dict[str, Rows]]":
    """Rows to read, and the held-out rows by kind: the first documents of each, which are a sample by hash.

    Code and repairs end with the padding id, so that a model learns where they end. Episodes do not: what follows them is
    an answer, which no text gives.
    """
    from rmlab.training.batching import pack

    read: list[list[int]] = []
    held_out: dict[str, Rows] = {}
    for kind in Kind:
        end = [] if kind is Kind.episode else [tokenizer.pad_id]
        ids = [one + end for one in tokenizer.encode([d.text for d in corpus.of(kind)])]
        kept = round(config.held_out * len(ids))
        if kept:
            held_out[kind.value] = pack(ids[:kept], config.context, tokenizer.pad_id)
        read += ids[kept:]
    return pack(read, config.context, tokenizer.pad_id), held_out


def asked(corpus: Corpus, tokenizer: Tokenizer, config: LanguageConfig, seed: int) -> "tuple[Rows, Rows]":
    """Rows of comparisons of which only the answer is asked for: those that are read, and held-out ones of held-out episodes.

    Prints how many are longer than the context and left out.
    """
    from rmlab.training.batching import pack

    episodes = [document.text for document in corpus.of(Kind.episode)]
    kept = round(config.held_out * len(episodes))

    def rows(texts: list[str], number: int) -> "Rows":
        asked = [c.prompt + c.answer for c in comparisons(texts, number, seed)]
        ids = [one for some in range(0, len(asked), 20_000) for one in tokenizer.encode(asked[some : some + 20_000])]
        fitting = [one for one in ids if len(one) <= config.context]
        print(
            f"comparisons: {len(ids):,} made, {len(ids) - len(fitting):,} of them left out: over {config.context} tokens"
        )
        return pack(fitting, config.context, tokenizer.pad_id, last_only=True)

    return rows(episodes[kept:], config.comparisons), rows(episodes[:kept], max(config.comparisons // 100, 1))
