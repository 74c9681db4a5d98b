import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table
from rmlab.scores.writing import write_score_table

SUFFIXES = ["csv", "jsonl", "parquet"]
text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


def same(a, b):
    return all(
        np.array_equal(getattr(a, name), getattr(b, name), equal_nan=name in {"score", "resolved", "n_tokens"})
        for name in Scores.__dataclass_fields__
    )


def csv_file(folder, content, name="scores.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    rows=st.lists(
        st.tuples(
            text.filter(bool),
            st.one_of(st.none(), st.floats(0, 1)),
            st.sampled_from([1.0, 0.0, None]),
            text,
            text,
            st.one_of(st.none(), st.integers(0, 10**9)),
        ),
        min_size=1,
        max_size=8,
    ),
    suffix=st.sampled_from(SUFFIXES),
)
def test_what_is_written_is_read_again(tmp_path, rows, suffix):
    task, score, resolved, policy, source, tokens = zip(*rows, strict=True)
    scores = Scores.of(
        task,
        score,
        resolved,
        trajectory_id=[f"x{i}" for i in range(len(rows))],
        policy=policy,
        source=source,
        cluster=[f"c {t}" for t in task],
        n_tokens=[np.nan if n is None else n for n in tokens],
    )
    path = tmp_path / f"scores.{suffix}"
    write_score_table(path, scores)
    assert same(read_score_table(path), scores)
    assert {file.stem for file in tmp_path.iterdir()} == {"scores"}  # no temporary file is left


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_absent_columns_are_absent_and_the_cluster_is_the_task(tmp_path, suffix):
    path = tmp_path / f"scores.{suffix}"
    rows = [{"task_id": "t", "score": 0.5, "resolved": True}, {"task_id": "u", "score": None, "resolved": None}]
    if suffix == "csv":
        path.write_text("task_id,score,resolved\nt,0.5,True\nu,,\n")
    elif suffix == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    scores = read_score_table(path)
    assert scores.cluster.tolist() == ["t", "u"]
    assert scores.policy.tolist() == scores.source.tolist() == scores.trajectory_id.tolist() == ["", ""]
    assert np.array_equal(scores.score, [0.5, np.nan], equal_nan=True)
    assert np.array_equal(scores.resolved, [1, np.nan], equal_nan=True)
    assert np.isnan(scores.n_tokens).all()


def test_every_way_to_write_a_label(tmp_path):
    cells = ["1", "0", "true", "false", "True", "False", "TRUE", "1.0", "0.0", ""]
    path = csv_file(tmp_path, "task_id,resolved,score\n" + "\n".join(f"t,{cell},0.5" for cell in cells))
    assert np.array_equal(read_score_table(path).resolved, [1, 0, 1, 0, 1, 0, 1, 1, 0, np.nan], equal_nan=True)
    path = csv_file(
        tmp_path,
        "\n".join(json.dumps({"task_id": 7, "score": 1, "resolved": v}) for v in (True, 0, "False", None)),
        "s.jsonl",
    )
    scores = read_score_table(path)
    assert np.array_equal(scores.resolved, [1, 0, 0, np.nan], equal_nan=True)
    assert scores.task_id.tolist() == ["7"] * 4


def test_byte_order_mark_blank_lines_quotes_and_other_columns(tmp_path):
    path = csv_file(tmp_path, '\ufefftask_id,note,score,resolved\n"a,b","say ""x""",1e-1,1\n\nc,,0.25 ,0\n')
    scores = read_score_table(path)
    assert scores.task_id.tolist() == ["a,b", "c"]
    assert scores.score.tolist() == [0.1, 0.25]


