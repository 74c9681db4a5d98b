"""Layouts that other versions of the same agents write: each is read as the version that the shipped samples show."""

from typing import Any

import pytest

from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.ingest.skipped import Skipped
from tests.trajectories.drafts import read, said


def response(*items: dict[str, Any]) -> dict[str, Any]:
    return {"object": "response", "output": [{"type": "reasoning", "summary": [{"text": "SECRET"}]}, *items]}


def test_mini_that_asked_through_the_responses_api() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": '{"command": "ls"}'}
    draft = read(
        {
            "info": {"exit_status": "Submitted", "submission": "d", "config": {"model": {"model_name": "m"}}},
            "messages": [
                {"role": "system", "content": "You fix."},
                {"role": "user", "content": "Fix x."},
                response({"type": "message", "content": [{"type": "output_text", "text": "I look."}]}, call),
                {"type": "function_call_output", "call_id": "c", "output": "a.py"},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "No call."}]},
                response({**call, "arguments": '{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}'}),
                {"role": "exit", "content": "d"},
                {"role": "alien", "content": "?"},
            ],
        }
    )
    assert said(draft) == [
        ("system", "You fix."),
        ("user", "Fix x."),
        ("assistant", "I look.\n\n[call bash]\nls\n[/call]"),
        ("tool", "a.py"),
        ("tool", "No call."),
        ("assistant", "[call bash]\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n[/call]"),
    ]
    assert (draft.policy, draft.patch, draft.exit_status) == ("m", "d", "submitted")
    assert draft.removed == {"exit turn": 1, "turn of an unknown role": 1}


def test_mini_without_a_version_keeps_its_submission() -> None:
    talk = [{"role": "user", "content": "Fix x."}, {"role": "assistant", "content": "See\n```bash\nls\n```"}]
    draft = read(
        {"info": {"exit_status": "LimitsExceeded", "submission": "d"}, "messages": talk},
        Location("run", "o__n-1.traj.json"),
    )
    assert (draft.format, draft.task_id, draft.patch, draft.exit_status) == (
        "mini-swe-agent",
        "o__n-1",
        "d",
        "unfinished",
    )


def test_moatless_states_with_requests_are_read_along_the_path_to_the_current_one() -> None:
    draft = read(
        {
            "initial_message": "Fix x.",
            "current_transition_id": 3,
            "info": {"instance_id": "o__n-1", "submission": "d", "status": "finished"},
            "transitions": [
                {"id": 0, "name": "Pending", "properties": {}},
                {
                    "id": 1,
                    "name": "SearchCode",
                    "previous_state_id": 0,
                    "actions": [
                        {
                            "request": {"scratch_pad": "I look.", "query": "x"},
                            "response": {
                                "trigger": "did_search",
                                "output": {"ranked_spans": [{"file_path": "a.py", "span_id": "f"}]},
                            },
                        }
                    ],
                },
                {"id": 2, "name": "Beside", "previous_state_id": 1, "actions": [{"request": {"query": "y"}}]},
                {"id": 3, "name": "Finished", "previous_state_id": 1, "properties": {}},
            ],
        }
    )
    assert said(draft) == [
        ("user", "Fix x."),
        ("assistant", "I look.\n\n[call SearchCode]\nx\n[/call]"),
        ("tool", "a.py: f"),
    ]
    assert (draft.task_id, draft.exit_status, draft.removed) == ("o__n-1", "submitted", {"states of other branches": 1})


def test_moatless_nodes_within_one_another_with_several_actions() -> None:
    def step(name: str, **shown: str) -> dict[str, Any]:
        return {"action": {**shown, "action_args_class": f"a.{name}Args"}, "observation": {"message": f"saw {name}"}}

    last = {
        "node_id": 3,
        "action_steps": [step("Finish", reason="done")],
        "file_context": {"files": [{"patch": "d"}]},
        "children": [],
    }
    steps = [step("Find", query="x"), step("View", path="a")]
    first = {"node_id": 1, "thoughts": {"text": "I look."}, "action_steps": steps, "children": [last]}
    beside = {"node_id": 2, "action_steps": [step("Find", query="y")], "children": []}
    draft = read({"metadata": {}, "root": {"node_id": 0, "user_message": "Fix x.", "children": [first, beside]}})
    assert [text.split("\n")[0] for role, text in said(draft) if role == "assistant"] == [
        "I look.",
        "[call View]",
        "[call Finish]",
    ]
    assert [text for role, text in said(draft) if role == "tool"] == ["saw Find", "saw View", "saw Finish"]
    assert (draft.task_id, draft.patch, draft.exit_status) == ("o__n-1", "d", "submitted")
    assert draft.removed == {"nodes of other branches": 1}


