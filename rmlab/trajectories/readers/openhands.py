"""OpenHands `output.jsonl`: one row an instance, `history` a list of events (or of pairs of events, before 0.9).

What an action called is taken from the model's own answer where the event carries it, so that the thought is the model's
text and not the framework's message. `error` tells how a run ended; the patch is `test_result.git_patch`. A run that was
evaluated has its outcome in the row (`report`, or `test_result.report`). Since SDK v1 the events are the SDK's. A saved
trajectory (one file an instance, as on SWE-bench's leaderboard) is the bare list of events.
"""

import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.json_text import as_dict, as_list, as_text, first_text
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.labels.rows import evaluated
from rmlab.trajectories.readers.calls import call, content_text, is_structured, of_message, of_tool_calls, turn
from rmlab.trajectories.readers.executed import in_notation
from rmlab.trajectories.readers.openhands_sdk import event_turns, with_exit_code
from rmlab.trajectories.readers.protocol import exit_status, register, task_by_location, validated
from rmlab.trajectories.record import ExitStatus, Message, clean

CONDENSED = ("condensation", "condense")  # the action and what it gave: the second repeats the first
NO_TURN = (*CONDENSED, "condensation_request", "recall", "change_agent_state", "agent_state_changed", "null", "loading")


@register(order=22)
class OpenHandsOutput:
    """One row."""

    name = "openhands-output"

    def matches(self, document: Any) -> bool:
        if isinstance(document, list):
            return any(
                "source" in e and ("action" in e or "observation" in e or "kind" in e) for e in _events(document[:4])
            )
        fields = as_dict(document)
        if "instance_id" not in fields or "history" not in fields:
            return False
        events = _events(fields["history"])
        return any("action" in e or "observation" in e or "kind" in e for e in events[:4]) or (
            not events and ("test_result" in fields or "git_patch" in fields or "error" in fields)
        )

    def read(self, document: Any, location: Location) -> Draft:
        document = {"history": document} if isinstance(document, list) else document
        metadata = as_dict(document.get("metadata"))
        events = _events(document.get("history"))
        error = as_text(document.get("error"))
        patch = (
            clean(first_text(as_dict(document.get("test_result")).get("git_patch"), document.get("git_patch"))) or None
        )
        sdk = any("kind" in e for e in events)
        messages, ended, removed = event_turns(events) if sdk else _turns(events)
        stated = "max iteration" if "maximum iteration" in error else "stuck" if "Stuck" in error else error
        status = exit_status(stated, submitted=True) if stated else ended
        resolved, where = evaluated(document)
        draft = Draft(
            location=location,
            format=self.name,
            task_id=as_text(document.get("instance_id")) or task_by_location(messages, location),
            policy=as_text(as_dict(metadata.get("llm_config") or metadata.get("llm")).get("model")),
            messages=messages,
            patch=patch,
            exit_status=status,
            resolved=resolved,
            label_source=f"{location}: {where}" if resolved is not None else None,
            time=next((as_text(e.get("timestamp"))[:19] for e in events if as_text(e.get("timestamp"))), ""),
            names=tuple(n for n in (as_text(metadata.get("eval_output_dir")).rstrip("/").rsplit("/", 1)[-1],) if n),
            removed=removed,
        )
        return validated(draft, crashed=error if status == "error" else "")


def _events(history: object) -> list[dict[str, Any]]:
    flat: list[dict[str, Any]] = []
    for one in as_list(history):
        flat += [as_dict(e) for e in one] if isinstance(one, list) else [as_dict(one)]
    return flat


