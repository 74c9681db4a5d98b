"""SWE-agent `.traj`: 0.x (commands in fenced blocks; several agents in one file too) and 1.x (tool calls, blocks of content).

`history` is what the agent saw and said; `trajectory` repeats it by step and is read where there is no history; what was asked
stands in the first step's `query` then. Messages
with `is_demo` are another task's: dropped and counted. Each agent of a team brings a system message and the issue again;
what it says counts as the policy's. A file of a run that tries again (`attempts`) repeats the attempt that it submitted at
its top; that one is read, and the others are counted.
"""

import json
from typing import Any

from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.json_text import as_dict, as_list, as_text
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.readers.calls import FENCE, XML, call, content_text, is_structured, of_message, of_text, turn
from rmlab.trajectories.readers.executed import in_notation, submits
from rmlab.trajectories.readers.protocol import (
    UNKNOWN_ROLE,
    agent_turns,
    exit_status,
    register,
    task_by_location,
    validated,
)
from rmlab.trajectories.record import Message, clean

GENERIC = ("main", "swe_main", "")
ROLES = ("system", "user", "assistant", "tool", "function")
OWN_MARKS = ("trajectory", "info", "environment", "replay_config", "attempts")
OBSERVED = "OBSERVATION:\n"


@register(order=30)
class SweAgent:
    """0.x and 1.x."""

    name = "swe-agent"

    def matches(self, document: Any) -> bool:
        fields = as_dict(document)
        history = as_list(fields.get("history"))
        if (
            history
            and all("role" in as_dict(m) for m in history[:3])
            and not any("action" in m and "id" in m for m in map(as_dict, history[:3]))
            # a row of messages may keep a history of something else beside them
            and (any(key in fields for key in OWN_MARKS) or not as_list(fields.get("messages")))
        ):
            return True
        return any(
            "action" in as_dict(s) and "observation" in as_dict(s) for s in as_list(fields.get("trajectory"))[:1]
        )

    def read(self, document: Any, location: Location) -> Draft:
        info = as_dict(document.get("info"))
        history = [as_dict(m) for m in as_list(document.get("history"))]
        demos = sum(bool(m.get("is_demo")) for m in history)
        messages = _turns([m for m in history if not m.get("is_demo")])
        if not agent_turns(messages):
            steps = as_list(document.get("trajectory"))
            first = as_dict(next(iter(steps), None))
            asked = [as_dict(m) for m in as_list(first.get("query")) or as_list(first.get("messages"))]
            messages = (messages or _turns([m for m in asked if not m.get("is_demo")])) + _steps(steps)
        stated = as_text(info.get("exit_status"))
        patch = clean(as_text(info.get("submission"))) or None
        environment = as_text(document.get("environment"))
        model = _model(document.get("replay_config"))
        last = next((m.content for m in reversed(messages) if m.role == "assistant"), "")
        draft = Draft(
            location=location,
            format=self.name,
            task_id=task_by_location(messages, location)
            if environment in GENERIC or " " in environment
            else environment,
            policy="" if model in ("replay", "human", "human_thought") else model,
            messages=messages,
            patch=patch,
            exit_status=exit_status(stated, submitted=submits(last)),
            extra={"version": as_text(info.get("swe_agent_version"))} if info.get("swe_agent_version") else {},
        )
        strange = sum(as_text(m.get("role")) not in ROLES for m in history)
        tries = len(as_list(document.get("attempts")))
        for kind, n in (
            ("demonstration turns", demos),
            (UNKNOWN_ROLE, strange),
            ("attempts that were not submitted", tries - 1),
        ):
            if n > 0:
                draft.removed[kind] += n
        return validated(draft, crashed=stated if draft.exit_status == "error" else "")


def _model(config: object) -> str:
    """The model of a run's configuration, which is an object or (from 1.0 on) a JSON text of one."""
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError):
            return ""
    return as_text(as_dict(as_dict(as_dict(config).get("agent")).get("model")).get("name"))


def _turns(history: list[dict[str, Any]]) -> list[Message]:
    messages: list[Message] = []
    for one in history:
        role, text = as_text(one.get("role")), content_text(one.get("content"))
        if role == "assistant":
            calls = of_message(one)
            messages.append(Message("assistant", turn(text, calls) if calls else _acted(one, text)))
        elif role == "system":
            messages.append(Message("system", text))
        elif role in ("user", "tool", "function"):
            observed = role != "user" or (bool(messages) and messages[-1].role == "assistant")
            messages.append(Message("tool" if observed else "user", text.removeprefix(OBSERVED) if observed else text))
    stated = any(is_structured(one) or isinstance(one.get("action"), str) for one in history)
    return messages if stated else in_notation(messages, "last block")


def _acted(one: dict[str, Any], text: str) -> str:
    """A turn whose command stands in its text: most files give thought and action apart, and then nothing has to be found."""
    action = clean(as_text(one.get("action")))
    if not action.strip() or action.startswith(
        "exit_"
    ):  # exit_format, exit_cost: what the agent's frame noted, nothing ran
        return text
    thought = as_text(one.get("thought"))
    if thought and thought.strip() != text.strip():
        return turn(clean(thought), [call("bash", {"command": action})])
    if XML.search(text):
        return of_text(text)
    block = next((b for b in FENCE.finditer(text) if b["body"].strip() == action.strip()), None)
    return turn(text[: block.start()] + text[block.end() :] if block else text, [call("bash", {"command": action})])


def _steps(trajectory: list[Any]) -> list[Message]:
    messages: list[Message] = []
    for step in map(as_dict, trajectory):
        thought = clean(as_text(step.get("thought"))) or clean(as_text(step.get("response")))
        action = clean(as_text(step.get("action")))
        if thought.strip() or action.strip():
            messages.append(
                Message("assistant", turn(thought, [call("bash", {"command": action})] if action.strip() else []))
            )
            messages.append(Message("tool", content_text(step.get("observation"))))
    return messages