def test_swe_agent_that_tried_again_is_the_attempt_that_it_submitted() -> None:
    talk = [{"role": "user", "content": "Fix x."}, {"role": "assistant", "content": "See\n```\nls\n```"}]
    draft = read(
        {"attempts": [{"history": talk}, {"history": talk}], "history": talk, "info": {"exit_status": "submitted"}}
    )
    assert len(draft.messages) == 2
    assert draft.removed == {"attempts that were not submitted": 1}


def test_swe_agent_without_a_history_is_read_from_its_steps() -> None:
    demo = {"role": "user", "content": "A demo", "is_demo": True}
    asked = [{"role": "system", "content": "You fix."}, demo, {"role": "user", "content": "Fix x."}]
    steps = [
        {
            "query": asked,
            "thought": "I look.",
            "action": "ls",
            "observation": "a.py",
            "response": "I look.\n```\nls\n```",
        }
    ]
    draft = read(
        {"trajectory": steps, "info": {"exit_status": "submitted", "submission": "d"}}, Location("run", "o__n-1.traj")
    )
    assert said(draft) == [
        ("system", "You fix."),
        ("user", "Fix x."),
        ("assistant", "I look.\n\n[call bash]\nls\n[/call]"),
        ("tool", "a.py"),
    ]


@pytest.mark.parametrize("name", ["trajectory.json", "traj.json", "run.traj.json", "o__n-1.json"])
def test_a_file_that_every_instance_has_is_about_its_folder(name: str) -> None:
    talk = [{"role": "user", "content": "Fix x."}, {"role": "assistant", "content": "See\n```bash\nls\n```"}]
    documents = ({"info": {"submission": "d"}, "messages": talk}, {"history": talk}, {"messages": talk, "patch": "d"})
    assert [read(one, Location("run", f"o__n-1/{name}")).task_id for one in documents] == ["o__n-1"] * 3
    assert read(documents[0], Location(name, "")).task_id == name.split(".")[0]


def test_r2e_gym_steps() -> None:
    row = {
        "trajectory_steps": [
            {
                "thought": "I look.",
                "action": "<function=execute_bash>\n<parameter=cmd>ls</parameter>\n</function>",
                "observation": "a.py",
                "done": False,
            }
        ],
        "problem_statement": "Fix x.",
        "docker_image": "img:1",
        "agent_args": {"llm_name": "m", "system_prompt": "You fix."},
        "exit_reason": "agent",
        "output_patch": "d",
        "reward": 1.0,
        "test_output": "SECRET",
    }
    draft = read(row)
    assert said(draft)[2:] == [("assistant", "I look.\n\n[call execute_bash]\nls\n[/call]"), ("tool", "a.py")]
    assert (draft.task_id, draft.policy, draft.patch, draft.resolved) == ("img:1", "m", "d", True)
    assert (draft.exit_status, draft.removed) == ("submitted", {"column test_output": 1})
    assert "SECRET" not in repr(draft)
    assert read({**row, "ds": {"instance_id": "o__n-1"}}).task_id == "o__n-1"
    assert read({**row, "reward": None}).resolved is None
    assert read({**row, "exit_reason": "token_limit"}).exit_status == "unfinished"
    with pytest.raises(Skipped, match=r"crash trace \(llm_query_error\)"):
        read({**row, "trajectory_steps": [{"observation": "x"}], "exit_reason": "llm_query_error"})


def test_what_an_agent_without_tool_calls_saw_is_an_observation() -> None:
    talk = [
        ("system", "S"),
        ("user", "Fix x."),
        ("ai", "See\n```\nls\n```"),
        ("user", "a.py"),
        ("ai", "ok"),
        ("tool", "t"),
        ("user", "u"),
    ]
    draft = read({"instance_id": "o__n-1", "trajectory": [{"role": role, "text": text} for role, text in talk]})
    assert [m.role for m in draft.messages] == ["system", "user", "assistant", "tool", "assistant", "tool", "user"]
