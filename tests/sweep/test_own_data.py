"""Sweeps over trajectories of one's own: README's sweep file, and what a dry run refuses as the launch would."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from rmlab.configuration import compose, load_program
from rmlab.paths import REPOSITORY
from rmlab.scores.table import read_score_table
from rmlab.sweep.request import Plan, make_plan
from rmlab.tracking.notes import NOTE
from rmlab.tracking.query import get_run
from rmlab.tracking.store import Store
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import write_trajectories
from tests.command_line import rmlab_here


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
    made = {folder.name: list(folder.glob("[!.]*")) for folder in (own / "runs" / "cache").iterdir()}
    assert made["tokenizers"], "before the cells begin"
    assert made["token_ids"]


@pytest.mark.slow
def test_tasks_that_are_left_out_and_little_that_values_rest_on_are_said(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["data.path=set.parquet", "model=tiny", "data.scale=8", "data.label_ratio=1:1", "training.epochs=1"]
    asked += ["prompt.max_tokens=512", "evaluation.replicates=20", "evaluation.tasks=3", "runtime.progress=false"]
    program = load_program("cross_validate")
    run = get_run(Store.open(), program.run(compose("cross_validate", asked)))
    said = capsys.readouterr().out
    assert "3 folds, 18 attempts at 9 of 32 tasks (evaluation.tasks=3 a fold) judged out of fold; RM@1 across" in said
    few = f"Only {len(set(read_score_table(run.artifact('scores.parquet')).cluster))} clusters: intervals from so few"
    assert f"\n  {few}" in said
    note = run.store.client.get_run(run.run_id).data.tags[NOTE]
    assert "18 attempts at 9 of 32 tasks" in note
    assert f"\n\nBeware: {few}" in note


def split_set() -> None:
    parts = {0: "verifier", 1: "verifier", 2: "validation", 3: "evaluation"}
    write_trajectories(
        Path("split.parquet"),
        [replace(attempt(r, t, policy), split=parts[r % 4]) for r in range(8) for t in range(4) for policy in "ab"],
    )


OWN = ["label_ratio", "data=real", "data.path=split.parquet", "data.scale=8", "levels=[1:1,3:1]", "seeds=[0]"]


def test_a_dry_run_refuses_a_context_that_the_model_lacks(own: Path) -> None:
    split_set()
    code, out, err = rmlab_here("sweep", *OWN, "--dry-run")
    assert code == 1
    assert "2 levels x 1 seed = 2 cells" in out, "the cells are shown all the same"
    assert "label_ratio=1:1 s0 would be refused: prompt.max_tokens=4096 is longer than the 1024 positions" in err
    assert "(model=scratch)" in err
    assert rmlab_here("sweep", *OWN, "model=scratch", "--dry-run")[0] == 0


def test_a_dry_run_refuses_policies_that_the_pool_lacks_and_says_what_to_do(own: Path) -> None:
    asked = ["sweep", "real_choices", "data.path=set.parquet", "--dry-run"]
    code, _, err = rmlab_here(*asked, "preset=small", "runtime=cpu")
    assert code == 2
    assert "folds.unseen names 'google/gemini-3-pro-preview'" in err
    assert "it has a, b. Name policies of the pool, or none (folds.unseen=[])" in err
    _, _, err = rmlab_here(*asked, "folds.unseen=[]")
    assert "data.policies names '20240609_moatless_gpt4o'" in err
    assert "if a preset sets it, take another preset" in err
    _, out, err = rmlab_here(*asked, "preset=own")
    assert "cannot be filled: 32 resolved and 32 unresolved trajectories are available" in err, "100 are asked for"
    assert "amount_25 25 of " in out, "what is needed is said all the same"
    assert "usual 100 of " in out


def test_a_dry_run_says_how_many_attempts_a_fold_needs_of_those_that_are_there(own: Path) -> None:
    of_readme()
    code, out, err = rmlab_here("sweep", "./mine.yaml", "data.scale=16", "--dry-run")
    assert (code, err) == (0, "")
    # Of eight repositories with eight attempts each a fold judges two or three and keeps one for validation: the smallest training part
    # has four, with 16 resolved and 16 unresolved attempts.
    assert out.splitlines()[-1] == (
        "attempts that each fold's verifier needs, of the most that every fold has at this ratio if all fit the context: 1:1 16 of 32, "
        "1:3 16 of 21"
    )
    code, out, err = rmlab_here("sweep", "./mine.yaml", "data.scale=24", "--dry-run")
    assert code == 1
    assert out.splitlines()[-1].endswith("1:1 24 of 32, 1:3 24 of 21 (too few)")
    assert (
        "label_ratio=1:3 s0 would be refused: a fold has too few attempts for data.scale. Lower it (to 21 for all of them)"
        in err
    )


def test_a_dry_run_names_the_level_or_the_fold_that_is_refused(own: Path) -> None:
    of_readme()
    asked = ["sweep", "./mine.yaml", "--dry-run", "data.scale=16"]
    code, _, err = rmlab_here(*asked, "data.policies={c: 1}")
    assert (code, "label_ratio=1:1 s0 would be refused: data.policies names 'c'" in err) == (2, True)
    attempts = [attempt(r, t, policy) for r in range(8) for t in range(4) for policy in "ab"]
    lonely = [replace(t, resolved=t.cluster == "r0") for t in attempts]
    write_trajectories(Path("set.parquet"), lonely)
    code, _, err = rmlab_here(*asked, "levels=[pool]", "baseline=pool")
    assert (code, "(without r0" in err) == (1, True), "no other repository has a resolved attempt"
    code, out, err = rmlab_here(*asked)
    assert (code, "1:1 16 of 0 (too few)" in out) == (1, True)
    assert "a fold has too few attempts for data.scale. Change data.label_ratio, or use attempts at more tasks." in err
    write_trajectories(Path("set.parquet"), [replace(t, resolved=None) for t in attempts])
    code, _, err = rmlab_here(*asked)
    assert (code, "none of the 64 trajectories of set.parquet has a label" in err) == (1, True)


def test_what_all_cells_share_is_named_and_not_only_hashed(own: Path) -> None:
    split_set()
    out = rmlab_here("sweep", *OWN, "model=scratch", "--explain")[1]
    assert "among it model.name=scratch, data.path=split.parquet, data.scale=8, prompt.max_tokens=4096" in out
    assert "data.label_ratio=" not in out.split("another level")[0], "it varies"


def test_the_ratio_of_the_pool_is_a_level_beside_others(own: Path) -> None:
    split_set()
    asked = ["sweep", *OWN[:4], "levels=[pool,1:1]", "baseline=pool", "seeds=[0]", "model=scratch"]
    code, out, err = rmlab_here(*asked, "--dry-run")
    assert code == 0, err
    assert "label_ratio=pool s0 " in out
    explained = rmlab_here(*asked, "--explain")[1]
    assert re.findall(r'^([-+]) +"label_ratio": "(.*)",$', explained, re.MULTILINE) == [("-", "pool"), ("+", "1:1")]


def test_a_set_without_parts_is_told_to_be_split(own: Path) -> None:
    code, _, err = rmlab_here("sweep", *OWN[:2], "data.path=set.parquet", *OWN[3:], "--dry-run")
    assert code == 1
    assert "no labelled trajectory in its part verifier" in err
    assert "`rmlab trajectories split`" in err
