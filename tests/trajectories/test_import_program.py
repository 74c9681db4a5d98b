"""The import program: what it says, and what it leaves as it was."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rmlab.commands.import_trajectories import import_trajectories
from rmlab.commands.trajectories import show
from rmlab.errors import DataError, UsageError
from rmlab.paths import REPOSITORY
from rmlab.trajectories.store import read_trajectories


def row(task: str, words: str = "ok") -> dict[str, object]:
    messages = [{"role": "user", "content": f"Fix {task}"}, {"role": "assistant", "content": words}]
    return {"instance_id": task, "model": "m", "patch": "+x", "messages": messages}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row(f"o__n-{number}")) for number in range(3)))
    return path


def imported(*paths: Path, out: Path, format_name: str = "auto", **options: object) -> dict:
    return import_trajectories(format_name, [str(path) for path in paths], out, **options)


def test_an_empty_reading_never_takes_the_place_of_a_set(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "set.parquet"
    imported(rows, out=out)
    before = out.read_bytes()
    empty = tmp_path / "empty"
    empty.mkdir()
    report = tmp_path / "reports" / "m.run.json"
    report.parent.mkdir()
    report.write_text(json.dumps({"resolved_ids": ["o__n-0"], "unresolved_ids": []}))
    predictions = tmp_path / "preds.json"
    predictions.write_text(json.dumps({"o__n-0": {"instance_id": "o__n-0", "model_patch": "+x"}}))
    capsys.readouterr()
    for path, options, words in (
        (empty, {}, "`rmlab import --help` lists the formats"),
        (empty, {"strict": True}, "`rmlab import --help` lists the formats"),
        (
            report.parent,
            {},
            "give `rmlab evaluate` the files themselves (such as reports/m.run.json), not their folder",
        ),
        (predictions, {}, "preds.json holds only predictions, which are patches without the turns that led to them"),
        (
            rows,
            {"format_name": "moatless"},
            "Nothing there has the format moatless: `rmlab import auto` tries all formats",
        ),
    ):
        with pytest.raises(DataError) as caught:
            imported(path, out=out, force=True, **options)
        assert str(caught.value).startswith(f"no trajectory was read, and {out} stays as it was. ")
        assert words in str(caught.value)
        assert "written to" not in capsys.readouterr().out
        assert out.read_bytes() == before
    with pytest.raises(DataError, match=r"no trajectory was read, and .*new.parquet is not written"):
        imported(empty, out=tmp_path / "new.parquet", as_json=True)
    assert json.loads(capsys.readouterr().out)["trajectories"] == 0
    assert not (tmp_path / "new.parquet").exists()


def test_leaky_attempts_are_left_out_or_the_option_is_named(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leaky = row("o__n-9", '{"tests_status": {"FAIL_TO_PASS": {"success": []}}, "resolved": true}')
    leaky["messages"] += [{"role": "tool", "content": leaky["messages"][1]["content"]}]
    path = tmp_path / "leaky.jsonl"
    path.write_text(json.dumps(leaky))
    assert imported(path, out=tmp_path / "set.parquet")["outcomes_in_prompts"] == 2
    assert "--leaks drop leaves the attempts out" in capsys.readouterr().out
    imported(path, rows, out=tmp_path / "kept.parquet", leaks="drop")
    shown = capsys.readouterr().out
    assert "attempts left out because their prompt holds an outcome: 1\n" in shown
    assert "outcomes in prompts (their attempts were left out): 2" in shown
    assert "--leaks drop" not in shown
    with pytest.raises(DataError, match="--leaks report keeps them"):
        imported(path, out=tmp_path / "none.parquet", leaks="drop")
    capsys.readouterr()
    imported(rows, out=tmp_path / "clean.parquet", leaks="drop")
    assert "holds an outcome: 0\n" in capsys.readouterr().out, "that there were none is said too"


def test_another_request_does_not_take_the_place_of_a_set(rows: Path, tmp_path: Path) -> None:
    from rmlab.commands.trajectories import split

    for number in range(3, 9):  # enough tasks for three parts
        with rows.open("a") as file:
            file.write("\n" + json.dumps(row(f"o__n-{number}")))
    out, parts = tmp_path / "set.parquet", tmp_path / "parts.parquet"
    for _ in range(2):
        imported(rows, out=out)  # the same again may find more
        split(out, parts, by="task", near=0)
    before = out.read_bytes(), parts.read_bytes()
    words = "holds something else, made by `rmlab {}`.*or replace it with --force"
    with pytest.raises(UsageError, match=words.format("import")):
        imported(rows, out=out, source="other")
    with pytest.raises(UsageError, match=words.format("trajectories split")):
        split(out, parts, by="task", near=0, seed=1)
    assert (out.read_bytes(), parts.read_bytes()) == before
    imported(rows, out=out, source="other", force=True)
    with pytest.raises(UsageError, match="holds something else"):
        split(out, parts, by="task", near=0)  # of another set
    split(out, parts, by="task", near=0, force=True)


def test_a_set_of_an_earlier_version_is_called_one(rows: Path, tmp_path: Path) -> None:
    from rmlab.commands.trajectories import split
    from rmlab.trajectories.store import write_trajectories

    out, parts = tmp_path / "set.parquet", tmp_path / "parts.parquet"
    imported(rows, out=out)
    attempts = read_trajectories(out).trajectories
    for path, command in ((out, "rmlab import"), (parts, "rmlab trajectories split")):
        write_trajectories(path, attempts, {"command": command})
    words = r"made by `{}` of an earlier version, which did not note its request.*name another output, or .*--force"
    with pytest.raises(UsageError, match=words.format("rmlab import")):
        imported(rows, out=out)
    with pytest.raises(UsageError, match=words.format("rmlab trajectories split")):
        split(out, parts, by="task", near=0)
    assert "config_hash" not in read_trajectories(out).metadata
    imported(rows, out=out, force=True)
    assert "config_hash" in read_trajectories(out).metadata


def test_a_file_that_is_no_set_is_told_how_to_become_one(rows: Path, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"rows\.jsonl is not a readable Parquet file.*`rmlab import auto .*rows\.jsonl -o"
    ):
        read_trajectories(rows)
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(
        DataError, match=r"damaged\.parquet is not a readable Parquet file \(.*Fetch or collect it again"
    ):
        read_trajectories(tmp_path / "damaged.parquet")


def test_a_path_that_is_named_twice_is_read_once_and_that_is_said(rows: Path, tmp_path: Path) -> None:
    found = imported(rows, rows.parent / "x" / ".." / rows.name, out=tmp_path / "set.parquet")
    assert (found["trajectories"], found["duplicates"]) == (3, 0)
    assert found["notes"] == [f"{rows.parent}/x/../{rows.name} is named twice and was read once"]


def test_one_of_a_kind_is_said_in_the_singular_and_predictions_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "rows.jsonl").write_text(json.dumps(row("o__n-1")))
    (run / "preds.json").write_text(json.dumps({"o__n-1": {"instance_id": "o__n-1", "model_patch": ""}}))
    imported(run, out=tmp_path / "set.parquet")
    shown = capsys.readouterr().out
    assert "1 trajectory of 1 task: 0 labelled, 0 resolved" in shown
    assert "labels found: none beside the trajectories; name reports that lie elsewhere with --labels" in shown
    assert "predictions found: 1 file lists 1 patch (1 empty)" in shown
    (run / "results.json").write_text(json.dumps({"resolved_ids": ["o__n-1"]}))
    imported(run, out=tmp_path / "set.parquet")
    assert "labels found: 1 report states 1 outcome\n" in capsys.readouterr().out


def test_a_carriage_return_is_shown_as_the_end_of_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(row("o__n-1", "10 %\r20 %\r\ndone\x1b[1m")))
    imported(tmp_path / "rows.jsonl", out=tmp_path / "set.parquet")
    capsys.readouterr()
    show(tmp_path / "set.parquet", "o__n-1")
    assert "10 %\n20 %\ndone\N{REPLACEMENT CHARACTER}[1m" in capsys.readouterr().out


BOTH = """
import shlex, sys
from rmlab.cli import main
for line in sys.argv[1:]:
    sys.argv = ["rmlab", *shlex.split(line)]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, ended.code
"""
"""Several commands in one process: each imports what the others do."""


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        pytest.param({"PYTHONIOENCODING": "latin-1"}, marks=pytest.mark.slow),
    ],
)
def test_commands_write_what_the_locale_cannot(tmp_path: Path, locale: dict[str, str]) -> None:
    (tmp_path / "s.csv").write_text("task_id,score,resolved\nτ,0.5,1\nτ,0.4,0\nu,0.4,0\nu,0.1,0\n")

    (tmp_path / "rows.jsonl").write_text(json.dumps(row("τ__n-1")))
    commands = (
        ["evaluate", tmp_path / "s.csv"],
        ["import", "auto", tmp_path / "rows.jsonl", "-o", tmp_path / "set.parquet", "--json"],
    )
    answer = subprocess.run(
        [sys.executable, "-c", BOTH, *(shlex.join(map(str, command)) for command in commands)],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
        env={**os.environ, **locale},
    )
    assert answer.returncode == 0, answer.stderr
    shown, brace, found = answer.stdout.decode("latin-1").partition("{")
    assert "(\\u03c4" in shown
    assert json.loads(brace + found)["tasks"] == 1
