"""Sweeps over trajectories of one's own: README's sweep file."""

import re
from pathlib import Path

import pytest

from rmlab.configuration import load_program
from rmlab.paths import REPOSITORY
from rmlab.sweep.request import Plan, make_plan
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import write_trajectories


def attempt(repository: int, task: int, policy: str) -> Trajectory:
    """Of several thousand tokens, half of them resolved; no issue like another."""
    name = f"r{repository}__t-{task}"
    words = " ".join(f"{word}{repository}x{task}" for word in ("open", "close", "read", "write", "seek"))
    return Trajectory(
        task_id=name,
        cluster=f"r{repository}",
        source="swe-bench",
        policy=policy,
        attempt=0,
        exit_status="submitted",
        messages=(
            Message("user", f"issue {name}: {words}"),
            Message("assistant", f"{policy} looks at {name}"),
            Message("tool", "\n".join(f"{i}: value_{i % 7} = compute({name!r})" for i in range(300))),
        ),
        patch=f"--- a/{name}.py\n+++ b/{name}.py\n+{policy}\n",
        resolved=(task + (policy == "a")) % 2 == 0,
    )


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    write_trajectories(
        Path("set.parquet"), [attempt(r, t, policy) for r in range(8) for t in range(4) for policy in "ab"]
    )
    return tmp_path


def of_readme(*arguments: str) -> Plan:
    """The sweep file that README shows, written as it says."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^cat > mine\.yaml <<'END'\n(.*?)^END$", text, re.MULTILINE | re.DOTALL)
    Path("mine.yaml").write_text(block, encoding="utf-8")
    return make_plan("./mine.yaml", arguments, "rmlab sweep ./mine.yaml")


def test_the_sweep_that_readme_shows_is_one(own: Path) -> None:
    assert [cell.name for cell in of_readme().cells][::3] == ["label_ratio=1:1 s0", "label_ratio=1:3 s0"]


@pytest.mark.slow
def test_the_sweep_that_readme_shows_is_prepared(own: Path) -> None:
    small = ["data.scale=16", "prompt.max_tokens=1024", "seeds=[0]", "runtime.progress=false"]
    plan = of_readme(*small)
    load_program(plan.spec.program).prepare([cell.config for cell in plan.cells])
