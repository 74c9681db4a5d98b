"""Several files of one attempt are one attempt: snapshots of a conversation, and renderings of it."""

import json
from pathlib import Path
from typing import Any

from tests.trajectories.drafts import TALK, lines

# Which attempts are one, and which are not?


def test_snapshots_of_a_conversation_are_its_last_one(tmp_path: Path, importing) -> None:
    for n in range(9, 12):
        folder = tmp_path / "run" / f"o__n-{n}_2024-04-06_13-30-51"
        folder.mkdir(parents=True)
        talk = [TALK[0], {"role": "user", "content": f"Fix {n}."}]
        for turn in range(12):
            talk += [
                {"role": "assistant", "content": f"step {turn}\n```bash\nls\n```"},
                {"role": "tool", "content": "a.py"},
            ]
            (folder / f"conversation_round_{turn}.json").write_text(json.dumps(talk[:-1]))
    found = importing(tmp_path / "run")
    assert [(t.task_id, t.policy, t.attempt, len(t.messages)) for t in found.trajectories] == [
        (f"o__n-{n}", "run", 0, 25) for n in (10, 11, 9)
    ]
    assert found.summary["removed"]["earlier snapshots"] == 33
    assert found.trajectories[0].extra["removed"]["earlier snapshots"] == 11


def test_snapshots_by_any_name_and_of_any_format_are_one_attempt(tmp_path: Path, importing) -> None:
    folder = tmp_path / "run" / "one"
    folder.mkdir(parents=True)
    early, late = {"messages": TALK[:3], "info": {"exit_status": None}}, {"messages": TALK, "info": {"submission": "d"}}
    (folder / "early.json").write_text(json.dumps(early))
    (folder / "late.json").write_text(json.dumps(late))
    (folder / "same.json").write_text(json.dumps({"messages": TALK, "info": {"exit_status": ""}}))
    (t,) = importing(tmp_path / "run").trajectories
    assert (t.task_id, t.patch, len(t.messages), t.extra["removed"]["earlier snapshots"]) == ("one", "d", 5, 2)


def test_a_folder_for_each_snapshot_or_attempt(tmp_path: Path, importing) -> None:
    for n in range(2):
        for turn in range(2):
            for kind, end in (
                ("round", TALK[: 3 + 2 * turn]),
                ("run", [*TALK[:2], {**TALK[4], "content": f"Done {turn}."}]),
            ):
                folder = tmp_path / kind / f"o__n-{n}" / f"{kind}_{turn}"
                folder.mkdir(parents=True)
                issue = {"role": "user", "content": f"Fix {n}."}
                (folder / "messages.json").write_text(json.dumps([TALK[0], issue, *end[2:]]))
    found = importing(tmp_path / "round")
    assert [(t.task_id, t.attempt, len(t.messages)) for t in found.trajectories] == [("o__n-0", 0, 5), ("o__n-1", 0, 5)]
    found = importing(tmp_path / "run")
    assert [(t.task_id, t.policy) for t in found.trajectories] == [
        ("o__n-0", "run_0"),
        ("o__n-0", "run_1"),
        ("o__n-1", "run_0"),
        ("o__n-1", "run_1"),
    ]


def test_copies_in_one_folder_are_copies(tmp_path: Path, importing) -> None:
    (tmp_path / "o__n-1").mkdir()
    for name in ("a", "b"):
        (tmp_path / "o__n-1" / f"messages_{name}.json").write_text(json.dumps(TALK))
    found = importing(tmp_path).summary
    assert (found["trajectories"], found["duplicates"], found["removed"]) == (1, 1, {})


def test_snapshots_of_several_instances_in_one_folder(tmp_path: Path, importing) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for n in range(3):
        talk = [TALK[0], {"role": "user", "content": f"Fix {n}."}, *TALK[2:]]
        for turn in range(1, n + 2):  # the first has but one
            (folder / f"o__n-{n}_step_{turn}.json").write_text(json.dumps(talk[: turn + 2]))
    found = importing(folder)
    assert [(t.task_id, len(t.messages)) for t in found.trajectories] == [("o__n-0", 3), ("o__n-1", 4), ("o__n-2", 5)]


