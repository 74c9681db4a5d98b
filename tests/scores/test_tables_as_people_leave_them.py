"""Score tables in other packings, separators and shapes: read as what they are, or one line that says what to do."""

import bz2
import gzip
import json
import lzma
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmlab.commands.evaluate import evaluate
from rmlab.errors import DataError, UsageError
from rmlab.paths import REPOSITORY
from rmlab.scores.columns import column_names
from rmlab.scores.harness_reports import harness_reports, read_reports
from rmlab.scores.table import read_table

CASES = REPOSITORY.parent / "shared" / "data" / "cases"
PACKED = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}
TABLE = "task_id,score,resolved\na,0.25,yes\nb,,No\nb,0.5,\n"
SCORES, LABELS = [0.25, np.nan, 0.5], [1, 0, np.nan]


def evaluated(capsys: pytest.CaptureFixture[str], *paths: Path, **options: object) -> dict:
    evaluate(list(paths), True, **options)
    return json.loads(capsys.readouterr().out)


def is_the_table(path: Path, *columns: str) -> tuple[str, ...]:
    """Reads the table above, and gives its notes."""
    table = read_table(path, column_names(columns))
    assert table.scores.task_id.tolist() == ["a", "b", "b"]
    assert np.array_equal(table.scores.score, SCORES, equal_nan=True)
    assert np.array_equal(table.scores.resolved, LABELS, equal_nan=True)
    return table.notes


@pytest.mark.parametrize("ending", PACKED)
def test_packed_text(tmp_path: Path, ending: str) -> None:
    lines = [
        {"task_id": t, "score": s, "resolved": r}
        for t, s, r in [("a", 0.25, "yes"), ("b", None, "No"), ("b", 0.5, None)]
    ]
    for name, text in (
        ("scores.csv", TABLE),
        ("scores.jsonl", "\n".join(map(json.dumps, lines))),
        ("scores.json", json.dumps(lines)),
    ):
        path = tmp_path / f"{name}.{ending}"
        path.write_bytes(PACKED[ending](text.encode()))
        assert is_the_table(path) == ()
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(DataError, match=r"cannot be (unpacked|read)"):
            read_table(path)
    path = tmp_path / f"report.json.{ending}"
    path.write_bytes(PACKED[ending](b'{"resolved_ids": ["a"], "unresolved_ids": ["b"]}'))
    assert harness_reports(path)[0].outcome == {"a": True, "b": False}


@pytest.mark.parametrize(
    ("separator", "ending", "said"),
    [
        ("\t", "tsv", False),
        ("\t", "csv", True),
        (";", "csv", True),
        ("|", "csv", True),
        (";", "csv.gz", True),
        (",", "tsv", True),
    ],
)
def test_other_separators_are_read_and_said(tmp_path: Path, separator: str, ending: str, said: bool) -> None:
    path = tmp_path / f"scores.{ending}"
    text = TABLE.replace(",", separator).encode()
    path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    assert is_the_table(path) == ((f"its columns are separated by {separator!r}",) if said else ())


