"""Layouts that other versions of OpenHands write: each is read as the version that the shipped samples show."""

import json
from pathlib import Path

import pytest

from rmlab.trajectories.ingest.locations import Location
from tests.trajectories.drafts import read, said

SDK = [
    {"kind": "SystemPromptEvent", "system_prompt": {"text": "You fix."}, "timestamp": "2025-10-30T03:50:30.915175"},
    {"kind": "MessageEvent", "source": "user", "llm_message": {"content": [{"type": "text", "text": "Fix x."}]}},
    {
        "kind": "ActionEvent",
        "thought": [{"type": "text", "text": "I look."}],
        "action": {"kind": "ExecuteBashAction", "command": "ls"},
        "tool_call": {"name": "bash", "arguments": '{"command": "ls"}'},
    },
    {"kind": "ObservationEvent", "observation": {"kind": "ExecuteBashObservation", "output": "a.py"}},
    {
        "kind": "ActionEvent",
        "thought": [],
        "action": {"kind": "FinishAction"},
        "tool_call": {"name": "finish", "arguments": "{}"},
    },
]
SDK_LIST = [{"source": "agent", **event} for event in SDK]


def test_openhands_output_of_the_sdk() -> None:
    row = {
        "instance_id": "o__n-1",
        "history": SDK,
        "test_result": {"git_patch": "d"},
        "metadata": {"llm": {"model": "m"}},
        "error": None,
    }
    draft = read(row, Location("output.jsonl", "", 1))
    assert said(draft) == [
        ("system", "You fix."),
        ("user", "Fix x."),
        ("assistant", "I look.\n\n[call bash]\nls\n[/call]"),
        ("tool", "a.py"),
        ("assistant", "[call finish]\n[/call]"),
    ]
    assert (draft.format, draft.task_id, draft.policy) == ("openhands-output", "o__n-1", "m")
    assert (draft.patch, draft.exit_status, draft.time) == ("d", "submitted", "2025-10-30T03:50:30")
    assert read({**row, "error": "reached maximum iteration"}).exit_status == "unfinished"


def test_a_saved_trajectory_of_openhands_is_a_bare_list_of_events() -> None:
    events = [
        {"id": 0, "source": "user", "action": "message", "args": {"content": "Fix x."}},
        {"id": 1, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "I look."}},
        {"id": 2, "source": "agent", "observation": "run", "content": "a.py"},
    ]
    draft = read(events, Location("run", "trajs/o__n-1.json"))
    assert (draft.format, draft.task_id, draft.exit_status) == ("openhands-output", "o__n-1", "unfinished")
    assert said(draft)[1:] == [("assistant", "I look.\n\n[call run]\nls\n[/call]"), ("tool", "a.py")]
    assert len(read(SDK_LIST, Location("run", "o__n-1.json")).messages) == 5


def test_a_conversation_whose_folder_names_an_instance_is_of_that_task() -> None:
    events = {"events": SDK, "state": {}}
    assert read(events, Location("run", "conversations/ab12/events")).task_id.startswith("issue-")
    assert read(events, Location("run", "claude__sonnet/ab12/events")).task_id.startswith("issue-")
    for root, path in (
        ("run", "conversations/o__n-7.tar.gz/ab12/events"),
        ("run", "o__n-7/events"),
        ("o__n-7.zip", "ab12/events"),
    ):
        assert read(events, Location(root, path)).task_id == "o__n-7", path


def test_openhands_rows_without_events_have_reasons_and_evaluated_rows_outcomes(tmp_path: Path, importing) -> None:
    row = {
        "instance_id": "o__n-1",
        "history": SDK,
        "test_result": {"git_patch": "d"},
        "metadata": {"llm": {"model": "m"}},
    }
    rows = [
        row,
        {**row, "instance_id": "o__n-2", "history": [], "error": "RuntimeError: no disk"},
        {**row, "instance_id": "o__n-3", "history": None},
        {
            **row,
            "instance_id": "o__n-4",
            "test_result": {"git_patch": "e"},
            "report": {"resolved": True, "error_eval": False},
        },
        {
            **row,
            "instance_id": "o__n-5",
            "test_result": {"git_patch": "f"},
            "report": {"resolved": False, "error_eval": True},
        },
    ]
    (tmp_path / "output.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = importing(tmp_path / "output.jsonl")
    assert found.summary["skipped"] == {"crash trace": 1, "no agent turn": 1}
    assert {t.task_id: t.resolved for t in found.trajectories} == {"o__n-1": None, "o__n-4": True, "o__n-5": None}
    assert found.by_task()["o__n-4"].label_source == "output.jsonl:4: report.resolved"


def test_openhands_evaluation_beside_the_run_labels_it(tmp_path: Path, importing) -> None:
    run = tmp_path / "gpt_maxiter_30"
    run.mkdir()
    tasks = [f"o__n-{n}" for n in range(1, 5)]
    rows = [{"instance_id": t, "history": SDK, "test_result": {"git_patch": t}} for t in tasks]
    (run / "output.jsonl").write_text("\n".join(map(json.dumps, rows)))
    stated = [{"resolved": True}, {"resolved": False, "test_timeout": True}, {"resolved": False, "error_eval": True}]
    evaluated = [
        {"instance_id": t, "test_result": {"git_patch": "d", "report": r}, "history": None}
        for t, r in zip(tasks, stated, strict=False)
    ]
    for one in evaluated:
        del one["history"]
    (run / "output.swebench_eval.jsonl").write_text("\n".join(map(json.dumps, evaluated)))
    found = importing(tmp_path)
    assert [t.resolved for t in found.trajectories] == [True, False, None, None]
    (report,) = found.summary["reports"]
    assert (report["kind"], report["stated"], report["resolved"], report["not_evaluated"]) == ("rows", 2, 1, 1)


@pytest.mark.parametrize("name", ["m-17{}.5.json", "m-17{}.123-4a0f.json", "call_{}.json"])
def test_all_calls_of_a_folder_are_one_attempt(name: str, tmp_path: Path, importing) -> None:
    folder = tmp_path / "llm_completions" / "o__n-1"
    folder.mkdir(parents=True)
    talk = [{"role": "user", "content": "Fix x."}]
    for number in (9, 10, 11):
        stamp = f"{number:08d}" if name.startswith("m") else str(number)
        answer = {"choices": [{"message": {"content": f"step {number}"}}]}
        (folder / name.format(stamp)).write_text(json.dumps({"messages": talk, "response": answer}))
        talk = [*talk, {"role": "assistant", "content": f"step {number}"}, {"role": "user", "content": "seen"}]
    (t,) = importing(tmp_path).trajectories
    assert (t.task_id, t.messages[-1].content, len(t.messages)) == ("o__n-1", "step 11", 6)
