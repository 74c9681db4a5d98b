"""OpenHands SDK v1: one JSON file an event, `<conversation>/event_service/events/event-NNNNN-<uuid>.json`, and `base_state.json`.

A conversation states no task: attempts at one issue get one task id, a hash of the issue's text, unless its own
folder or its archive goes by an instance's name. Condensations are left out, since the events that they
summarise are there. `output.jsonl` of the same version holds such events too.
"""

import re
from typing import Any

from rmlab.fingerprint import fingerprint
from rmlab.trajectories.draft import Draft
from rmlab.trajectories.formats.calls import call, content_text, of_tool_calls, turn
from rmlab.trajectories.formats.protocol import proven
from rmlab.trajectories.naming import family
from rmlab.trajectories.places import Place
from rmlab.trajectories.reading import as_dict, as_list, as_text, clean, first_text
from rmlab.trajectories.record import ExitStatus, Message

ISSUE = re.compile(r"<(issue_description|pr_description)>\s*(.*?)\s*</\1>", re.DOTALL)


class OpenHandsEvents:
    """A conversation: `{"events": [...], "state": {...}}`, put together from the files of one folder."""

    name = "openhands-events"

    def matches(self, document: Any) -> bool:
        found = as_dict(document)
        return (
            isinstance(found.get("events"), list)
            and "state" in found
            and any("kind" in as_dict(e) for e in found["events"])
        )

    def read(self, document: Any, place: Place) -> Draft:
        events = [as_dict(e) for e in document["events"]]
        messages, ended = event_turns(events)
        issue = next((m.content for m in messages if m.role == "user"), "")
        named = next((name for name in (place.folders[-1], place.folders[0]) if family(name) != "other"), "")
        patch = next(
            (
                as_text(as_dict(e.get("value")).get("git_patch"))
                for e in events
                if as_dict(e.get("value")).get("git_patch")
            ),
            "",
        )
        return proven(
            Draft(
                place=place,
                format=self.name,
                task_id=named or f"issue-{fingerprint(issue_text(issue))}",
                policy=as_text(as_dict(as_dict(as_dict(document.get("state")).get("agent")).get("llm")).get("model")),
                messages=messages,
                patch=clean(patch) or None,
                exit_status=ended,
                time=next((as_text(e.get("timestamp"))[:19] for e in events if as_text(e.get("timestamp"))), ""),
                extra={"conversation": place.folders[-1]},
            )
        )


def event_turns(events: list[dict[str, Any]]) -> tuple[list[Message], ExitStatus]:
    """Turns in our roles, and how the conversation ended."""
    messages = [m for m in map(_message, events) if m is not None]
    finished = any(as_text(as_dict(e.get("action")).get("kind")) == "FinishAction" for e in events)
    crashed = any(as_text(e.get("kind")) == "ConversationErrorEvent" for e in events)
    return messages, "submitted" if finished else "error" if crashed else "unfinished"


def issue_text(message: str) -> str:
    """The issue within a first message, spaces evened; the whole message where it marks none (it names temporary folders)."""
    found = ISSUE.search(message)
    return " ".join((found[2] if found else message).split())


def _message(event: dict[str, Any]) -> Message | None:
    kind = as_text(event.get("kind"))
    if kind == "SystemPromptEvent":
        return Message("system", clean(as_text(as_dict(event.get("system_prompt")).get("text"))))
    if kind == "MessageEvent":
        text = content_text(as_dict(event.get("llm_message")).get("content"))
        return Message("user" if event.get("source") == "user" else "assistant", text)
    if kind == "ActionEvent":
        action = as_dict(event.get("action"))
        tool_call = as_dict(event.get("tool_call"))
        calls = of_tool_calls([tool_call]) or [call(as_text(event.get("tool_name")), action)]
        return Message("assistant", turn(content_text(as_list(event.get("thought"))), calls))
    if kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        seen = as_dict(event.get("observation"))
        content = seen.get("content")
        text = (
            content_text(content)
            if isinstance(content, list)
            else first_text(seen.get("output"), content, seen.get("message"))
        )
        problem = first_text(seen.get("error"), event.get("error"))
        return Message("tool", clean("\n".join(part for part in (text, problem) if part)))
    return None
