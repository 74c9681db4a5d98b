"""Documents as their writers make them, one format at a time; what is kept and what never is."""

import json
from pathlib import Path

import pytest

from rmlab.trajectories.ingest.json_text import read_json
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.ingest.skipped import Skipped
from rmlab.trajectories.readers.calls import call, content_text, of_text, of_tool_calls
from rmlab.trajectories.readers.protocol import exit_status
from rmlab.trajectories.readers.registry import FORMATS, format_of, formats_named
from rmlab.trajectories.record import clean
from tests.trajectories.drafts import TALK_WITH_CALLS

HERE = Location("run.jsonl", "")


def test_one_notation_for_calls() -> None:
    assert call("bash", '{"command": "ls -la"}') == "[call bash]\nls -la\n[/call]"
    assert (
        call("edit", {"command": "view", "path": "a.py", "view_range": [], "x": None})
        == "[call edit]\ncommand: view\npath: a.py\n[/call]"
    )
    assert call("submit", "{}") == "[call submit]\n[/call]"
    assert call("", "not JSON {") == "[call tool]\nnot JSON {\n[/call]"
    assert of_text("I think.\n```bash\nls\n```") == "I think.\n\n[call bash]\nls\n[/call]"
    assert of_text("First\n```\na\n```\nthen\n```\nb\n```").endswith(
        "[call bash]\nb\n[/call]"
    )  # the command is the last block
    assert (
        of_text("So:\n<function=bash>\n<parameter=command>ls\n</parameter>\n</function>")
        == "So:\n[call bash]\nls\n[/call]"
    )
    assert of_text("no call") == "no call"
    assert of_tool_calls(json.dumps(TALK_WITH_CALLS[2]["tool_calls"])) == ["[call bash]\nls\n[/call]"]
    assert of_tool_calls([{"function": None}, 3, {"name": "run", "arguments": {"a": 1, "b": "x"}}]) == [
        "[call run]\na: 1\nb: x\n[/call]"
    ]


def test_content_is_a_string_a_list_of_blocks_or_nothing() -> None:
    assert content_text("a") == "a"
    assert content_text(None) == ""
    assert (
        content_text([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "thinking", "thinking": "x"}, "b"])
        == "a\n[image]\nb"
    )
    assert content_text([{"type": "tool_use", "name": "Find", "input": {"q": "x"}}]) == "[call Find]\nx\n[/call]"
    assert content_text([{"type": "tool_result", "content": [{"type": "text", "text": "seen"}]}]) == "seen"
    assert clean("a\ud83d\ude00b\ud800c") == "a\N{GRINNING FACE}b\N{REPLACEMENT CHARACTER}c"


