"""The `rmlab` command as a user meets it: help, exit codes, one line for what is wrong."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from rmlab.cli import app
from rmlab.paths import REPOSITORY
from tests.command_line import rmlab_here
from tests.waiting import PATIENCE

CASES = REPOSITORY / "tests" / "data" / "metric_cases"


@pytest.fixture(autouse=True)
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def commands(group: object = None, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    group = group or typer.main.get_command(app)
    found = []
    for name, command in group.commands.items():
        found += commands(command, (*path, name)) if hasattr(command, "commands") else [(*path, name)]
    return found


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_has_help_with_an_example(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    code, out, _ = rmlab_here(*command, "--help")
    assert code == 0
    assert f"Example: rmlab {' '.join(command)}" in out


def test_help_imports_nothing_heavy_and_works_anywhere(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['rmlab', 'sweep', '--help']\n"
        "from rmlab.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert not {'torch', 'transformers', 'mlflow', 'pandas', 'numpy', 'hydra', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        check=True,
        stdout=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["swep"], 2, "No such command 'swep'. Did you mean 'sweep'?"),
        (["sweep"], 2, "Missing argument 'name'"),
        (["sweep", "nope"], 2, "there is no sweep 'nope'; there are: aa, architecture"),
        (["sweep", "data_scale", "--on-error", "panic"], 2, "Invalid value for '--on-error'"),
        (["sweep", "data_scale", "levels=[2,900000]", "baseline=2"], 1, "data.scale=900000 cannot be filled: "),
        (["sweep", "data_scale", "data.path=/nowhere.parquet"], 1, "/nowhere.parquet: there is no such file"),
        (["train", "data.scal=1"], 2, "did you mean data.scale?"),
        (["train", "preset=smoke", "data.path=/nowhere.parquet"], 1, "/nowhere.parquet: there is no such file"),
        (["train", "preset=smoke", "tracking.uri=sqlite:////proc/x/mlflow.db"], 1, "cannot be written"),
        (["evaluate", "/nowhere.csv"], 1, "/nowhere.csv"),
        (["compare", "a.csv", "b.csv"], 1, "a.csv: there is no such file or folder, and no run has been tracked yet"),
        (["score", "x.parquet", "--model", "m"], 2, "name the score table to write with --out"),
        (["ui", "--port", "70000"], 2, "--port 70000: must be a number from 1 to 65535"),
        (["figures", "--from", "sqlite:////proc/x/mlflow.db"], 1, "/proc/x"),
    ],
)
def test_bad_input_is_one_line_and_an_exit_code(arguments: list[str], code: int, words: str) -> None:
    found, _, err = rmlab_here(*arguments)
    assert found == code, err
    assert words in err
    assert err.startswith("rmlab: ")
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("arguments", [[], ["tasks"], ["runs"]])
def test_without_a_command_there_is_help(arguments: list[str]) -> None:
    code, out, err = rmlab_here(*arguments)
    assert code == 2
    assert "Usage" in out
    assert not err


def test_a_score_table_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "scores.csv"
    table.write_text("task_id,score,resolved\na,0.9,1\na,0.1,0\nb,0.4,1\nb,0.6,0\n")
    answer = subprocess.run(
        [sys.executable, "-m", "rmlab.cli", "evaluate", "scores.csv", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["auc_within_task"] == 0.5
    monkeypatch.chdir(tmp_path)
    code, out, err = rmlab_here("compare", "scores.csv", table, "--json")
    assert code == 0, err
    assert json.loads(out)["metrics"]["auc_within_task"]["difference"] == 0.0
    assert "auc_within_task" in rmlab_here("compare", "scores.csv", table)[1]


def test_an_unexpected_error_keeps_its_traceback(tmp_path: Path) -> None:
    code = (
        "import rmlab.cli as cli\nimport sys\nsys.argv = ['rmlab', 'doctor']\n"
        "cli.doctor.findings = lambda: 1 / 0\ncli.main()"
    )
    answer = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "ZeroDivisionError" in answer.stderr
    assert "Traceback" in answer.stderr


@pytest.mark.slow
def test_runs_are_listed(where: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rmlab.tracking.run import RunLogger
    from rmlab.tracking.store import Store

    assert "no runs in" in rmlab_here("runs", "list")[1]
    assert not where.exists()
    where.mkdir()
    shutil.copy(empty_database, where / "mlflow.db")
    with RunLogger.start(
        Store.open(), "data_scale", "data_scale=2000 s1", kind="verifier", tags={"sweep": "data_scale"}
    ) as run:
        run.metrics({"eval/auc_within_task": 0.7654})
    monkeypatch.setenv("COLUMNS", "120")
    code, out, _ = rmlab_here("runs", "list", "--sweep", "data_scale")
    assert code == 0
    for words in ("data_scale=2000 s1", "finished", "0.765", run.run_id[:8]):
        assert words in out
    assert "no runs of sweep aa" in rmlab_here("runs", "list", "--sweep", "aa")[1]
    code, _, err = rmlab_here("runs", "list", "--sweep", "data_scal")
    assert code == 2
    assert "--sweep data_scal: there is no such sweep (did you mean data_scale?)" in err


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, {"LC_ALL": "C"}],
)
def test_output_goes_through_any_encoding(environment: dict[str, str]) -> None:
    """A figure's path or a run's name must not end a command that has done its work."""
    code = r"""
import subprocess, sys
from rmlab import cli
def prints(**_):
    print("\u00fc \u2192 \u2026 \udcff")
    print("\u00fc \u2192 \u2026 \udcff", file=sys.stderr)
    subprocess.run([sys.executable, "-c", r"print('\u00fc \u2192')"], check=True)
cli.app = prints
cli.main()
"""
    unset = ("PYTHONIOENCODING", "PYTHONUTF8", "LANG", "LC_ALL", "LC_CTYPE")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env={k: v for k, v in os.environ.items() if k not in unset} | environment,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert b"Error" not in done.stderr
    assert len(done.stdout.split()) == 6


def test_ctrl_c_is_said() -> None:
    code = "from rmlab import cli\n@cli.app.command('wait')\ndef wait() -> None:\n    raise KeyboardInterrupt\n"
    code += "import sys\nsys.argv = ['rmlab', 'wait']\ncli.main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr.strip() == "rmlab: interrupted"


@pytest.mark.parametrize("words", [(), ("runs",)])
def test_a_command_without_words_prints_its_help_once(words: tuple[str, ...]) -> None:
    code, out, _ = rmlab_here(*words)
    assert code == 2
    assert out.count("Usage:") == 1
