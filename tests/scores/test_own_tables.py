"""A score table of our own is read by columns: as by rows in every value and type, and only where nothing is wrong with it."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmlab.errors import DataError
from rmlab.scores import table
from rmlab.scores.own_tables import own_table
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table
from rmlab.scores.writing import parquet_schema, write_score_table

PLAIN = {
    "task_id": ["t", "t", "u"],
    "trajectory_id": ["a", "b", None],
    "policy": ["p", None, "p"],
    "source": [None, None, None],
    "cluster": ["c", "c", "u"],
    "score": [0.25, None, 1.0],
    "resolved": [True, None, False],
    "n_tokens": [7, None, 0],
}
PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3)
rows = st.tuples(
    st.sampled_from(["t", "u", "v w"]),
    texts,
    texts,
    st.one_of(st.just(float("nan")), st.floats(0, 1)),
    st.sampled_from([0.0, 1.0, float("nan")]),
    st.sampled_from([0.0, 12.0, float("nan")]),
    st.sampled_from(["", PATCH, "0123456789abcdef"]),
)


def written(path: Path, **changed: list[object]) -> Path:
    columns = PLAIN | changed
    names = [name for name in (*PLAIN, "patch") if name in columns]
    pq.write_table(pa.table({name: columns[name] for name in names}, schema=parquet_schema(names)), path)
    return path


def by_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> Scores:
    with monkeypatch.context() as patched:
        patched.setattr(table, "own_table", lambda path: None)
        return read_score_table(path)


def assert_same(one: Scores, other: Scores) -> None:
    for field in fields(Scores):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert a.dtype == b.dtype, field.name
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), field.name


@given(st.lists(rows, min_size=1, max_size=6))
def test_by_columns_is_by_rows(tmp_path_factory: pytest.TempPathFactory, found: list[tuple[object, ...]]) -> None:
    task, policy, source, score, resolved, tokens, patch = zip(*found, strict=True)
    names = [f"x{i}" for i in range(len(found))]
    scores = Scores.of(task, score, resolved, policy=policy, source=source, trajectory_id=names, patch=patch)
    path = tmp_path_factory.mktemp("own") / "scores.parquet"
    write_score_table(path, replace(scores, n_tokens=np.array(tokens)))
    with pytest.MonkeyPatch.context() as patched:
        slowly = by_rows(path, patched)
    assert_same(read_score_table(path), slowly)


def test_no_cell_of_an_own_table_is_looked_at_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "scores.parquet", patch=[PATCH, None, ""])
    slowly = by_rows(path, monkeypatch)
    monkeypatch.setattr(table, "rows_of", None)
    assert_same(read_score_table(path), slowly)
    assert slowly.patch[1] == "" != slowly.patch[2]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"task_id": ["t", None, "u"]}, "row 2: task_id is empty"),
        ({"task_id": ["t", "t\0", "u"]}, "row 2: task_id 't\\\\x00' contains characters that are not text"),
        ({"trajectory_id": ["a", "b", "a"]}, "row 3: trajectory_id a already occurs on row 1"),
        ({"cluster": ["c", "d", "u"]}, "row 2: task t lies in cluster d, but in cluster c on row 1"),
        ({"score": [0.25, float("nan"), 1.0]}, "row 2: score is nan"),
        ({"score": [0.25, None, 1.5]}, "row 3: score 1.5 is outside"),
        ({"score": [-0.25, None, 1.0]}, "row 1: score -0.25 is outside"),
        ({"n_tokens": [7, -1, 0]}, "row 2: n_tokens -1 is not a number of tokens"),
        ({name: [] for name in PLAIN}, "has no rows"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, changed: dict[str, list[object]], words: str) -> None:
    path = written(tmp_path / "scores.parquet", **changed)
    assert own_table(path) is None
    with pytest.raises(DataError, match=words):
        read_score_table(path)


def test_what_has_to_be_looked_at_is_read_by_rows(tmp_path: Path) -> None:
    without = written(tmp_path / "a.parquet", cluster=[None, None, None], task_id=["a__b-1", "a__b-1", "c__d-2"])
    assert own_table(without) is None
    assert list(read_score_table(without).cluster) == ["a/b", "a/b", "c/d"]
    lists = written(tmp_path / "b.parquet", task_id=["[1]", "[1]", "u"])
    assert own_table(lists) is None
    for name, text in (("policy", "\u2003 [a, b]"), ("patch", "\n[]"), ("patch", "a\0[")):
        assert own_table(written(tmp_path / "e.parquet", patch=["", PATCH, None])) is not None
        assert own_table(written(tmp_path / "e.parquet", **{name: ["p", text, None]})) is None
    more = tmp_path / "c.parquet"
    pq.write_table(pq.read_table(written(tmp_path / "d.parquet")).append_column("regression_rates", [[1.0] * 3]), more)
    assert own_table(more) is None
    assert own_table(tmp_path / "absent.parquet") is None
