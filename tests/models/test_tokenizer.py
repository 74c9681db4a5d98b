"""The tokenizer is a pure function of its texts: the same in any process, cold or warm, before and after use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmlab.errors import DataError
from rmlab.models.config import TokenizerConfig
from rmlab.models.tokenizer import IM_START, Tokenizer, cached_tokenizer, load_tokenizer, train_tokenizer
from rmlab.paths import REPOSITORY

TEXTS = [f"{IM_START}user\nf({i}) should return {i * 7} but got {i}\n    return x + {i}<|im_end|>\n" for i in range(60)]
CONFIG = TokenizerConfig(vocab_size=285)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TEXTS, CONFIG)


@settings(max_examples=50, deadline=None)
@given(text=st.text(max_size=60))
def test_round_trip_is_exact(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode([text])[0]) == text


def test_size_markers_and_digits(tokenizer: Tokenizer) -> None:
    assert tokenizer.size == 285
    assert tokenizer.encode([IM_START])[0] == [tokenizer.start_id]
    assert len(tokenizer.encode(["4132"])[0]) == 4, "digits stand alone"


def test_a_value_is_cut_alike_at_the_end_of_a_line_and_within_one(tokenizer: Tokenizer) -> None:
    value = tokenizer.encode([" [4, 12]"])[0]
    whole = tokenizer.encode(["should return [4, 12] but got [4, 12]\n"])[0]
    n = len(value)
    assert sum(whole[i : i + n] == value for i in range(len(whole))) == 2


def test_fingerprint_does_not_change_by_use(tokenizer: Tokenizer) -> None:
    before = train_tokenizer(TEXTS, CONFIG).fingerprint
    tokenizer.hf(TEXTS[:3], padding=True, truncation=True, max_length=5)
    assert Tokenizer(tokenizer.hf).fingerprint == before
    assert len(tokenizer.encode(TEXTS[:1])[0]) > 5, "truncation left behind by another user has no effect"


@pytest.mark.slow
def test_four_processes_at_once_get_one_tokenizer(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.models.test_tokenizer import CONFIG, TEXTS\n"
        "from rmlab.models.tokenizer import cached_tokenizer\n"
        "print(cached_tokenizer(TEXTS, CONFIG, Path(sys.argv[1])).fingerprint)\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONHASHSEED": str(i), "RAYON_NUM_THREADS": str(1 + i)},
        )
        for i in range(4)
    ]
    found = {process.communicate()[0].strip() for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert (
        found == {cached_tokenizer(TEXTS, CONFIG, tmp_path).fingerprint} == {train_tokenizer(TEXTS, CONFIG).fingerprint}
    )
    assert [p.suffix for p in tmp_path.iterdir()] == [".json"], "one file, nothing half-written"


def test_other_texts_or_size_are_another_tokenizer(tmp_path: Path) -> None:
    first = cached_tokenizer(TEXTS, CONFIG, tmp_path)
    assert (
        cached_tokenizer([t.replace("return", "give") for t in TEXTS], CONFIG, tmp_path).fingerprint
        != first.fingerprint
    )
    assert cached_tokenizer(TEXTS, TokenizerConfig(280), tmp_path).fingerprint != first.fingerprint


def test_saved_and_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.encode(TEXTS) == tokenizer.encode(TEXTS)
    assert loaded.pad_id == tokenizer.pad_id


def test_a_bos_is_put_in_front_once(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    with_bos = load_tokenizer(tmp_path)
    with_bos.hf.add_special_tokens({"bos_token": "<s>"})
    bos = with_bos.hf.bos_token_id
    ids = with_bos.encode(["<s>a"])[0]
    assert with_bos.encode(["a"])[0][0] == bos
    assert ids.count(bos) == 2, "a BOS in the text is the text's: the renderer escapes it"
    assert "<s>" in with_bos.reserved


def test_a_folder_without_tokenizer_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no readable tokenizer"):
        load_tokenizer(tmp_path)
