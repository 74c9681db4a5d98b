"""mini-SWE-agent v1 (`mini-swe-agent-1`: commands in fenced blocks) and v2 (`mini-swe-agent-1.1`: native tool calls, role `exit`).

One JSON document an instance; the oldest files are the bare list of messages. An observation of v1 has the role `user`; a turn
of v1 runs its bash block, and nothing where it has several.
Models that v2 asks through the Responses API leave whole answers (`object: response`) and `function_call_output` items
among the messages, without a role.
"""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.json_text import as_dict, as_list, as_text
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.readers.calls import FENCE, content_text, is_structured, of_message, of_response, turn
from rmlab.trajectories.readers.executed import in_notation
from rmlab.trajectories.readers.protocol import UNKNOWN_ROLE, exit_status, register, task_by_location, validated
from rmlab.trajectories.record import Message, clean

INFO = ("mini_version", "submission", "exit_status")  # early files carry no version of the format
SUBMIT = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")


@register(order=10)
class MiniSweAgent:
    """Both versions."""

    name = "mini-swe-agent"

    def matches(self, document: Any) -> bool:
        if isinstance(document, list):
            turns = [as_dict(m) for m in document]
            return any(
                m.get("role") == "assistant" and FENCE.search(as_text(m.get("content"))) and "bash" in m["content"]
                for m in turns[:8]
            ) and not any(map(is_structured, turns))
        fields = as_dict(document)
        if as_text(fields.get("trajectory_format")).startswith("mini-swe-agent"):
            return True
        turns = [as_dict(m) for m in as_list(fields.get("messages"))]
        others = any(as_list(fields.get(key)) for key in ("history", "trajectory"))  # SWE-agent's, whose info is alike
        return (
            not others
            and any("role" in m or "object" in m for m in turns[:3])
            and any(key in as_dict(fields.get("info")) for key in INFO)
        )

    def read(self, document: Any, location: Location) -> Draft:
        bare = isinstance(document, list)
        info = {} if bare else as_dict(document.get("info"))
        raw = document if bare else as_list(document.get("messages"))
        messages, removed = _messages(raw)
        last = next((m.content for m in reversed(messages) if m.role == "assistant"), "")
        ended = any(word in last for word in SUBMIT)
        stated = as_text(info.get("exit_status"))
        patch: str | None = clean(as_text(info.get("submission"))) or None
        if bare and ended and messages and messages[-1].role == "tool":
            patch = messages.pop().content.strip() or None  # what is shown after the submission is the submission
        model = as_text(as_dict(as_dict(info.get("config")).get("model")).get("model_name"))
        draft = Draft(
            location=location,
            format=self.name,
            task_id=as_text(document.get("instance_id")) if not bare else "",
            policy=model,
            messages=messages,
            patch=patch,
            exit_status=exit_status(stated, submitted=ended),
            time=_time(raw),
            extra={"version": as_text(info.get("mini_version"))} if info.get("mini_version") else {},
        )
        draft.task_id = draft.task_id or task_by_location(messages, location)
        draft.removed.update(removed)
        return validated(draft, crashed=stated if draft.exit_status == "error" else "")


def _messages(raw: list[Any]) -> tuple[list[Message], Counter[str]]:
    """Turns in our roles, and what was left out, by kind."""
    messages: list[Message] = []
    removed = Counter[str]()
    for one in map(as_dict, raw):
        role, text = as_text(one.get("role")), content_text(one.get("content"))
        if role == "exit":
            removed["exit turn"] += 1
        elif role == "assistant" or one.get("object") == "response":
            answered = one.get("object") == "response"
            message = of_response(one.get("output")) if answered else turn(text, of_message(one))
            messages.append(Message("assistant", message))
        elif role in ("tool", "function") or one.get("type") == "function_call_output":
            messages.append(Message("tool", text or content_text(one.get("output"))))
        elif role in ("system", "developer"):
            messages.append(Message("system", text))
        elif role == "user":
            observed = any(m.role in ("assistant", "user") for m in messages)
            messages.append(Message("tool" if observed else "user", text))
        else:
            removed[UNKNOWN_ROLE] += 1
    native = any(m.get("object") == "response" or is_structured(m) for m in map(as_dict, raw))
    return messages if native else in_notation(messages, "one bash block"), removed


def _time(raw: list[Any]) -> str:
    """When the first answer was made, ISO; "" where no message says it."""
    for one in map(as_dict, raw):
        extra = as_dict(one.get("extra"))
        made = extra.get("timestamp", as_dict(extra.get("response")).get("created"))
        if isinstance(made, (int, float)) and not isinstance(made, bool) and 0 < made < 1e11:
            return datetime.fromtimestamp(made, UTC).isoformat(timespec="seconds")
    return ""