def test_attempts_at_different_instances_are_no_snapshots(tmp_path: Path, importing) -> None:
    for n in (1, 2):  # in one folder, and in one word the same
        document = {"instance_id": f"t{n}", "info": {"exit_status": "Submitted"}, "messages": TALK[: 2 * n + 1]}
        (tmp_path / f"{n}.traj.json").write_text(json.dumps(document))
        (tmp_path / f"o__n-{n}.json").write_text(json.dumps({"messages": [*TALK[:2], *[TALK[4]] * n]}))
    assert importing(tmp_path).summary["trajectories"] == 4


def test_attempts_that_differ_before_their_end_are_no_snapshots(tmp_path: Path, importing) -> None:
    folder = tmp_path / "o__n-1"
    folder.mkdir()
    for n in range(3):
        other = {"role": "assistant", "content": f"Otherwise {n}."}
        (folder / f"run_{n}.json").write_text(json.dumps([*TALK[:2], *[other, TALK[3]] * (n + 1), TALK[4]]))
    found = importing(tmp_path).summary
    assert (found["trajectories"], found["tasks"], found["removed"]) == (3, 1, {})


def renderings(name: str = "t.0000", turns: int = 1) -> dict[str, dict[str, Any]]:
    call = {"function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    seen, xml = "OBSERVATION:\na.py", "I look.\n<function=bash>\n<parameter=command>ls</parameter>\n</function>"
    shown = {
        "tool": [{"role": "assistant", "content": "I look.", "tool_calls": [call]}, {"role": "tool", "content": seen}],
        "xml": [{"role": "assistant", "content": xml}, {"role": "user", "content": seen}],
        "ticks": [{"role": "assistant", "content": "I look.\n```\nls\n```"}, {"role": "user", "content": seen}],
    }
    row = {"instance_id": "o__n.12345678.x", "traj_id": name, "model": "m", "patch": "d", "resolved": True}
    return {
        kind: {**row, "messages": json.dumps([{"role": "system", "content": kind}, TALK[1], *talk * turns, TALK[4]])}
        for kind, talk in shown.items()
    }


def test_renderings_of_an_attempt_are_one_and_attempts_of_one_name_are_not(tmp_path: Path, importing) -> None:
    for kind, row in renderings().items():
        lines(tmp_path / "a" / f"{kind}.jsonl", row, {**row, "traj_id": "t.0001", "patch": "e"})
    found = importing(tmp_path / "a")
    assert (found.summary["trajectories"], found.summary["duplicates"], found.summary["conflicts"]) == (2, 4, 0)
    assert [len(t.extra["also"]) for t in found.trajectories] == [2, 2]
    one, two = renderings()["tool"], renderings(turns=2)["tool"]  # runs that number their attempts alike
    lines(tmp_path / "b" / "1.jsonl", one)
    lines(tmp_path / "b" / "2.jsonl", two)
    assert importing(tmp_path / "b").summary["trajectories"] == 2
    lines(tmp_path / "c" / "1.jsonl", *renderings().values())  # as a hub gives all splits of a set
    assert importing(tmp_path / "c").summary["trajectories"] == 1
    talk = [TALK[1], {"role": "assistant", "content": "Otherwise."}, TALK[3], TALK[4]]
    lines(tmp_path / "d" / "1.jsonl", one, {**one, "messages": talk})  # the name of a run
    assert importing(tmp_path / "d").summary["trajectories"] == 2


def test_attempts_without_an_issue_are_not_of_one_task(tmp_path: Path, importing) -> None:
    turns = [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "Please go on."}]
    ends = [[*turns, {"role": "assistant", "content": f"Done {n}."}] for n in range(2)]
    rows = [{"messages": end} for end in ends]
    assert importing(lines(tmp_path / "chat.jsonl", *rows)).summary["tasks"] == 2
    rows = [{"history": end, "info": {}} for end in ends] + [
        {"info": {"submission": ""}, "messages": end} for end in ends
    ]
    rows += [{"trajectory_steps": [{"action": "ls", "observation": str(n)}]} for n in range(2)]
    assert importing(lines(tmp_path / "others.jsonl", *rows)).summary["tasks"] == 4
    for n in range(2):  # one folder's name in two runs
        folder = tmp_path / f"run{n}" / "c" / "events"
        folder.mkdir(parents=True)
        event = {"kind": "ActionEvent", "action": {"command": f"ls {n}"}, "tool_name": "bash"}
        (folder / "event-00248-aa.json").write_text(json.dumps(event))
    assert importing(tmp_path / "run0", tmp_path / "run1").summary["tasks"] == 2