def test_near_json_is_mended_and_nothing_else() -> None:
    assert read_json(b'\xef\xbb\xbf{"a": [1, 2]}') == ({"a": [1, 2]}, None)
    with pytest.raises(Skipped, match=r"^not UTF-8 \(byte 5\)$"):  # counted with the mark
        read_json(b'\xef\xbb\xbf["\xff"]')
    assert read_json(b'{"a": [1, 2,], "b": "x,]",}') == ({"a": [1, 2], "b": "x,]"}, "a comma before a closing bracket")
    assert read_json(rb'{"a": "C:\some \n \"q\" \\d"}') == (
        {"a": 'C:\\some \n "q" \\d'},
        "a backslash before a character that needs none",
    )
    both = read_json(rb'{"a": "\s", "b": [1,],}')
    assert both == (
        {"a": "\\s", "b": [1]},
        "a backslash before a character that needs none and a comma before a closing bracket",
    )
    assert read_json(b'{"a": "x\n\ty"}') == ({"a": "x\n\ty"}, "a control character within a string")
    for broken, reason in (
        (b'{"a": 1', "line 1"),
        (b"{'a': 1}", "line 1"),
        (b"", "empty"),
        (b"\xff{}", "UTF-8"),
        (b"[" * 100_000, "not"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not readable"),
        (b'{"a" 1}', "line 1"),
        (b'{"a": "x\ny" 1}', "line 1"),
    ):
        with pytest.raises(Skipped, match=reason):
            read_json(broken)


@pytest.mark.parametrize(
    ("stated", "status"),
    [
        ("Submitted", "submitted"),
        ("submitted", "submitted"),
        ("finished", "submitted"),
        ("LimitsExceeded", "unfinished"),
        ("submitted (exit_cost)", "unfinished"),
        ("submitted (exit_context)", "unfinished"),
        ("exit_format", "unfinished"),
        ("early_exit", "unfinished"),
        ("rejected", "unfinished"),
        ("exit_error", "error"),
        ("submitted (exit_error)", "error"),
        ("InternalServerError", "error"),
        ("Timeout", "error"),
        ("", "unfinished"),
    ],
)
def test_how_an_attempt_ended(stated: str, status: str) -> None:
    assert exit_status(stated, submitted=False) == status
    assert exit_status("", submitted=True) == "submitted"


def test_a_node_tree_is_read_along_the_branch_that_finished() -> None:
    def node(number: int, parent: int | None, what: str, finish: bool = False) -> dict:
        return {
            "node_id": number,
            "parent_id": parent,
            "message": "Fix x." if parent is None else None,
            "action": None
            if parent is None
            else {"action_args_class": f"a.{'Finish' if finish else what}Args", "scratch_pad": what},
            "observation": {"message": f"saw {what}"},
        }

    document = {
        "metadata": {"instance_id": "o__n-1"},
        "nodes": [
            node(0, None, ""),
            node(1, 0, "A"),
            node(2, 1, "B"),
            node(3, 0, "C"),
            node(4, 3, "D", True),
            node(5, 2, "E"),
        ],
    }
    reader = format_of(document)
    draft = reader.read(document, HERE)
    assert [m.content.split("\n")[0] for m in draft.messages if m.role == "assistant"] == ["C", "D"]
    assert (draft.exit_status, draft.removed) == ("submitted", {"nodes of other branches": 3})
    circle = {
        "nodes": [
            {"node_id": 0, "parent_id": 1, "action": {"q": "x"}},
            {"node_id": 1, "parent_id": 0, "action": {"q": "y"}},
        ]
    }
    assert len(format_of(circle).read(circle, HERE).messages) == 2


def test_openhands_history_of_pairs_and_of_events_are_the_same() -> None:
    action = {"action": "run", "source": "agent", "args": {"command": "ls", "thought": "I look."}}
    seen = {"observation": "run", "content": "a.py"}
    issue = {"action": "message", "source": "user", "args": {"content": "Fix x."}}
    end = {"action": "finish", "source": "agent", "args": {"outputs": {}, "final_thought": "Done."}}
    flat = {
        "instance_id": "o__n-1",
        "history": [issue, action, seen, end],
        "test_result": {"git_patch": "d", "report": {"resolved": True}},
    }
    pairs = {
        **flat,
        "history": [[issue, {"observation": "null", "content": ""}], [action, seen], [end, {"observation": "null"}]],
    }
    drafts = [format_of(document).read(document, HERE) for document in (flat, pairs)]
    assert drafts[0].messages == drafts[1].messages
    assert [m.role for m in drafts[0].messages] == ["user", "assistant", "tool", "assistant"]
    assert (drafts[0].exit_status, drafts[0].patch, drafts[0].resolved) == ("submitted", "d", True)
    assert drafts[0].label_source == f"{HERE}: test_result.report.resolved"


def test_no_agent_turn_and_crash_traces_have_reasons() -> None:
    mini = {
        "trajectory_format": "mini-swe-agent-1.1",
        "info": {"exit_status": "Timeout", "submission": ""},
        "messages": TALK_WITH_CALLS[:2],
    }
    with pytest.raises(Skipped, match=r"crash trace \(Timeout\)"):
        format_of(mini).read(mini, HERE)
    with pytest.raises(Skipped, match="no agent turn"):
        format_of(mini).read({**mini, "info": {"exit_status": "LimitsExceeded"}}, HERE)


def test_formats_are_found_by_name(tmp_path: Path, importing) -> None:
    assert len({one.name for one in FORMATS}) == len(FORMATS)
    assert formats_named("auto") == FORMATS
    (tmp_path / "rows.jsonl").write_text(
        json.dumps({"instance_id": "o__n-1", "messages": TALK_WITH_CALLS, "reward": -1.0})
    )
    found = importing(tmp_path / "rows.jsonl", formats=formats_named("swe-agent")).summary
    assert (found["trajectories"], found["skipped"]) == (0, {"no known format": 1})