def test_another_sign_in_the_name_of_a_column_is_no_separator(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("a;b;c;d,task_id,score,resolved\n,a,0.25,yes\n,b,,No\n,b,0.5,\n")
    assert is_the_table(path) == ()


def test_separators_that_give_no_table_name_its_columns_and_decimal_commas_are_named(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("iid;p;label\na;0,5;1\n")
    with pytest.raises(DataError, match=r"has no column 'task_id' .it has: iid, p, label."):
        read_table(path)
    with pytest.raises(DataError, match="line 2: score '0,5' is not a number; write it with a decimal point"):
        read_table(path, column_names(["task_id=iid,score=p,resolved=label"]))


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet", "csv", "columns", "keys"])
def test_columns_within_columns_are_named_with_a_dot(tmp_path: Path, kind: str) -> None:
    rows = [
        {"meta": {"task": {"id": task}}, "verifier": {"p": score, "other": 1}, "resolved": label}
        for task, score, label in zip("abb", [0.25, None, 0.5], [True, False, None], strict=True)
    ]
    path = tmp_path / f"scores.{ {'columns': 'json', 'keys': 'json'}.get(kind, kind) }"
    if kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    elif kind == "json":
        path.write_text(json.dumps({"auroc": 0.5, "rows": rows}))
    elif kind == "keys":
        path.write_text(json.dumps({f"x{number}": row for number, row in enumerate(rows)}))
    elif kind == "columns":
        columns = {"task": {"id": list("abb")}}, {"p": [0.25, None, 0.5]}, [True, False, None]
        path.write_text(json.dumps(dict(zip(["meta", "verifier", "resolved"], columns, strict=True))))
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text(TABLE.replace("task_id", "meta.task.id").replace("score", "verifier.p"))
    said = ("records are those of 'rows'",) if kind == "json" else ()
    assert is_the_table(path, "task_id=meta.task.id,score=verifier.p") == said


def test_a_column_of_parquet_whose_own_name_has_a_dot(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    columns = {"task_id": list("abb"), "verifier.p": [0.25, None, 0.5], "resolved": [True, False, None]}
    pq.write_table(pa.table(columns), path)
    assert is_the_table(path, "score=verifier.p") == ()
    with pytest.raises(DataError, match=r"has no column 'verifier.q' .*--columns names it: correct the name there"):
        read_table(path, column_names(["score=verifier.q"]))


@pytest.mark.parametrize(
    ("column", "value", "advice"),
    [
        (
            "score",
            "-0.3",
            "take exp of a log-probability, or name those of both answers, --columns yes_logprob=NAME,no_logprob=NAME; map logits",
        ),
        ("yes_logprob", "-0.3", "take exp of the log-probabilities in 'yes_logprob', or name those of both answers"),
        ("log_prob_yes", "-0.3", "take exp of the log-probabilities in 'log_prob_yes'"),
        ("score", "2.5", "map logits through a sigmoid first, divide percentages by 100"),
        ("score", "250", "map logits through a sigmoid first."),
    ],
)
def test_numbers_that_are_no_score_get_the_advice_that_fits(
    tmp_path: Path, column: str, value: str, advice: str
) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(f"task_id,{column},resolved\na,{value},1\n")
    with pytest.raises(DataError) as caught:
        read_table(path, column_names([f"score={column}"]))
    assert f"score {float(value):g} is outside [0, 1]. Scores are probabilities of `resolved`: {advice}" in str(
        caught.value
    )


def test_records_by_attempt_made_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    path = CASES / "import" / "keyed_attempts.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there: inputs made by hand are kept beside the repository, not in it")
    found = evaluated(capsys, path)
    assert (found["trajectories"], found["tasks"], found["score_rate"]) == (50, 13, 1.0)


def test_records_by_attempt_are_a_table_and_those_by_instance_a_report(tmp_path: Path) -> None:
    path = tmp_path / "x.json"

    def kinds(document: object) -> int:
        path.write_text(json.dumps(document))
        return len(harness_reports(path))

    assert kinds({"a0": {"task_id": "t", "score": 0.5, "resolved": True}}) == 0
    assert kinds({"o__n-1": {"score": 0.5, "resolved": True}}) == 0
    assert kinds({"a0": {"instance_id": "o__n-1", "p": 0.5, "resolved": True}}) == 0
    assert kinds({"a0": {"p": 0.5, "resolved": True}}) == 0
    assert kinds({"o__n-1": {"resolved": True}, "o/n:pr-2": {"resolved": False}}) == 1
    assert kinds({"a0": {"resolved": True, "patch_exists": True}}) == 1
    assert kinds({"o__n-1": {"resolved": True, "p": 0.5, "instance_id": "o__n-1"}}) == 1


def test_named_columns_make_a_table_of_records_by_instance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"o__n-1": {"p": 0.5, "resolved": True}, "o__n-2": {"p": 0.25, "resolved": False}}))
    found = evaluated(capsys, path, columns=["score=p"])
    assert (found["trajectories"], found["score_rate"]) == (2, 1.0)
    path.write_text(json.dumps({"resolved_ids": ["a"]}))
    with pytest.raises(UsageError, match="reports of a test harness have none"):
        evaluated(capsys, path, columns=["score=p"])


def test_a_report_that_is_given_twice_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps({"resolved_ids": ["o__n-1"], "unresolved_ids": ["o__n-2"]}))
    with pytest.raises(
        UsageError, match=r"a.json is named twice: it would count as two attempts at each task. Name it once"
    ):
        evaluated(capsys, tmp_path / "a.json", tmp_path / "b.json", tmp_path / "x" / ".." / "a.json")
    notes = read_reports([tmp_path / "a.json", tmp_path / "b.json"]).notes
    assert notes == (
        "a.json: 2 tasks, 1 resolved",
        f"{tmp_path / 'b.json'} and {tmp_path / 'a.json'} are identical: if they are one run, name it only once",
        "b.json: 2 tasks, 1 resolved",
    )


def test_an_evaluation_that_failed_is_no_outcome_of_a_report(tmp_path: Path) -> None:
    path = tmp_path / "m.run.json"
    path.write_text(json.dumps({"resolved_ids": ["a"], "unresolved_ids": ["b", "c"], "infra_failure_ids": ["c"]}))
    table = read_reports([path])
    assert table.notes == (
        "m.run.json: 3 tasks, 1 resolved, 1 without a label because the evaluation failed (infra_failure_ids 1)",
    )
    labels = dict(zip(table.scores.task_id.tolist(), table.scores.resolved.tolist(), strict=True))
    assert (labels["a"], labels["b"], math.isnan(labels["c"])) == (1.0, 0.0, True)


def test_ids_of_two_reports_are_one_task_across_case_and_images(tmp_path: Path) -> None:
    documents = (
        {"resolved_ids": ["AcMe__Tool-1"]},
        {"resolved_ids": ["acme_1776_tool-1"], "unresolved_ids": ["acme__tool-2"]},
    )
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path, document in zip(paths, documents, strict=True):
        path.write_text(json.dumps(document))
    assert read_reports(paths).scores.task_id.tolist() == ["AcMe__Tool-1", "AcMe__Tool-1", "acme__tool-2"]
    paths[0].write_text(json.dumps({"resolved_ids": ["AcMe__Tool-1"], "unresolved_ids": ["acme__tool-1"]}))
    with pytest.raises(DataError, match="lists task acme__tool-1 as both resolved and unresolved"):
        read_reports(paths)
