"""Rows of data sets as their writers publish them: what is kept, and what never is."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.trajectories.drafts import TALK_WITH_CALLS

HUB = {
    "SWE-smith": (
        {
            "messages": json.dumps(TALK_WITH_CALLS),
            "instance_id": "o__n.abcdef12.x",
            "resolved": True,
            "model": "claude",
            "traj_id": "t1",
            "patch": "d",
        },
        ("claude", True, "d"),
    ),
    "SWE-rebench": (
        {
            "trajectory_id": "t",
            "instance_id": "o__n-1",
            "repo": "o/n",
            "trajectory": TALK_WITH_CALLS,
            "tools": [],
            "model_patch": "d",
            "exit_status": "submit",
            "resolved": 0,
            "gen_tests_correct": 5,
            "pred_passes_gen_tests": 3,
        },
        ("", False, "d"),
    ),
    "nebius": (
        {
            "instance_id": "o__n-1",
            "model_name": "llama-70b",
            "target": False,
            "exit_status": "submitted (exit_cost)",
            "generated_patch": "d",
            "eval_logs": "SECRET 3 failed",
            "trajectory": [
                {"role": "system", "text": None, "system_prompt": "You fix.", "mask": False},
                {"role": "user", "text": "Fix x."},
                {"role": "ai", "text": "See\n```\nls\n```"},
            ],
        },
        ("llama-70b", False, "d"),
    ),
    "SWE-Gym": (
        {
            "instance_id": "o__n-1",
            "repo": "o/n",
            "messages": TALK_WITH_CALLS,
            "run_id": "gpt-4o_run_1",
            "resolved": True,
            "test_result": {"report": {"resolved": True, "SECRET": 1}, "git_patch": "d"},
        },
        ("gpt-4o_run_1", True, "d"),
    ),
    "Open-SWE-Traces": (
        {
            "instance_id": "o__n-1",
            "repo": "o/n",
            "language": "python",
            "trajectory_id": "t",
            "resolved": -1,
            "messages": [
                *TALK_WITH_CALLS[:4],
                {"role": "assistant", "content": "Done.", "reasoning_content": "SECRET thought"},
            ],
            "metadata": {"teacher_model": "qwen", "reference_patch": "SECRET answer", "model_patch": "d"},
        },
        ("qwen", None, "d"),
    ),
    "CoderForge": ({"instance_id": "o__n-1", "messages": TALK_WITH_CALLS, "reward": -1.0}, ("", None, None)),
    "R2E-Gym": (
        {
            "docker_image": "img:1",
            "rewards": 1.0,
            "exp_name": "r8",
            "messages": [
                {"role": "system", "content": "You are a judge"},
                {"role": "assistant", "content": "<judgement>SECRET</judgement>"},
                {
                    "role": "user",
                    "content": "=== INTERACTION LOG ===\n\n[SYSTEM]\nYou fix.\n[/SYSTEM]\n\n[USER]\nFix x.\n[/USER]\n\n"
                    "[STEP]\n0\n[/STEP]\n\n[ASSISTANT]\nSee\n```bash\nls\n```\n[/ASSISTANT]\n\n"
                    "[USER]\n=== END ===\n[ASSISTANT]\n[/USER]\n\n=== END INTERACTION ===\n\n"
                    "=== FINAL PATCH ===\n\n[PATCH]\nd\n[/PATCH]\n\n=== END FINAL PATCH ===\n\nYES or NO?",
                },
            ],
        },
        ("r8", True, "d\n"),
    ),
}


@pytest.mark.parametrize("name", HUB)
@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
def test_rows_of_the_hub(name: str, kind: str, tmp_path: Path, importing) -> None:
    row, (policy, resolved, patch) = HUB[name]
    other = {**row, "instance_id": "o__m-2", "docker_image": "img:2"}
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist([row, other]), tmp_path / "set.parquet")
    else:
        rows = [json.dumps(one) for one in (row, other)]
        (tmp_path / f"set.{kind}").write_text("\n".join(rows) if kind == "jsonl" else f"[{','.join(rows)}]")
    found = importing(tmp_path / f"set.{kind}")
    assert found.summary["trajectories"] + found.summary["duplicates"] == 2
    t = found.trajectories[0]
    assert (t.resolved, t.patch, t.policy) == (resolved, patch, policy or "set")
    assert [m.role for m in t.messages][:3] == ["system", "user", "assistant"]
    assert "[call bash]\nls\n[/call]" in t.messages[2].content
    assert "SECRET" not in json.dumps([t.messages, t.extra, t.label_source], default=str)
    if resolved is not None:
        assert t.label_source.startswith(f"set.{kind}:")


def test_what_holds_the_outcome_is_counted_and_never_kept(tmp_path: Path, importing) -> None:
    (tmp_path / "rows.jsonl").write_text(
        "\n".join(json.dumps(HUB[name][0]) for name in ("nebius", "SWE-Gym", "Open-SWE-Traces", "SWE-rebench"))
    )
    removed = importing(tmp_path / "rows.jsonl").summary["removed"]
    assert removed == {
        "column eval_logs": 1,
        "column test_result": 1,
        "column reference_patch": 1,
        "hidden reasoning": 1,
        "column gen_tests_correct": 1,
        "column pred_passes_gen_tests": 1,
    }


def test_the_same_content_under_two_names_is_kept_once_and_both_are_named(tmp_path: Path, importing) -> None:
    row = {"instance_id": "o__n-1", "messages": TALK_WITH_CALLS, "model": "m", "resolved": True}
    again = {
        **row,
        "messages": [*TALK_WITH_CALLS, {"role": "user", "content": "More?"}, {"role": "assistant", "content": "No."}],
    }
    (tmp_path / "set").mkdir()
    for name, rows in (("a", [row, again]), ("b", [row])):
        (tmp_path / "set" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = importing(tmp_path / "set")
    assert (found.summary["trajectories"], found.summary["duplicates"]) == (2, 1)
    assert [(t.attempt, t.extra["place"]) for t in found.trajectories] == [
        (0, "set/a.jsonl:1"),
        (1, "set/a.jsonl:2"),
    ]  # two runs: attempts
    assert found.trajectories[0].extra["also"] == ["set/b.jsonl:1"]
    assert found.summary["places"]["duplicates"] == ["set/a.jsonl:1 = set/b.jsonl:1"]


def test_copies_that_state_different_outcomes_are_unlabelled(tmp_path: Path, importing) -> None:
    row = {"instance_id": "o__n-1", "messages": TALK_WITH_CALLS, "model": "m"}
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({**row, "resolved": r}) for r in (True, False)))
    found = importing(tmp_path / "a.jsonl")
    assert (found.summary["trajectories"], found.summary["labelled"], found.summary["conflicts"]) == (1, 0, 1)
    assert found.summary["places"]["conflicts"] == [
        "o__n-1 (a.jsonl:1): resolved by a.jsonl:1: resolved, unresolved by a.jsonl:2: resolved"
    ]
