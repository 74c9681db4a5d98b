"""attempts.sh: which command makes which policy, and on which card."""

import os
import subprocess
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY

SCRIPT = REPOSITORY / "experiments" / "studies" / "language_attempts" / "attempts.sh"


@pytest.mark.parametrize(
    ("cards", "chosen", "seen"),
    [(2, None, ["0", "1"]), (1, None, ["0", ""]), (0, None, ["", ""]), (2, "3", ["3", "3"])],
)
def test_the_starts_are_made_side_by_side_each_on_a_card_of_its_own(
    cards: int, chosen: str | None, seen: list[str], tmp_path: Path
) -> None:
    programs = {"rmlab": 'echo "$CUDA_VISIBLE_DEVICES|$*" >> calls', "nvidia-smi": f'[ "$2" -lt {cards} ]'}
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    if chosen is not None:
        environment["CUDA_VISIBLE_DEVICES"] = chosen
    command = ["bash", str(SCRIPT), "starts", "runtime=cpu", "more_tasks=[]"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=60)
    calls = sorted((tmp_path / "calls").read_text().splitlines(), key=lambda line: "output=runs/policies/b" in line)
    assert [call.partition("|")[0] for call in calls] == seen
    for call, name, seed in zip(calls, "ab", (0, 1), strict=True):
        words = call.partition("|")[2].split()
        assert words[0] == "warm-start"
        assert {f"output=runs/policies/{name}", f"seed={seed}", f"model.name={name}"} <= set(words)
        assert words[-2:] == ["runtime=cpu", "more_tasks=[]"], "further words come last, and win"
