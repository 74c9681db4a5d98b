"""What tells the outcome is found with its place; what repeats the patch goes."""

import json
from pathlib import Path

import pytest

from rmlab.trajectories.leakage import hidden_names, outcome_texts, without_repeated_patch
from rmlab.trajectories.record import Message
from rmlab.verifiers.prompt import check_leaks

ISSUE = Message("user", "Fix. FAIL_TO_PASS is in the issue by right.")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"resolved": true}', '"resolved": true'),
        ("FAIL_TO_PASS: a", "FAIL_TO_PASS"),
        ("see eval_logs", "eval_logs"),
        ('"test_patch": "d"', '"test_patch":'),
        ("5 hidden tests ran", "5 hidden tests"),
        ("hidden tests: failed", "hidden tests: failed"),
        ("status RESOLVED_FULL", "RESOLVED_FULL"),
        ("I resolved it, all hidden tests should pass", None),
        ("touch test_patch.py", None),
        ("the label is true", None),
        ("unresolved_no", None),
    ],
)
def test_outcome_text(text: str, found: str | None) -> None:
    assert list(outcome_texts([ISSUE, Message("tool", text)])) == ([(1, found)] if found else [])


def test_hidden_tests_are_found_by_their_function(importing, tmp_path: Path) -> None:
    hidden = ["tests/a.py::Case::test_separable[1]", "test_rfc850_dates (utils.Tests)", "a::test_x"]
    turns = [ISSUE, Message("assistant", "run test_separable"), Message("tool", "test_x, test_rfc850_dates ok")]
    assert list(hidden_names(turns, hidden)) == [(1, hidden[0]), (2, hidden[1])]  # test_x is too short a name to tell
    assert list(hidden_names([Message("user", "test_separable fails")], hidden)) == []


def test_a_repeated_patch_is_removed_and_counted() -> None:
    said, patch = Message("assistant", "submit"), "diff --git a b\n+x\n"
    for last in (patch, patch.replace("\n", "\r\n"), patch + "\n(Open file: a)\nbash-$ "):
        kept, removed = without_repeated_patch([ISSUE, said, Message("tool", last)], patch)
        assert (kept, removed) == ([ISSUE, said], {"patch repeated as last turn": 1})
    assert without_repeated_patch([ISSUE, said, Message("tool", "")], None) == ([ISSUE, said], {"empty last turn": 1})
    for last in (
        Message("tool", "diff --git a b\n-other\n"),
        Message("assistant", patch),
        Message("tool", patch + "x" * 300),
    ):
        assert without_repeated_patch([ISSUE, said, last], patch)[0][-1] == last
    assert without_repeated_patch([ISSUE], "Fix")[0] == []  # nothing but the issue: `validated` has refused it before


def test_leaks_are_reported_or_dropped_and_training_refuses_the_rest(importing, tmp_path: Path) -> None:
    def row(task: str, last: str) -> str:
        return json.dumps(
            {
                "instance_id": task,
                "model": "m",
                "resolved": True,
                "messages": [
                    {"role": "user", "content": "Fix"},
                    {"role": "assistant", "content": "ok"},
                    {"role": "tool", "content": last},
                    {"role": "assistant", "content": "end"},
                ],
            }
        )

    (tmp_path / "rows.jsonl").write_text("\n".join([row("o__n-1", "fine"), row("o__n-2", '{"resolved": false}')]))
    kept = importing(tmp_path / "rows.jsonl")
    assert kept.summary["outcomes_in_prompts"] == 1
    assert kept.summary["places"]["outcomes_in_prompts"] == ["rows.jsonl:2, message 2: '\"resolved\": false'"]
    with pytest.raises(Exception, match="1 of 2 prompts contain the outcome"):
        check_leaks(kept.trajectories)
    dropped = importing(tmp_path / "rows.jsonl", drop_leaks=True)
    assert (dropped.summary["trajectories"], dropped.summary["skipped"]) == (1, {"the prompt holds an outcome": 1})
    assert check_leaks(dropped.trajectories) == 1
