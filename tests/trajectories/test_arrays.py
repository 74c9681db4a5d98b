"""JSON arrays one element at a time: the same elements as json gives, whatever the text and the size of what is read."""

import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmlab.trajectories.ingest import documents
from rmlab.trajectories.ingest import entries as arrays
from rmlab.trajectories.ingest.containers import batches
from rmlab.trajectories.ingest.entries import elements
from rmlab.trajectories.ingest.skipped import Skipped

inner = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8)
values = st.recursive(
    inner, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3), max_leaves=8
)


@given(st.lists(values, max_size=6), st.integers(1, 7), st.sampled_from([None, 1]), st.booleans(), st.booleans())
def test_the_elements_are_those_of_json(
    wanted: list, chunk: int, indent: int | None, ascii_only: bool, mark: bool
) -> None:
    text = json.dumps(wanted, indent=indent, ensure_ascii=ascii_only)
    data = (b"\xef\xbb\xbf " if mark else b"") + text.encode() + b" \n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "CHUNK", chunk)
        assert list(elements(io.BytesIO(data), 10_000)) == wanted
        if wanted:
            for end in range(1, len(data.rstrip()), 5):
                with pytest.raises(
                    Skipped, match=r"^(not a JSON array$|not JSON \(element \d+: |not UTF-8 \(byte \d+\)$)"
                ):
                    list(elements(io.BytesIO(data[:end]), 10_000))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a JSON array"),
        (b"{}", "not a JSON array"),
        (b"[1 2]", "element 1: no comma"),
        (b"[1, nope]", "element 2"),
        (b"[1] x", "more text after the array of 1"),
        (b'[1, "\xff"]', "not UTF-8"),
        (b"[" + b"[" * 200_000, "not readable JSON|element 1"),
        (b"[1" + b"0" * 10_000 + b"]", "not readable JSON"),
    ],
)
def test_what_is_no_array_says_so(data: bytes, words: str) -> None:
    with pytest.raises(Skipped, match=words):
        list(elements(io.BytesIO(data), 10**6))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("chunk", [1, 5, 1000])
def test_a_byte_that_is_no_utf8_is_counted_from_the_start_of_the_file(
    monkeypatch: pytest.MonkeyPatch, chunk: int, mark: bytes
) -> None:
    monkeypatch.setattr(arrays, "CHUNK", chunk)
    data = mark + '["é", "'.encode() + b"\xc3("
    with pytest.raises(Skipped, match=rf"^not UTF-8 \(byte {len(data) - 2}\)$"):
        list(elements(io.BytesIO(data), 10**6))


def test_an_element_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "CHUNK", 10)
    with pytest.raises(Skipped, match="for one element of an array"):
        list(elements(io.BytesIO(json.dumps(["x" * 5000]).encode()), 100))


def test_what_cannot_stand_behind_an_element_is_no_reason_to_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "CHUNK", 10)
    stream = io.BytesIO(b'[{"a": 1} {"a": 2}, ' + b'{"a": 3}, ' * 1000 + b"1]")
    with pytest.raises(Skipped, match="element 1: no comma"):
        list(elements(stream, 10_000))
    stream = io.BytesIO(b'[{"a": 1}x' + b" " * 10_000 + b"]")
    with pytest.raises(Skipped, match="element 1: no comma"):
        list(elements(stream, 10_000))
    assert stream.tell() < 100


def test_a_large_set_in_one_array_is_read_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, importing
) -> None:
    talks = [[{"role": "user", "content": f"Fix {n}."}, {"role": "assistant", "content": "ok"}] for n in range(5)]
    rows = [{"instance_id": f"o__n-{n}", "messages": talk, "resolved": n % 2 == 0} for n, talk in enumerate(talks)]
    path = tmp_path / "set.json"
    path.write_text(json.dumps([*rows, {"other": 1}]))
    whole = importing(path)
    monkeypatch.setattr(documents, "LARGE", 10)
    by_row = importing(path)
    assert by_row.trajectories == whole.trajectories
    assert (by_row.summary["labelled"], by_row.summary["skipped"]) == (5, {"no known format": 1})
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    monkeypatch.setattr(
        documents, "LARGE", len(path.read_bytes()) - 1
    )  # over the size of what is packed, under that of its content
    assert packed.stat().st_size < documents.LARGE
    seen = list(documents._file(next(iter(next(iter(batches(packed)))))))
    assert [document.location.line for document in seen] == list(range(1, 7))
    path.write_text(json.dumps(rows)[:-200])
    monkeypatch.setattr(documents, "LARGE", 10)
    damaged = importing(path).summary
    assert (damaged["trajectories"], damaged["skipped"]) == (3, {"not JSON": 1})
    assert "set.json:4: not JSON (element 4" in damaged["places"]["skipped"][0]
    path.write_text(json.dumps([{"instance_id": f"o__n-{n}", "resolved": True} for n in range(4)]))
    assert importing(path).summary["reports"][0]["stated"] == 4  # labels are read whole: a list of rows is one report