HEAD = "task_id,trajectory_id,score,resolved\n"
BAD_CSV = {
    "missing column": ("task_id,score\nt,0.5\n", "no column 'resolved'"),
    "only a header": (HEAD, "no rows"),
    "nothing": ("", "is empty"),
    "not a number": (HEAD + "t,a,0.5,1\nt,b,high,0\n", "line 3: score 'high' is not a number"),
    "underscored number": (HEAD + "t,a,0_1,1\n", "line 2: score '0_1' is not a number"),
    "above one": (HEAD + "t,a,1.5,1\n", r"line 2: score 1.5 is outside \[0, 1\]"),
    "below zero": (HEAD + "t,a,-0.1,1\n", r"line 2: score -0.1 is outside \[0, 1\]"),
    "NaN": (HEAD + "t,a,0.1,1\nt,b,NaN,1\n", "line 3: score is NaN: an attempt that was not scored has an empty cell"),
    "infinite": (HEAD + "t,a,inf,1\n", "line 2: score is inf"),
    "label": (HEAD + "t,a,0.5,maybe\n", "line 2: resolved 'maybe' must be true, false"),
    "label two": (HEAD + "t,a,0.5,2\n", "line 2: resolved '2' must be"),
    "no task": (HEAD + ",a,0.5,1\n", "line 2: task_id is empty"),
    "duplicate": (HEAD + "t,a,0.5,1\nt,b,0.5,1\nu,a,0.5,1\n", "line 4: trajectory_id a already occurs on line 2"),
    "short row": (HEAD + "t,a,0.5\n", "line 2: 3 cells under 4 column names"),
    "two columns of a name": ("task_id,score,score,resolved\nt,0.5,0.5,1\n", "2 columns 'score'"),
    "open quote": (HEAD + 't,"a,0.5,1\n', "not readable as CSV"),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe", "not UTF-8 text"),
    "binary that is text": (b"\x00\x01\x02\x03", "no column 'task_id' .it has: nothing readable"),
    "tokens": ("task_id,score,resolved,n_tokens\nt,0.5,1,-3\n", "line 2: n_tokens -3 is not a number of tokens"),
    "two clusters": (
        "task_id,score,resolved,cluster\nt,0.5,1,a\nt,0.4,1,b\n",
        "line 3: task t lies in cluster b, but in cluster a on line 2",
    ),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_csv_is_one_line_with_file_place_and_value(tmp_path, case):
    content, message = BAD_CSV[case]
    path = csv_file(tmp_path, content)
    with pytest.raises(DataError, match=message) as caught:
        read_score_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


BAD_JSONL = {
    "broken": ('{"task_id": "t", "score": 0.5, "resolved": 1}\n{"task_id": ', "line 2: not readable as JSON"),
    "a list": ("[1, 2]\n", "line 1: list instead of an object"),
    "no score": ('{"task_id": "t", "resolved": 1}', "line 1: there is no 'score'"),
    "text as score": ('{"task_id": "t", "score": "0.5", "resolved": 1}', "line 1: score '0.5' is not a number"),
    "true as score": ('{"task_id": "t", "score": true, "resolved": 1}', "line 1: score 'True' is not a number"),
    "NaN": ('{"task_id": "t", "score": NaN, "resolved": 1}', "line 1: score is nan"),
    "Infinity": ('{"task_id": "t", "score": Infinity, "resolved": 1}', "line 1: score is inf"),
    "huge": ('{"task_id": "t", "score": 1' + "0" * 400 + ', "resolved": 1}', "line 1: score '1000"),
    "list as task": ('{"task_id": ["t"], "score": 0.5, "resolved": 1}', "line 1: task_id .* is not text"),
    "half a character": ('{"task_id": "\\ud800", "score": 0.5, "resolved": 1}', "line 1: task_id .* not text"),
    "deep": ("[" * 100_000, "line 1"),
}


@pytest.mark.parametrize("case", BAD_JSONL)
def test_bad_jsonl(tmp_path, case):
    content, message = BAD_JSONL[case]
    with pytest.raises(DataError, match=message):
        read_score_table(csv_file(tmp_path, content, "scores.jsonl"))


def test_bad_parquet(tmp_path):
    path = tmp_path / "scores.parquet"
    pq.write_table(pa.table({"task_id": ["t", "u"], "score": [0.5, float("nan")], "resolved": [True, None]}), path)
    with pytest.raises(DataError, match="row 2: score is nan"):
        read_score_table(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read_score_table(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read_score_table(path)
    pq.write_table(pa.table({"score": [0.5]}), path)
    with pytest.raises(DataError, match="no column 'task_id'"):
        read_score_table(path)


def test_no_altered_byte_is_more_than_one_clear_error(tmp_path):
    scores = Scores.of(["t", "u"] * 20, np.linspace(0, 1, 40), [1, 0] * 20, trajectory_id=[f"x{i}" for i in range(40)])
    rng = np.random.default_rng(0)
    for suffix in SUFFIXES:
        path = tmp_path / f"scores.{suffix}"
        write_score_table(path, scores)
        whole = bytearray(path.read_bytes())
        messages = []
        for _ in range(300):
            altered = bytearray(whole)
            altered[rng.integers(len(whole))] = rng.integers(256)
            path.write_bytes(altered)
            try:
                read_score_table(path)
            except RmlabError as error:
                messages.append(str(error))
        assert messages
        assert not [message for message in messages if "\n" in message]


def test_places_that_hold_no_table(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        read_score_table(tmp_path)
    with pytest.raises(DataError, match="is a folder"):
        read_score_table(tmp_path / "folder.csv")
    with pytest.raises(DataError, match="there is no such file"):
        read_score_table(tmp_path / "absent.csv")
    with pytest.raises(UsageError, match=r"ends in .csv, .jsonl, .json or .parquet, not in .xlsx"):
        read_score_table(tmp_path / "scores.xlsx")
    with pytest.raises(UsageError, match="not in nothing"):
        write_score_table(tmp_path / "scores", Scores.of(["t"], [0.5], [1]))


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RmlabError, match="cannot be written"):
        write_score_table(tmp_path / "file" / "scores.csv", Scores.of(["t"], [0.5], [1]))
