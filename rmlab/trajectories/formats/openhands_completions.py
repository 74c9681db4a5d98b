"""OpenHands `llm_completions/<instance>/<model>-<time>.json`: one file a model call.

The last call of a folder holds the whole conversation, and its own answer stands in `response`: both together are the
attempt. There is no patch here; a predictions file beside gives it. A model without native calls writes them as XML.
"""

import re
from datetime import UTC, datetime
from typing import Any

from rmlab.trajectories.draft import Draft
from rmlab.trajectories.formats.calls import content_text, is_structured, of_message, turn
from rmlab.trajectories.formats.executed import in_notation
from rmlab.trajectories.formats.protocol import proven
from rmlab.trajectories.places import Place
from rmlab.trajectories.reading import as_dict, as_list, as_text
from rmlab.trajectories.record import Message

NAME = re.compile(r"(.+)-\d{10}\.\d+(?:-[0-9a-f]+)?\.json$")


class OpenHandsCompletions:
    """The last call of a folder."""

    name = "openhands-completions"

    def matches(self, document: Any) -> bool:
        found = as_dict(document)
        return isinstance(found.get("messages"), list) and isinstance(
            as_dict(found.get("response")).get("choices"), list
        )

    def read(self, document: Any, place: Place) -> Draft:
        response = as_dict(document.get("response"))
        answer = as_dict(as_dict(next(iter(as_list(response.get("choices"))), None)).get("message"))
        asked = [as_dict(m) for m in as_list(document.get("messages"))]
        turns = [*asked, *([{**answer, "role": "assistant"}] if answer else [])]
        messages = [_message(m) for m in turns]
        if not any(map(is_structured, turns)):
            messages = in_notation(messages, "xml")
        finished = any("[call finish]" in m.content for m in messages[-1:])
        stamp = document.get("timestamp")
        made = isinstance(stamp, (int, float)) and not isinstance(stamp, bool) and 0 < stamp < 1e11
        return proven(
            Draft(
                place=place,
                format=self.name,
                task_id=place.folders[-1],
                policy=_model(place, response),
                messages=messages,
                patch=None,
                exit_status="submitted" if finished else "unfinished",
                time=datetime.fromtimestamp(stamp, UTC).isoformat(timespec="seconds") if made else "",
            )
        )


def _model(place: Place, response: dict[str, Any]) -> str:
    """The model that was asked, by the file's name; the one that answered (a proxy has several) where the name says none."""
    named = NAME.match(place.name)
    return named[1].replace("__", "/") if named else as_text(response.get("model"))


def _message(one: dict[str, Any]) -> Message:
    role, text = as_text(one.get("role")), content_text(one.get("content"))
    if role == "assistant":
        return Message("assistant", turn(text, of_message(one)))
    return Message("system" if role == "system" else "tool" if role in ("tool", "function") else "user", text)
