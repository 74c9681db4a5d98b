"""Which blocks of an agent's text ran, and how an attempt ended."""

from typing import Any

import pytest

from rmlab.trajectories.readers.executed import in_notation
from rmlab.trajectories.readers.protocol import exit_status
from rmlab.trajectories.record import Message
from tests.trajectories.drafts import TALK, read

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
