"""mini-SWE-agent v1 (`mini-swe-agent-1`: commands in fenced blocks) and v2 (`mini-swe-agent-1.1`: native tool calls, role `exit`).

One JSON document an instance; the oldest files are the bare list of messages. An observation of v1 has the role `user`.
"""

from datetime import UTC, datetime
from typing import Any

from rmlab.trajectories.draft import Draft
from rmlab.trajectories.formats.calls import FENCE, content_text, of_text, of_tool_calls, turn
from rmlab.trajectories.formats.protocol import exit_status, proven
from rmlab.trajectories.places import Place
from rmlab.trajectories.reading import as_dict, as_list, as_text, clean
from rmlab.trajectories.record import Message

SUBMIT = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")


class MiniSweAgent:
    """Both versions."""

    name = "mini-swe-agent"

    def matches(self, document: Any) -> bool:
        if isinstance(document, list):
            return any(
                as_dict(m).get("role") == "assistant" and FENCE.search(as_text(m.get("content"))) and "bash" in m["content"]
                for m in document[:8]
            )
        found = as_dict(document)
        return as_text(found.get("trajectory_format")).startswith("mini-swe-agent") or (
            isinstance(found.get("messages"), list) and "mini_version" in as_dict(found.get("info"))
        )

    def read(self, document: Any, place: Place) -> Draft:
        bare = isinstance(document, list)
        info = {} if bare else as_dict(document.get("info"))
        raw = document if bare else as_list(document.get("messages"))
        messages, ended, removed_exit = _messages(raw)
        stated = as_text(info.get("exit_status"))
        patch: str | None = clean(as_text(info.get("submission"))) or None
        if bare and ended and messages and messages[-1].role == "tool":
            patch = messages.pop().content.strip() or None  # what is shown after the submission is the submission
        model = as_text(as_dict(as_dict(info.get("config")).get("model")).get("model_name"))
        draft = Draft(
            place=place,
            format=self.name,
            task_id=as_text(document.get("instance_id")) if not bare else "",
            policy=model,
            messages=messages,
            patch=patch,
            exit_status=exit_status(stated, submitted=ended),
            time=_time(raw),
            extra={"version": as_text(info.get("mini_version"))} if info.get("mini_version") else {},
        )
        draft.task_id = draft.task_id or place.stem
        if removed_exit:
            draft.removed["exit turn"] += removed_exit
        return proven(draft, crashed=stated if draft.exit_status == "error" else "")


def _messages(raw: list[Any]) -> tuple[list[Message], bool, int]:
    """Turns in our roles, whether the last command submits, and how many turns of the role `exit` were left out."""
    messages: list[Message] = []
    ended, exits = False, 0
    for one in map(as_dict, raw):
        role, text = as_text(one.get("role")), content_text(one.get("content"))
        if role == "exit":
            exits += 1
        elif role == "assistant":
            calls = of_tool_calls(one.get("tool_calls"))
            messages.append(Message("assistant", turn(text, calls) if calls else of_text(text)))
            ended = any(word in messages[-1].content for word in SUBMIT)
        elif role in ("system", "user", "tool"):
            observed = role == "tool" or (role == "user" and any(m.role in ("assistant", "user") for m in messages))
            messages.append(Message("tool" if observed else "system" if role == "system" else "user", text))
    return messages, ended, exits


def _time(raw: list[Any]) -> str:
    """When the first answer was made, ISO; "" where no message says it."""
    for one in map(as_dict, raw):
        extra = as_dict(one.get("extra"))
        made = extra.get("timestamp", as_dict(extra.get("response")).get("created"))
        if isinstance(made, (int, float)) and not isinstance(made, bool) and 0 < made < 1e11:
            return datetime.fromtimestamp(made, UTC).isoformat(timespec="seconds")
    return ""
