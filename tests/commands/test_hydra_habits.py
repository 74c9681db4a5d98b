"""What a user of Hydra types by habit: each habit is obeyed, or refused with one line that names what does its work here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rmlab.commands.common import PROGRAMS_OF, complete_overrides, complete_sweep, groups, sweep_names
from rmlab.commands.experiments import app, collect, rl, train
from rmlab.commands.multirun import multirun
from rmlab.configuration import compose, load_program
from rmlab.errors import UsageError
from rmlab.paths import CONF, REPOSITORY, STARTER
from rmlab.sweep.request import read_request
from tests.command_line import rmlab_here


def rmlab(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rmlab", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_version_names_the_commit_and_the_package_is_a_program() -> None:
    answer = rmlab("--version")
    assert answer.returncode == 0
    assert answer.stdout.startswith("rmlab 0.")
    assert "(commit " in answer.stdout


def test_help_answers_in_half_a_second_of_work() -> None:
    """Of the processor, in units of what the library that prints help takes at the same time, about 0.2 s: a machine that is slow, or
    busy with other work, is so for both."""

    def seconds(*command: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, *command], cwd=REPOSITORY, check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    taken = (
        seconds("-m", "rmlab", "--help") / seconds("-c", "import typer.rich_utils, rich.markdown") for _ in range(3)
    )
    assert any(ratio < 3 for ratio in taken)


def test_cfg_job_prints_the_configuration_and_trains_nothing(
    runs_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(["preset=smoke", "seed=3"], cfg="job")
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["data"]["scale"] == 128
    assert printed["seed"] == 3
    assert printed["data"]["path"] == "${rmlab.starter:trajectories.parquet}"
    assert sorted(path.name for path in runs_folder.iterdir()) == ["mlflow.db"]


def test_resolve_and_package_say_how_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    train(["preset=smoke"], cfg="job", resolve=True, package="data")
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["path"] == str(STARTER / "trajectories.parquet")
    assert printed["scale"] == 128
    train([], cfg="job", package="data.scale")
    assert capsys.readouterr().out == "3000\n"
    for options in ({"resolve": True}, {"package": "data"}):
        with pytest.raises(UsageError, match="use them with --cfg job"):
            train([], **options)
    with pytest.raises(UsageError, match=r"--package dta: .* \(did you mean data"):
        train([], cfg="job", package="dta")


def test_hydras_own_configuration_is_refused_with_the_reason() -> None:
    for shown in ("hydra", "all"):
        code, _, err = rmlab_here("train", "--cfg", shown)
        assert code == 2
        assert "--cfg job prints the configuration" in err
        assert len(err.splitlines()) == 1


def test_info_lists_the_groups_of_a_command_with_the_choices_taken(capsys: pytest.CaptureFixture[str]) -> None:
    train(["preset=smoke"], info=True)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["preset=smoke", "demo,", "paper,", "small,", "smoke"] for line in lines)
    assert any(line.startswith("  model=tiny ") for line in lines), "the preset chooses the model"
    rl(["reward=hybrid"], info=True)
    said = capsys.readouterr().out
    assert "reward=hybrid " in said
    assert "execution_free" in said, "choices that are registered by the program, not files"
    assert "rl_preset=null" in said
    collect(["policy=[careful,hasty]"], info=True)
    assert "policy=[careful,hasty] " in capsys.readouterr().out
    with pytest.raises(UsageError, match="preset=nope: there is no such choice"):
        train(["preset=nope"], info=True)


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("defaults", "model/tiny"),
        ("defaults-tree", "preset: smoke"),
        ("searchpath", "file://"),
        ("config", "scale: 128"),
    ],
)
def test_hydras_topics_of_info_are_hydras(topic: str, words: str) -> None:
    code, out, err = rmlab_here("train", "--info", topic, "preset=smoke")
    assert code == 0, err
    assert words in out


@pytest.mark.parametrize(
    ("override", "instead"),
    [
        ("hydra.run.dir=/tmp/x", "RMLAB_RUNS=FOLDER"),
        ("hydra.output_subdir=null", "RMLAB_RUNS=FOLDER"),
        ("hydra.verbose=true", "-v shows more progress"),
        ("hydra/job_logging=disabled", "and -q none"),
        ("hydra.job.name=mine", "tracking.name=NAME"),
    ],
)
def test_what_nothing_reads_is_refused_wherever_it_is_given(override: str, instead: str) -> None:
    for give in (
        lambda: compose("train_verifier", [override]),
        lambda: compose("train_verifier", [f"++{override}"]),
        lambda: multirun("train_verifier", ["seed=0,1", override]),
        lambda: read_request(["preset=smoke", override]),
    ):
        with pytest.raises(UsageError) as caught:
            give()
        assert instead in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "override", ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "hydra/sweeper=basic", "hydra.mode=MULTIRUN"]
)
def test_what_is_for_several_runs_is_refused_in_a_single_one(override: str) -> None:
    with pytest.raises(UsageError, match="`rmlab train -m KEY=1,2`"):
        compose("train_verifier", [override])


def test_a_search_path_is_obeyed(tmp_path: Path) -> None:
    (tmp_path / "preset").mkdir()
    (tmp_path / "preset" / "mine.yaml").write_text("# @package _global_\ndata:\n  scale: 77\n")
    assert compose("train_verifier", [f"hydra.searchpath=[file://{tmp_path}]", "preset=mine"]).data.scale == 77


@pytest.mark.parametrize(
    ("choice", "package"),
    [
        ("hydra/launcher=rq", "hydra-rq-launcher"),
        ("hydra/launcher=ray_aws", "hydra-ray-launcher"),
        ("hydra/sweeper=optuna", "hydra-optuna-sweeper"),
        ("hydra/sweeper=nevergrad", "hydra-nevergrad-sweeper"),
    ],
)
def test_a_launcher_or_sweeper_that_is_not_installed_names_its_package(choice: str, package: str) -> None:
    with pytest.raises(UsageError, match=f"^{choice} needs {package}: pip install {package}$"):
        multirun("train_verifier", ["seed=0,1", choice])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep", "data_scale", "--preset", "demo"], "without dashes: preset=demo;"),
        (["sweep", "data_scale", "--preset=demo"], "without dashes: preset=demo;"),
        (["train", "--data.scale", "500"], "without dashes: data.scale=500;"),
        (["tasks", "build", "--seed", "1"], "without dashes: seed=1;"),
        (["rl", "--dry-run"], "--cfg job prints the configuration"),
        (["train", "--config-dir", "mine"], "hydra.searchpath=[file://FOLDER]"),
        (["train", "--experimental-rerun", "x"], "config.yaml"),
    ],
)
def test_an_option_that_is_not_there_is_answered_with_what_works(arguments: list[str], words: str) -> None:
    code, _, err = rmlab_here(*arguments)
    assert code == 2
    assert words in err
    assert len(err.splitlines()) == 1


def test_an_option_that_was_cut_is_not_taken_for_a_key() -> None:
    code, _, err = rmlab_here("sweep", "data_scale", "--worker", "2")
    assert code == 2
    assert "without dashes" not in err


def test_what_is_completed_is_there() -> None:
    assert "data_scale" in sweep_names("data")
    assert groups("train_verifier")["preset"] == sorted(path.stem for path in (CONF / "preset").glob("*.yaml"))
    for program in PROGRAMS_OF.values():
        load_program(program)
        for group, choices in groups(program).items():
            assert choices, f"{program}: {group} has no choice"
    named = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert named <= set(PROGRAMS_OF), "every command of a program completes its overrides"


class Context:
    """Of click, as far as completion reads it."""

    def __init__(self, command: str, **params: object) -> None:
        self.command = type("Command", (), {"name": command})
        self.params = params


def test_words_of_bash_and_of_other_shells() -> None:
    assert complete_overrides(Context("train"), "preset=s") == ["preset=small", "preset=smoke"]
    assert complete_overrides(Context("train", overrides=["seed=1", "preset", "="]), "sm") == ["small", "smoke"]
    assert "hydra/launcher=slurm" in complete_sweep(Context("sweep", name="data_scale"), "hydra/")
    assert "reward=distorted" in complete_sweep(Context("sweep", name="verifier_to_rl"), "rew")


COMPLETED: list[tuple[list[str], set[str]]] = [
    (["rmlab", "swe"], {"sweep"}),
    (["rmlab", "sweep", "data_"], {"data_scale"}),
    (["rmlab", "sweep", "data_scale", "preset", "=", "de"], {"demo"}),
    (["rmlab", "train", "preset", "="], {"demo", "paper", "small", "smoke"}),
    (["rmlab", "train", "objective"], {f"objective={path.stem}" for path in (CONF / "objective").glob("*.yaml")}),
    (["rmlab", "tasks", "bu"], {"build"}),
]


def test_bash_completes_commands_sweeps_presets_and_groups() -> None:
    """All in one process, which is given what is typed, and answers one line for each."""
    code = """
import contextlib, io, json, os, sys
from rmlab.cli import main
sys.argv = ["rmlab"]
for words in map(json.loads, sys.stdin):
    os.environ |= {"COMP_WORDS": "\\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as said:
        main()
    print(json.dumps(said.getvalue().split()))
"""
    answer = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env=os.environ | {"_RMLAB_COMPLETE": "complete_bash"},
        input="\n".join(json.dumps(words) for words, _ in COMPLETED),
        capture_output=True,
        text=True,
    )
    found = [set(json.loads(line)) for line in answer.stdout.splitlines()]
    assert found == [expected for _, expected in COMPLETED], answer.stderr
