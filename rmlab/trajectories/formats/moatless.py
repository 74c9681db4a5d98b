"""Moatless 0.x: a state machine's `transitions` (June 23 2024) or a loop's `steps` (June 9 2024), one JSON document an instance.

An action is an object; what it led to stands in `output`. The scratch pad or the thought is the agent's text. From 0.0.2 on
an action is a `request` and its `response`, and states name the one before: the attempt is the path to the current state,
and what a search tried beside it is counted.
"""

import re
from typing import Any

from rmlab.trajectories.draft import Draft
from rmlab.trajectories.formats.calls import call, turn
from rmlab.trajectories.formats.protocol import exit_status, proven, task_by_place
from rmlab.trajectories.places import Place
from rmlab.trajectories.reading import as_dict, as_list, as_text, clean, first_text
from rmlab.trajectories.record import Message

THOUGHTS = ("scratch_pad", "thoughts", "thought")
DAY = re.compile(r"\b(20\d\d)([01]\d)([0-3]\d)")


class Moatless:
    """Both layouts."""

    name = "moatless"

    def matches(self, document: Any) -> bool:
        found = as_dict(document)
        return isinstance(found.get("info"), dict) and any(
            "actions" in as_dict(one) for key in ("transitions", "steps") for one in as_list(found.get(key))[:4]
        )

    def read(self, document: Any, place: Place) -> Draft:
        info = as_dict(document.get("info"))
        issue = clean(
            first_text(document.get("initial_message"), as_dict(document.get("input")).get("problem_statement"))
        )
        messages = [Message("user", issue)]
        steps = [as_dict(step) for step in as_list(document.get("transitions")) or as_list(document.get("steps"))]
        path = _path(steps, document.get("current_transition_id"))
        for step in path:
            messages += _step(step)
        ending = clean(as_text(as_dict(document.get("output")).get("message")))
        if ending:
            messages.append(Message("assistant", ending))
        error = as_text(info.get("error"))
        evaluation = as_text(info.get("evaluation_name"))
        patch = clean(as_text(info.get("submission"))) or None
        day = DAY.search(evaluation)
        draft = Draft(
            place=place,
            format=self.name,
            task_id=as_text(info.get("instance_id")) or task_by_place(messages, place),
            policy="",
            messages=messages,
            patch=patch,
            names=(evaluation,) if evaluation else (),
            exit_status="error" if error else exit_status(as_text(info.get("status")), submitted=patch is not None),
            time="-".join(day.groups()) if day else "",
        )
        if len(path) < len(steps):
            draft.removed["states of other branches"] += len(steps) - len(path)
        return proven(draft, crashed=error)


def _path(steps: list[dict[str, Any]], current: object) -> list[dict[str, Any]]:
    """The states from the first to the current one, where states name the one before them; else all, in their order."""
    by_id = {step["id"]: step for step in steps if isinstance(step.get("id"), int)}
    if not isinstance(current, int) or current not in by_id or not any("previous_state_id" in step for step in steps):
        return steps
    path: list[dict[str, Any]] = []
    seen: set[int] = set()
    number: object = current
    while isinstance(number, int) and number in by_id and number not in seen:  # a damaged file may name a circle
        seen.add(number)
        path.append(by_id[number])
        number = by_id[number].get("previous_state_id")
    return path[::-1]


def _step(step: dict[str, Any]) -> list[Message]:
    """The turns of one step: each action with what came of it. A step without actions says only that a state was passed."""
    messages = []
    for one in map(as_dict, as_list(step.get("actions"))):
        action = next((found for key in ("action", "input", "request") if (found := as_dict(one.get(key)))), {})
        name = as_text(one.get("name")) or as_text(step.get("name"))
        thought = first_text(*(action.get(key) for key in THOUGHTS)) or as_text(step.get("thought"))
        shown = {k: v for k, v in action.items() if k not in THOUGHTS}
        messages.append(Message("assistant", turn(clean(thought), [call(name, shown)])))
        response = as_dict(one.get("response"))
        output = as_dict(one.get("output")) or as_dict(response.get("output"))
        error = first_text(one.get("error"), step.get("error"), one.get("retry_message"), response.get("retry_message"))
        seen = _seen(output, error)
        if seen:  # most state changes show nothing
            messages.append(Message("tool", seen))
    return messages


def _seen(output: dict[str, Any], error: str) -> str:
    """What came of an action: its message, its diff, and the places that it found."""
    parts = [clean(as_text(output.get(key))) for key in ("message", "diff") if as_text(output.get(key)).strip()]
    for key in ("ranked_spans", "file_context"):
        for span in map(as_dict, as_list(output.get(key))):
            inner = [as_text(s.get("span_id")) for s in map(as_dict, as_list(span.get("spans")))] or [
                as_text(span.get("span_id"))
            ]
            parts.append(f"{clean(as_text(span.get('file_path')))}: {clean(', '.join(i for i in inner if i))}")
    if error:
        parts.append(clean(error))
    return "\n".join(parts)
