"""Text to token ids: byte-level BPE trained on our own text, or any pretrained tokenizer with ChatML markers.

Special tokens are never added by the tokenizer itself (templates differ in how many they add): `Tokenizer.encode` puts
exactly one BOS in front where the tokenizer has one, and nothing else.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rmlab.errors import DataError
from rmlab.files import atomic_path
from rmlab.fingerprint import fingerprint, fingerprint_lines
from rmlab.models.config import TokenizerConfig

IM_START, IM_END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"

SEMANTICS = 1
"""Bumped when the trainer below gives other merges for the same texts."""

# Words with the space before them, single digits, single signs, and a line break with the indent behind it. A value is
# then cut alike wherever it stands, which is what lets a small model compare "should return 41" with "final got 41".
PRE_TOKENS = r"\n[ \t]*| ?[A-Za-z]+|\d| ?[^\sA-Za-z\d]|\s+"


@dataclass(frozen=True)
class Tokenizer:
    """A transformers fast tokenizer, used in one way only."""

    hf: Any  # transformers.PreTrainedTokenizerFast: transformers is not imported before a command runs
    markers_added: bool = False  # its ChatML markers are not its model's own: see `rmlab.models.load.fit_rows`

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text: one BOS where the tokenizer has one, markers as single ids, no truncation."""
        backend = self.hf.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        front = self.front
        # "fast" gives the same ids; it does not say where in the text each stands, which takes time and is not asked for
        return [front + e.ids for e in backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, markers included."""
        return str(self.hf.backend_tokenizer.decode(list(ids), skip_special_tokens=False))

    @property
    def front(self) -> list[int]:
        """What stands in front of every text: the BOS, if there is one that does not open each turn anyway (as SmolLM2's does)."""
        bos = self.hf.bos_token_id
        return [] if bos is None or self.hf.bos_token == IM_START else [int(bos)]

    @cached_property
    def reserved(self) -> tuple[str, ...]:
        """Strings that the tokenizer reads as special tokens: content has to be escaped against them."""
        added = self.hf.added_tokens_decoder.values()
        return tuple(sorted({str(token.content) for token in added if token.special} | {IM_START, IM_END}))

    @property
    def size(self) -> int:
        """Number of token ids, added tokens included."""
        return len(self.hf)

    @property
    def pad_id(self) -> int:
        """The id that fills batches up; never read by a model (right padding, causal attention)."""
        return int(self.hf.pad_token_id if self.hf.pad_token_id is not None else self.hf.eos_token_id)

    @property
    def start_id(self) -> int:
        """The id of <|im_start|>."""
        return int(self.hf.convert_tokens_to_ids(IM_START))

    @cached_property
    def fingerprint(self) -> str:
        """Of everything that turns text into ids. The same before and after use, cold and warm. 16 hex digits."""
        content = json.loads(self.hf.backend_tokenizer.to_str())
        content["truncation"] = content["padding"] = None  # state that using a tokenizer leaves behind
        return fingerprint([content, self.hf.bos_token_id])

    def save(self, folder: Path) -> None:
        """Writes tokenizer.json and its configuration into a folder."""
        self.hf.save_pretrained(str(folder))


def load_tokenizer(folder: Path, chatml: bool = True, add_markers: bool = False) -> Tokenizer:
    """A tokenizer from a local folder. add_markers: gives it ChatML markers where it has none, for a model that is to be trained.

    Raises DataError where it is missing, slow, or, if `chatml`, has no ChatML markers.
    """
    from transformers import PreTrainedTokenizerFast

    # Not AutoTokenizer: for some kinds of models (qwen2) it puts rules of its own in place of those that tokenizer.json has.
    fast: Any = PreTrainedTokenizerFast
    try:
        hf = fast.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder} holds no readable tokenizer ({str(error).splitlines()[0]}). Name a folder with tokenizer.json."
        ) from error
    if not (lacks := add_markers and not _has_markers(hf)):
        return _checked(hf, str(folder), chatml)
    hf.add_special_tokens({"additional_special_tokens": [IM_START, IM_END]}, replace_extra_special_tokens=False)
    return replace(_checked(hf, str(folder)), markers_added=lacks)


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Byte-level BPE with ChatML markers. The same texts in the same order give the same tokenizer on any machine."""
    from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
    from tokenizers import Tokenizer as Backend

    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRE_TOKENS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        min_frequency=2,
        show_progress=False,
        special_tokens=[PAD, IM_START, IM_END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    backend.train_from_iterator(texts, trainer)
    return _wrapped(backend)


def cached_tokenizer(texts: Sequence[str], config: TokenizerConfig, cache: Path) -> Tokenizer:
    """`train_tokenizer`, remembered in the folder `cache` under a hash of texts and configuration.

    One file, renamed into place whole: any number of processes may ask at once, all get the same tokenizer.
    """
    import tokenizers

    key = fingerprint([SEMANTICS, tokenizers.__version__, config.vocab_size, PRE_TOKENS, fingerprint_lines(texts)])
    path = cache / f"{key}.json"
    if not path.is_file():
        trained = train_tokenizer(texts, config)
        with atomic_path(path) as temporary:
            temporary.write_text(trained.hf.backend_tokenizer.to_str(), encoding="utf-8")
    return _wrapped(tokenizers.Tokenizer.from_file(str(path)))


def _wrapped(backend: Any) -> Tokenizer:
    from transformers import PreTrainedTokenizerFast

    fast: Any = PreTrainedTokenizerFast  # its constructor is not typed
    hf = fast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=IM_END,
        additional_special_tokens=[IM_START],
        clean_up_tokenization_spaces=False,
    )
    return _checked(hf, "the trained tokenizer")


def _checked(hf: Any, name: str, chatml: bool = True) -> Tokenizer:
    if not getattr(hf, "is_fast", False):
        raise DataError(f"{name}: only fast tokenizers (tokenizer.json) are supported")
    if chatml and not _has_markers(hf):
        raise DataError(
            f"{name}: {IM_START} and {IM_END} are not one token each. "
            "Use a model with ChatML markers, such as Qwen3 or SmolLM2-Instruct."
        )
    return Tokenizer(hf)


def _has_markers(hf: Any) -> bool:
    return len(hf.backend_tokenizer.encode(IM_START + IM_END, add_special_tokens=False).ids) == 2
