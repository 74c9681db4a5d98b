"""attempts.sh: which command makes which policy, and on which card."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY

SCRIPT = REPOSITORY / "experiments" / "studies" / "language_attempts" / "attempts.sh"
SEEDS = {"a": 0, "b": 1}


def attempts(folder: Path, words: Sequence[str], cards: int = 0, chosen: str | None = None) -> tuple[int, str]:
    """Runs the script with a program in the place of rmlab that writes its card and its words to the file `calls`; returns the exit code
    and what went to stderr. cards: that the machine has. chosen: those that are visible, where some are chosen."""
    programs = {"rmlab": 'echo "$CUDA_VISIBLE_DEVICES|$*" >> calls', "nvidia-smi": f'[ "$2" -lt {cards} ]'}
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    (folder / "calls").touch()
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    if chosen is not None:
        environment["CUDA_VISIBLE_DEVICES"] = chosen
    command = ["bash", str(SCRIPT), *words]
    ended = subprocess.run(command, cwd=folder, env=environment, timeout=60, capture_output=True, text=True)
    return ended.returncode, ended.stderr


def calls(folder: Path) -> list[tuple[str, list[str]]]:
    """The card and the words of each call of rmlab, those for start b last."""
    lines = sorted((folder / "calls").read_text().splitlines(), key=lambda line: "output=runs/policies/b" in line)
    return [(line.partition("|")[0], line.partition("|")[2].split()) for line in lines]


def prove_start(words: Sequence[str], name: str) -> None:
    """Asserts that these words make this start."""
    assert words[0] == "warm-start"
    assert {f"output=runs/policies/{name}", f"seed={SEEDS[name]}", f"model.name={name}"} <= set(words)


@pytest.mark.parametrize(
    ("cards", "chosen", "seen"),
    [(2, None, ["0", "1"]), (1, None, ["0", ""]), (0, None, ["", ""]), (2, "3", ["3", "3"])],
)
def test_the_starts_are_made_side_by_side_each_on_a_card_of_its_own(
    cards: int, chosen: str | None, seen: list[str], tmp_path: Path
) -> None:
    assert attempts(tmp_path, ["starts", "runtime=cpu", "more_tasks=[]"], cards, chosen) == (0, "")
    assert [card for card, _ in calls(tmp_path)] == seen
    for (_, words), name in zip(calls(tmp_path), "ab", strict=True):
        prove_start(words, name)
        assert words[-2:] == ["runtime=cpu", "more_tasks=[]"], "further words come last, and win"


@pytest.mark.parametrize("further", [["runtime=cpu", "more_tasks=[]"], []])
@pytest.mark.parametrize("name", ["a", "b"])
def test_one_start_can_be_made_alone(name: str, further: list[str], tmp_path: Path) -> None:
    assert attempts(tmp_path, ["starts", name, *further], cards=2) == (0, "")
    [(card, words)] = calls(tmp_path)
    assert card == "0"
    prove_start(words, name)
    assert words[words.index("held_out.tasks=200") + 1 :] == further, "the name is none of them"


@pytest.mark.parametrize("further", [[], ["~snapshots"]])
def test_without_a_name_both_starts_are_made(further: list[str], tmp_path: Path) -> None:
    assert attempts(tmp_path, ["starts", *further]) == (0, "")
    for (_, words), name in zip(calls(tmp_path), "ab", strict=True):
        prove_start(words, name)


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_start_with_its_attempts_is_the_one_that_is_made_alone(name: str, tmp_path: Path) -> None:
    assert attempts(tmp_path, [name]) == (0, "")
    made = [words for _, words in calls(tmp_path)]
    [own] = [words for words in made if f"output=runs/policies/{name}" in words]
    prove_start(own, name)
    assert any(words[:2] == ["collect", f"output=runs/language/{name}.parquet"] for words in made)
    (tmp_path / "calls").unlink()
    assert attempts(tmp_path, ["starts", name]) == (0, "")
    [(_, alone)] = calls(tmp_path)
    assert [word for word in own if word != "snapshots=[0.3]"] == alone


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["starts", "c"], "'c' is no start; the starts are a and b"),
        (["starts", "", "runtime=cpu"], "'' is no start; the starts are a and b"),
        (["start", "a"], "the first word is prepare, a, b, starts,"),
        ([], "the first word is prepare, a, b, starts,"),
        (["rl"], "rl takes the name of a policy: a_execution,"),
        (["rl", "c_execution"], "rl takes the name of a policy: a_execution,"),
    ],
)
def test_a_name_that_is_missing_or_wrong_is_said(words: list[str], said: str, tmp_path: Path) -> None:
    code, stderr = attempts(tmp_path, words)
    assert code == 2
    assert stderr.startswith(f"attempts.sh: {said}")
    assert calls(tmp_path) == []