def _turns(events: list[dict[str, Any]]) -> tuple[list[Message], ExitStatus, Counter[str]]:
    """Turns in our roles, how the conversation ended, and what was left out, by kind."""
    messages: list[Message] = []
    removed: Counter[str] = Counter()
    finished = False
    answered: set[str] = set()
    for event in events:
        action, observation = as_text(event.get("action")), as_text(event.get("observation"))
        arguments = as_dict(event.get("args"))
        if action in NO_TURN or observation in NO_TURN:
            continue
        if action == "system":
            messages.append(Message("system", clean(first_text(arguments.get("content"), event.get("message")))))
        elif action == "message":
            text = clean(first_text(arguments.get("content"), event.get("message")))
            messages.append(Message("user" if event.get("source") == "user" else "assistant", text))
        elif action:
            finished = finished or action == "finish"
            messages.append(Message("assistant", _action(event, action, arguments, answered)))
        elif observation:
            text = content_text(event.get("content")) or clean(as_text(event.get("message")))
            messages.append(Message("tool", with_exit_code(text, as_dict(event.get("extras")))))
    kinds = [as_text(e.get("action")) or as_text(e.get("observation")) for e in events]
    if condensed := max(map(kinds.count, CONDENSED)):
        removed["condensations"] = condensed
    return messages, "submitted" if finished else "unfinished", removed


def _action(event: dict[str, Any], action: str, arguments: dict[str, Any], answered: set[str]) -> str:
    """An action as the model made it. answered: answers whose text was shown already (one answer may make several calls)."""
    metadata = as_dict(event.get("tool_call_metadata"))
    response = as_dict(metadata.get("model_response"))
    choice = as_dict(as_dict(next(iter(as_list(response.get("choices"))), None)).get("message"))
    wanted = metadata.get("tool_call_id")
    calls = of_tool_calls([c for c in as_list(choice.get("tool_calls")) if as_dict(c).get("id") == wanted])
    identity = as_text(response.get("id"))
    thought = content_text(choice.get("content")) if choice else clean(as_text(arguments.get("thought")))
    if identity in answered:
        thought = ""
    elif identity:
        answered.add(identity)
    if not calls:
        shown = {
            k: v
            for k, v in arguments.items()
            if k in ("command", "code", "path", "content", "start", "end", "url", "outputs", "final_thought")
        }
        if action == "think":
            shown = {"thought": arguments.get("thought", "")}
            thought = "" if not choice else thought
        calls = [call(action, shown)]
    return turn(thought, calls)


NAME = re.compile(r"(.+)-\d{10}\.\d+(?:-[0-9a-f]+)?\.json$")


@register(order=21)
class OpenHandsCompletions:
    """The last call of a folder."""

    name = "openhands-completions"

    def matches(self, document: Any) -> bool:
        fields = as_dict(document)
        return isinstance(fields.get("messages"), list) and isinstance(
            as_dict(fields.get("response")).get("choices"), list
        )

    def read(self, document: Any, location: Location) -> Draft:
        response = as_dict(document.get("response"))
        answer = as_dict(as_dict(next(iter(as_list(response.get("choices"))), None)).get("message"))
        asked = [as_dict(m) for m in as_list(document.get("messages"))]
        turns = [*asked, *([{**answer, "role": "assistant"}] if answer else [])]
        messages = [_completion_message(m) for m in turns]
        if not any(map(is_structured, turns)):
            messages = in_notation(messages, "xml")
        finished = any("[call finish]" in m.content for m in messages[-1:])
        stamp = document.get("timestamp")
        made = isinstance(stamp, (int, float)) and not isinstance(stamp, bool) and 0 < stamp < 1e11
        return validated(
            Draft(
                location=location,
                format=self.name,
                task_id=location.folders[-1],
                policy=_model(location, response),
                messages=messages,
                patch=None,
                exit_status="submitted" if finished else "unfinished",
                time=datetime.fromtimestamp(stamp, UTC).isoformat(timespec="seconds") if made else "",
            )
        )


def _model(location: Location, response: dict[str, Any]) -> str:
    """The model that was asked, by the file's name; the one that answered (a proxy has several) where the name says none."""
    named = NAME.match(location.name)
    return named[1].replace("__", "/") if named else as_text(response.get("model"))


def _completion_message(one: dict[str, Any]) -> Message:
    role, text = as_text(one.get("role")), content_text(one.get("content"))
    if role == "assistant":
        return Message("assistant", turn(text, of_message(one)))
    return Message("system" if role == "system" else "tool" if role in ("tool", "function") else "user", text)
