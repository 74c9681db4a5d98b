"""OpenHands SDK v1: a conversation, one file an event; later versions of `output.jsonl` hold the same events."""

from collections import Counter
from typing import Any

from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.json_text import as_dict, as_list, as_text, first_text
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.readers.calls import call, content_text, of_tool_calls, turn
from rmlab.trajectories.readers.protocol import UNKNOWN_EVENT, register, task_by_issue, validated
from rmlab.trajectories.record import ExitStatus, Message, bare, clean, family

CONDENSATION_EVENTS = ("Condensation", "CondensationSummaryEvent")  # the second repeats the first where both are there
EVENTS_WITHOUT_TURN = (
    *CONDENSATION_EVENTS,
    "CondensationRequest",
    "ConversationStateUpdateEvent",
    "ConversationErrorEvent",
    "PauseEvent",
    "TokenEvent",
    "LLMCompletionLogEvent",
)
END = 400  # characters of an observation within which a version that writes the exit code into the text has it


@register(order=20)
class OpenHandsEvents:
    """A conversation: `{"events": [...], "state": {...}}`, put together from the files of one folder."""

    name = "openhands-events"

    def matches(self, document: Any) -> bool:
        fields = as_dict(document)
        return (
            isinstance(fields.get("events"), list)
            and "state" in fields
            and any("kind" in as_dict(e) for e in fields["events"])
        )

    def read(self, document: Any, location: Location) -> Draft:
        events = [as_dict(e) for e in document["events"]]
        messages, ended, removed = event_turns(events)
        folders = (bare(location.folders[-1]), bare(location.folders[0]))
        named = next((name for name in folders if family(name) != "other"), "")
        patch = next(
            (
                as_text(as_dict(e.get("value")).get("git_patch"))
                for e in events
                if as_dict(e.get("value")).get("git_patch")
            ),
            "",
        )
        return validated(
            Draft(
                location=location,
                format=self.name,
                task_id=named or task_by_issue(messages),
                policy=as_text(as_dict(as_dict(as_dict(document.get("state")).get("agent")).get("llm")).get("model")),
                messages=messages,
                patch=clean(patch) or None,
                exit_status=ended,
                time=next((as_text(e.get("timestamp"))[:19] for e in events if as_text(e.get("timestamp"))), ""),
                extra={"conversation": location.folders[-1]},
                removed=removed,
            )
        )


def event_turns(events: list[dict[str, Any]]) -> tuple[list[Message], ExitStatus, Counter[str]]:
    """Turns in our roles, how the conversation ended, and what was left out, by kind."""
    messages = []
    removed: Counter[str] = Counter()
    for event in events:
        kind, message = as_text(event.get("kind")), _message(event)
        if message is not None:
            messages.append(message)
        elif kind not in EVENTS_WITHOUT_TURN:
            removed[UNKNOWN_EVENT] += 1
    if condensed := max(sum(e.get("kind") == kind for e in events) for kind in CONDENSATION_EVENTS):
        removed["condensations"] = condensed
    finished = any(as_text(as_dict(e.get("action")).get("kind")) == "FinishAction" for e in events)
    crashed = any(as_text(e.get("kind")) == "ConversationErrorEvent" for e in events)
    return messages, "submitted" if finished else "error" if crashed else "unfinished", removed


def with_exit_code(text: str, observation: dict[str, Any]) -> str:
    """What a command gave, as the agent saw it: with the prefix and suffix of its metadata, and its exit code where neither says it.

    observation: `metadata` of today's versions; `exit_code` beside the text in older ones. -1 = the command still runs.
    """
    metadata = as_dict(observation.get("metadata"))
    prefix, suffix = clean(as_text(metadata.get("prefix"))), clean(as_text(metadata.get("suffix")))
    text = text if text.startswith(prefix) else prefix + text
    text = text if suffix.strip() in text[-END:] else text + suffix
    code = observation.get("exit_code") if metadata.get("exit_code") is None else metadata["exit_code"]
    if not isinstance(code, int) or isinstance(code, bool) or code == -1 or f"exit code {code}" in text[-END:]:
        return text
    return f"{text}\n[The command completed with exit code {code}.]"


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
        text = with_exit_code(text, seen)
        problem = first_text(seen.get("error"), event.get("error"))
        return Message("tool", clean("\n".join(part for part in (text, problem) if part)))
    return None
