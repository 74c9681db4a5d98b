"""What a reader must not do: take another's document, the benchmark's answer, a block that never ran, or one attempt twice."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmlab.trajectories.draft import Draft
from rmlab.trajectories.formats.executed import in_notation
from rmlab.trajectories.formats.protocol import exit_status
from rmlab.trajectories.formats.registry import drafted
from rmlab.trajectories.places import Place
from rmlab.trajectories.record import Message

TALK = [
    {"role": "system", "content": "You fix."},
    {"role": "user", "content": "Fix x."},
    {"role": "assistant", "content": "I look.\n```bash\nls\n```"},
    {"role": "tool", "content": "a.py"},
    {"role": "assistant", "content": "Done."},
]
HERE = Place("run", "o__n-1/trajectory.json")


def read(document: Any, place: Place = HERE) -> Draft:
    draft = drafted(document, place)
    assert draft is not None
    return draft


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


# Whose document is it?


@pytest.mark.parametrize("messages", [[["a"], ["b"]], [{"role": "user", "content": "Summarise."}], [], [3], None])
def test_a_swe_agent_file_with_other_messages_beside_its_history(messages: Any) -> None:
    document = {"environment": "o__n-1", "trajectory": [], "history": TALK, "info": {"exit_status": "submitted"}}
    draft = read({**document, "messages": messages})
    assert (draft.format, draft.task_id, len(draft.messages)) == ("swe-agent", "o__n-1", 5)


def test_messages_beside_a_history_of_something_else() -> None:
    row = {"instance_id": "o__n-1", "messages": TALK, "test_result": {"git_patch": "d"}}
    for history in ([], [{"role": "user", "content": "earlier"}], [{"action": "message", "source": "user"}]):
        draft = read({**row, "history": history})
        assert (draft.format, len(draft.messages), draft.patch) == ("chat", 5, "d"), history


def test_the_first_readers_reason_is_given_where_no_reader_finds_an_attempt(tmp_path: Path, importing) -> None:
    document = {"info": {"exit_status": "RuntimeError", "submission": ""}, "messages": TALK[:2]}
    (tmp_path / "o__n-1.traj.json").write_text(json.dumps(document))
    assert importing(tmp_path).summary["skipped"] == {"crash trace": 1}


# Whose patch is it?

ROW = {"instance_id": "o__n-1", "messages": TALK, "patch": "GOLD"}
BENCHMARK = {"test_patch": "t", "FAIL_TO_PASS": ["t::a"]}


@pytest.mark.parametrize(
    ("beside", "patch"),
    [
        ({}, "GOLD"),  # SWE-smith: the attempt's own
        ({"model_patch": "mine"}, "mine"),
        ({"generated_patch": "mine", **BENCHMARK}, "mine"),
        ({"output_patch": "mine"}, "mine"),
        ({"metadata": {"model_patch": "mine"}}, "mine"),
        ({"test_result": {"git_patch": "mine"}}, "mine"),
        ({"submission": "diff --git a/m b/m"}, "diff --git a/m b/m"),
        ({"submission": "20240620_agent"}, "GOLD"),  # a name
        ({"model_patch": ""}, None),
        ({"model_patch": None}, None),
        (BENCHMARK, None),
        ({"PASS_TO_PASS": "[]"}, None),
        ({"fail_to_pass": "[]"}, None),
        ({"patch": "mine", "gold_patch": "GOLD"}, "mine"),
        ({"patch": "mine", "reference_patch": "GOLD"}, "mine"),
        ({"patch": "mine", "golden_patch": "GOLD", **BENCHMARK}, "mine"),
        ({"gold_patch": "GOLD", **BENCHMARK}, None),
    ],
)
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_the_benchmarks_patch_is_never_the_attempts(
    beside: dict[str, Any], patch: str | None, kind: str, tmp_path: Path, importing
) -> None:
    row = {**ROW, **beside}
    path = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        lines(path, row)
    else:
        pq.write_table(pa.Table.from_pylist([row]), path)
    (t,) = importing(path).trajectories
    assert t.patch == patch
    assert patch == "GOLD" or "GOLD" not in json.dumps([t.extra, [m.content for m in t.messages]])
    if patch is None or (patch != "GOLD" and row["patch"] == "GOLD"):
        assert t.extra["removed"]["column patch"] == 1


# What was run?


def test_a_block_beside_structured_calls_is_text() -> None:
    call = {"function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    calls = (
        {"tool_calls": [call]},
        {"function_call": call["function"]},
        {"content": [{"type": "tool_use", "name": "bash", "input": {"command": "ls"}}]},
    )
    end = {"role": "assistant", "content": "Run it:\n```bash\nrm -r x\n```\nor <function=bash>\nls\n</function>"}
    for one in calls:
        turns = [
            *TALK[:2],
            {"role": "assistant", "content": None, **one},
            TALK[3],
            end,
            {"role": "user", "content": "ok"},
        ]
        for document in (
            {"messages": turns},
            turns,
            {"history": turns, "info": {}},
            {"messages": turns, "info": {"exit_status": "Submitted"}},
            {"messages": turns, "response": {"choices": []}},
        ):
            said = [m.content for m in read(document).messages if m.role == "assistant"]
            assert said == ["[call bash]\nls\n[/call]", end["content"]], document


def test_an_older_functions_answer_is_an_observation() -> None:
    turns = [*TALK[:2], {"role": "assistant", "function_call": {"name": "run", "arguments": "{}"}}]
    turns.append({"role": "function", "name": "run", "content": "a.py"})
    for document in (
        {"messages": turns},
        {"history": turns, "info": {}},
        {"messages": turns, "info": {"submission": ""}},
    ):
        assert [(m.role, m.content) for m in read(document).messages][2:] == [
            ("assistant", "[call run]\n[/call]"),
            ("tool", "a.py"),
        ]


def said(*turns: tuple[str, str], rule: Any = None) -> list[str]:
    messages = [Message("assistant" if role == "ai" else role, text) for role, text in turns]  # type: ignore[arg-type]
    return [m.content for m in in_notation(messages, rule) if m.role == "assistant"]


BASH, PYTHON, PLAIN = "I look.\n```bash\nls\n```", "The code:\n```python\nx = 1\n```", "So:\n```\nls\n```"
TWO = "First\n```bash\na\n```\nthen\n```bash\nb\n```"
RAN = "[call bash]\nls\n[/call]"


def test_an_agents_own_format_says_what_ran() -> None:
    seen = ("user", "<returncode>0</returncode>\n<output>\na.py</output>")
    one = said(
        ("ai", BASH), seen, ("ai", TWO), ("user", "found 2 actions"), ("ai", PYTHON + "\n" + BASH), seen, ("ai", PLAIN)
    )
    assert one == [f"I look.\n\n{RAN}", TWO, f"{PYTHON}\nI look.\n\n{RAN}", PLAIN]  # mini: exactly one bash block
    seen = ("user", "OBSERVATION:\na.py")
    last = said(("ai", PLAIN), seen, ("ai", TWO), seen, ("ai", PYTHON), ("ai", "Done.\n```\nsubmit\n```"))
    assert last[0] == f"So:\n\n{RAN}"
    assert last[1].endswith("[call bash]\nb\n[/call]")  # SWE-agent: the last block
    assert last[2:] == [PYTHON, "Done.\n\n[call bash]\nsubmit\n[/call]"]
    refused = (
        "user",
        "Your output was not formatted correctly. You must always include one discussion and one command",
    )
    assert said(("ai", PLAIN), seen, ("ai", TWO), refused)[1] == TWO
    assert said(("ai", BASH), ("user", "a.py"), rule="xml") == [BASH]  # OpenHands never runs a block


def test_a_block_of_an_unknown_agent_ran_if_an_observation_follows() -> None:
    seen = ("tool", "a.py")
    assert said(("ai", BASH), seen, ("ai", PYTHON), seen, ("ai", TWO), seen, ("ai", BASH)) == [
        f"I look.\n\n{RAN}",
        PYTHON,
        TWO,
        BASH,
    ]
    assert said(("user", "Fix x."), ("ai", BASH), ("user", "Thanks, go on."), ("ai", PLAIN)) == [BASH, PLAIN]
    xml = "So:\n<function=bash>\n<parameter=command>ls</parameter>\n</function>"
    assert said(("ai", xml), ("user", "a.py")) == [f"So:\n{RAN}"]


def test_swe_agents_own_field_says_what_ran() -> None:
    turns = [
        {"role": "assistant", "content": PLAIN, "thought": "So:", "action": "ls\n"},
        {"role": "user", "content": "OBSERVATION:\na.py"},
        {"role": "assistant", "content": PYTHON, "thought": PYTHON, "action": ""},
        {"role": "user", "content": "Say more."},
        {"role": "assistant", "content": TWO, "thought": TWO, "action": "a\n"},
        {"role": "user", "content": "OBSERVATION:\n"},
        {"role": "assistant", "content": BASH, "thought": "Exit due to format error", "action": "exit_format"},
    ]
    draft = read({"history": [*TALK[:2], *turns], "info": {"exit_status": "exit_format"}})
    assert [m.content for m in draft.messages if m.role == "assistant"] == [
        f"So:\n\n{RAN}",
        PYTHON,
        "First\n\nthen\n```bash\nb\n```\n\n[call bash]\na\n[/call]",
        BASH,
    ]
    assert draft.exit_status == "unfinished"


# How did it end?


@pytest.mark.parametrize(
    ("stated", "status"),
    [
        ("TimeExceeded", "unfinished"),
        ("StepLimitExceeded", "unfinished"),
        ("BudgetExceeded", "unfinished"),
        ("exit_total_execution_time", "unfinished"),
        ("exit_command_timeout", "unfinished"),
        ("ContextWindowExceededError", "unfinished"),
        ("max_step_limit", "unfinished"),
        ("RateLimitError", "error"),
        ("RateLimitExceeded", "error"),
        ("rate_limit", "error"),
        ("litellm.RateLimitError: limit reached", "error"),
        ("InsufficientQuotaError", "error"),
        ("APIConnectionError: Max retries exceeded", "error"),
        ("TimeoutError", "error"),
        ("RuntimeError", "error"),
        ("exit_api", "error"),
        ("exit_environment_error", "error"),
    ],
)
def test_a_service_that_refused_is_an_error_and_what_ran_out_is_unfinished(stated: str, status: str) -> None:
    assert exit_status(stated, submitted=False) == status


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
        "ticks": [{"role": "assistant", "content": PLAIN}, {"role": "user", "content": seen}],
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
    lines(tmp_path / "c" / "1.jsonl", one, {**renderings()["xml"]})  # a name that one file uses twice
    lines(tmp_path / "c" / "2.jsonl", renderings()["ticks"])
    assert importing(tmp_path / "c").summary["trajectories"] == 3


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
