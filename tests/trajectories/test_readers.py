"""What a reader must not do: take another's document, the benchmark's answer, a block that never ran, or one attempt twice."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.readers.executed import in_notation
from rmlab.trajectories.readers.protocol import exit_status
from rmlab.trajectories.readers.registry import drafted
from rmlab.trajectories.record import Message

TALK = [
    {"role": "system", "content": "You fix."},
    {"role": "user", "content": "Fix x."},
    {"role": "assistant", "content": "I look.\n```bash\nls\n```"},
    {"role": "tool", "content": "a.py"},
    {"role": "assistant", "content": "Done."},
]
HERE = Location("run", "o__n-1/trajectory.json")


def read(document: Any, location: Location = HERE) -> Draft:
    draft = drafted(document, location)
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


def test_turns_are_where_the_roles_are() -> None:
    row = {"instance_id": "o__n-1", "messages": [["a"], ["b"]], "trajectory": TALK}
    assert (read(row).format, len(read(row).messages)) == ("chat", 5)


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


def test_an_outcome_in_no_known_form_is_counted() -> None:
    for value, counted in (("perhaps", 1), (0.5, 1), (-1, 0), (None, 0), (1, 0), ("yes", 0)):
        draft = read({**ROW, "resolved": value})
        assert sum(draft.removed.values()) == counted, value
    assert read({**ROW, "resolved": "perhaps"}).removed == {
        "label in column resolved that is neither true nor false": 1
    }


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
    quoted = ("user", "OBSERVATION:\nValueError: exactly one function is needed")
    assert said(("ai", PLAIN), quoted) == [f"So:\n\n{RAN}"]
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


# OpenHands


def test_exit_codes_of_openhands_are_what_the_agent_saw() -> None:
    suffix = "\n[The command completed with exit code 1.]"
    metadata = {"exit_code": 1, "prefix": "[before]\n", "suffix": suffix}
    shown = [
        ({"output": "no", "metadata": metadata}, f"[before]\nno{suffix}"),
        ({"content": [{"type": "text", "text": "no"}], "metadata": {"exit_code": 1}}, f"no{suffix}"),
        ({"content": [{"type": "text", "text": "no"}], "exit_code": 1}, f"no{suffix}"),
        ({"output": f"no{suffix}", "metadata": {**metadata, "prefix": ""}}, f"no{suffix}"),
        ({"output": "", "metadata": {"exit_code": 0, "suffix": ""}}, "\n[The command completed with exit code 0.]"),
        (
            {"output": "runs", "metadata": {"exit_code": -1, "suffix": "\n[It has no new output.]"}},
            "runs\n[It has no new output.]",
        ),
        ({"output": "a file", "path": "a.py"}, "a file"),
    ]
    action = {"kind": "ActionEvent", "source": "agent", "action": {"command": "ls"}, "tool_name": "bash"}
    for seen, text in shown:
        events = [action, {"kind": "ObservationEvent", "source": "environment", "observation": seen}]
        for document in ({"events": events, "state": {}}, {"instance_id": "o__n-1", "history": events}):
            assert read(document).messages[-1].content == text, seen
    act = {"action": "run", "source": "agent", "args": {"command": "ls"}}
    for extras, content, text in (
        ({"metadata": metadata}, "no", f"[before]\nno{suffix}"),
        ({"exit_code": 1}, "no", f"no{suffix}"),
        ({"exit_code": 1}, "no\n[Command 5 finished with exit code 1]", "no\n[Command 5 finished with exit code 1]"),
        ({}, "no", "no"),
    ):
        seen = {"observation": "run", "source": "agent", "content": content, "extras": extras}
        assert read({"instance_id": "o__n-1", "history": [act, seen]}).messages[-1].content == text, extras


def test_condensations_and_unknown_events_are_counted() -> None:
    action = {"kind": "ActionEvent", "source": "agent", "action": {"command": "ls"}, "tool_name": "bash"}
    events = [
        action,
        {"kind": "Condensation"},
        {"kind": "CondensationSummaryEvent"},
        {"kind": "Condensation"},
        {"kind": "New"},
    ]
    events.append({"kind": "ConversationStateUpdateEvent"})
    for document in ({"events": events, "state": {}}, {"instance_id": "o__n-1", "history": events}):
        assert read(document).removed == {"condensations": 2, "event of an unknown kind": 1}
    old = [{"action": "run", "args": {"command": "ls"}}, {"action": "condensation"}, {"observation": "condense"}]
    assert read({"instance_id": "o__n-1", "history": old}).removed == {"condensations": 1}
