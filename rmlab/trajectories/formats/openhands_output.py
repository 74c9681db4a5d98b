"""OpenHands `output.jsonl`: one row an instance, `history` a list of events (or of pairs of events, before 0.9).

What an action called is taken from the model's own answer where the event carries it, so that the thought is the model's
text and not the framework's message. `error` tells how a run ended; the patch is `test_result.git_patch`. A run that was
evaluated has its outcome in the row (`report`, or `test_result.report`). Since SDK v1 the events are the SDK's. A saved
trajectory (one file an instance, as on SWE-bench's leaderboard) is the bare list of events.
"""

from collections import Counter
from typing import Any

from rmlab.trajectories.draft import Draft
from rmlab.trajectories.formats.calls import call, content_text, of_tool_calls, turn
from rmlab.trajectories.formats.openhands_events import event_turns, with_exit_code
from rmlab.trajectories.formats.protocol import exit_status, proven, task_by_place
from rmlab.trajectories.labels.rows import evaluated
from rmlab.trajectories.places import Place
from rmlab.trajectories.reading import as_dict, as_list, as_text, clean, first_text
from rmlab.trajectories.record import ExitStatus, Message

CONDENSED = ("condensation", "condense")  # the action and what it gave: the second repeats the first
NO_TURN = (*CONDENSED, "condensation_request", "recall", "change_agent_state", "agent_state_changed", "null", "loading")


class OpenHandsOutput:
    """One row."""

    name = "openhands-output"

    def matches(self, document: Any) -> bool:
        if isinstance(document, list):
            return any(
                "source" in e and ("action" in e or "observation" in e or "kind" in e) for e in _events(document[:4])
            )
        found = as_dict(document)
        if "instance_id" not in found or "history" not in found:
            return False
        events = _events(found["history"])
        return any("action" in e or "observation" in e or "kind" in e for e in events[:4]) or (
            not events and ("test_result" in found or "git_patch" in found or "error" in found)
        )

    def read(self, document: Any, place: Place) -> Draft:
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
            place=place,
            format=self.name,
            task_id=as_text(document.get("instance_id")) or task_by_place(messages, place),
            policy=as_text(as_dict(metadata.get("llm_config") or metadata.get("llm")).get("model")),
            messages=messages,
            patch=patch,
            exit_status=status,
            resolved=resolved,
            label_source=f"{place}: {where}" if resolved is not None else None,
            time=next((as_text(e.get("timestamp"))[:19] for e in events if as_text(e.get("timestamp"))), ""),
            names=tuple(n for n in (as_text(metadata.get("eval_output_dir")).rstrip("/").rsplit("/", 1)[-1],) if n),
            removed=removed,
        )
        return proven(draft, crashed=error if status == "error" else "")


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
