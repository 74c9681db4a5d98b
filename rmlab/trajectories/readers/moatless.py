"""Moatless 0.x: a state machine's `transitions` (June 23 2024) or a loop's `steps` (June 9 2024), one JSON document an instance.

An action is an object; what it led to stands in `output`. The scratch pad or the thought is the agent's text. From 0.0.2 on
an action is a `request` and its `response`, and states name the one before: the attempt is the path to the current state,
and what a search tried beside it is counted.
"""

import re
from typing import Any

from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.json_text import as_dict, as_list, as_text, first_text
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.readers.calls import call, turn
from rmlab.trajectories.readers.protocol import exit_status, register, task_by_location, validated
from rmlab.trajectories.record import Message, clean

THOUGHTS = ("scratch_pad", "thoughts", "thought")
DAY = re.compile(r"\b(20\d\d)([01]\d)([0-3]\d)")


@register(order=40)
class Moatless:
    """Both layouts."""

    name = "moatless"

    def matches(self, document: Any) -> bool:
        fields = as_dict(document)
        return isinstance(fields.get("info"), dict) and any(
            "actions" in as_dict(one) for key in ("transitions", "steps") for one in as_list(fields.get(key))[:4]
        )

    def read(self, document: Any, location: Location) -> Draft:
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
            location=location,
            format=self.name,
            task_id=as_text(info.get("instance_id")) or task_by_location(messages, location),
            policy="",
            messages=messages,
            patch=patch,
            names=(evaluation,) if evaluation else (),
            exit_status="error" if error else exit_status(as_text(info.get("status")), submitted=patch is not None),
            time="-".join(day.groups()) if day else "",
        )
        if len(path) < len(steps):
            draft.removed["states of other branches"] += len(steps) - len(path)
        return validated(draft, crashed=error)


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
        action = next((given for key in ("action", "input", "request") if (given := as_dict(one.get(key)))), {})
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


@register(order=41)
class MoatlessNodes:
    """A node tree."""

    name = "moatless-nodes"

    def matches(self, document: Any) -> bool:
        fields = as_dict(document)
        return any("node_id" in as_dict(node) for node in (*as_list(fields.get("nodes"))[:1], fields.get("root")))

    def read(self, document: Any, location: Location) -> Draft:
        nodes = [as_dict(node) for node in as_list(document.get("nodes"))] or _unfolded(as_dict(document.get("root")))
        path = _node_path(nodes)
        agent, metadata = as_dict(document.get("agent")), as_dict(document.get("metadata"))
        messages = (
            [Message("system", clean(as_text(agent.get("system_prompt"))))]
            if as_text(agent.get("system_prompt"))
            else []
        )
        for node in path:
            messages += _turns(node)
        evaluation = as_text(metadata.get("evaluation_name"))
        model = as_text(as_dict(agent.get("completion")).get("model"))
        day = DAY.search(evaluation)
        draft = Draft(
            location=location,
            format=self.name,
            task_id=as_text(metadata.get("instance_id")) or task_by_location(messages, location),
            policy="",
            messages=messages,
            patch=_patch(path),
            exit_status="submitted" if path and _finished(path[-1]) else "unfinished",
            names=tuple(n for n in (evaluation, model) if n),
            time="-".join(day.groups()) if day else "",
        )
        if len(path) < len(nodes):
            draft.removed["nodes of other branches"] += len(nodes) - len(path)
        return validated(draft)


def _unfolded(root: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes of a tree that are kept within one another, each with its parent's id, in the order in which they were made."""
    nodes, open_nodes = [], [root]
    while open_nodes:
        node = open_nodes.pop()
        nodes.append(node)
        open_nodes += [{**as_dict(child), "parent_id": node.get("node_id")} for child in as_list(node.get("children"))]
    return sorted(nodes, key=lambda node: node["node_id"] if isinstance(node.get("node_id"), int) else -1)


def _node_path(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_id = {node.get("node_id"): node for node in nodes if isinstance(node.get("node_id"), (int, str))}
    node: dict[str, Any] | None = next((n for n in reversed(nodes) if _finished(n)), nodes[-1] if nodes else None)
    path: list[dict[str, Any]] = []
    seen: set[int] = set()
    while node is not None and id(node) not in seen:  # a damaged file may name a circle of parents
        seen.add(id(node))
        path.append(node)
        parent = node.get("parent_id")
        node = by_id.get(parent) if isinstance(parent, (int, str)) else None
    return path[::-1]


def _steps(node: dict[str, Any]) -> list[dict[str, Any]]:
    """The actions of a node with what was observed; most versions keep one, beside the node's own fields."""
    return [as_dict(step) for step in as_list(node.get("action_steps"))] or [node]


def _finished(node: dict[str, Any]) -> bool:
    names = [
        as_text(as_dict(step.get("action")).get(key))
        for step in _steps(node)
        for key in ("action_args_class", "action_name")
    ]
    return any("finish" in name.lower() for name in names)


def _turns(node: dict[str, Any]) -> list[Message]:
    messages = []
    asked = first_text(node.get("message"), node.get("user_message"))
    if asked:
        messages.append(Message("user", clean(asked)))
    blocks = as_list(
        as_dict(as_dict(as_dict(node.get("completions")).get("build_action")).get("response")).get("content")
    )
    tool = next((as_dict(b) for b in blocks if as_dict(b).get("type") == "tool_use"), {})
    thought = first_text(
        *(as_dict(b).get("text") for b in blocks),
        as_dict(node.get("thoughts")).get("text"),
        node.get("assistant_message"),
    )
    for step in _steps(node):
        action = as_dict(step.get("action"))
        if not action:
            continue
        thought = thought or first_text(*(action.get(key) for key in THOUGHTS))
        name = as_text(tool.get("name")) or as_text(action.get("action_args_class")).rsplit(".", 1)[-1].removesuffix(
            "Args"
        )
        shown = {
            k: v for k, v in (as_dict(tool.get("input")) or action).items() if k not in (*THOUGHTS, "action_args_class")
        }
        messages.append(Message("assistant", turn(clean(thought), [call(name, shown)])))
        observed = as_dict(step.get("observation")) or as_dict(step.get("output"))
        if observed:
            messages.append(Message("tool", clean(first_text(observed.get("message"), observed.get("summary")))))
        thought, tool = "", {}
    return messages


def _patch(path: list[dict[str, Any]]) -> str | None:
    """The diff of the last node that keeps its files: the patches of all files together."""
    for node in reversed(path):
        files = [as_dict(f) for f in as_list(as_dict(node.get("file_context")).get("files"))]
        patches = [clean(as_text(f.get("patch"))) for f in files if as_text(f.get("patch")).strip()]
        if patches:
            return "\n".join(patches)
    return None
