"""Moatless from 0.0.4 on: a tree of nodes, each an action and what was observed; later ones take several actions (`action_steps`).

The nodes stand in a list (`node_id`, `parent_id`) or within one another (`root`, `children`).

A search may have branched. The attempt is the path from the root to the node that finished, else to the last node; what
lies beside the path is counted. The model's own text is in the completion's Anthropic blocks.
"""

from typing import Any

from rmlab.trajectories.draft import Draft
from rmlab.trajectories.formats.calls import call, turn
from rmlab.trajectories.formats.moatless import DAY, THOUGHTS
from rmlab.trajectories.formats.protocol import proven, task_by_place
from rmlab.trajectories.places import Place
from rmlab.trajectories.reading import as_dict, as_list, as_text, clean, first_text
from rmlab.trajectories.record import Message


class MoatlessNodes:
    """A node tree."""

    name = "moatless-nodes"

    def matches(self, document: Any) -> bool:
        found = as_dict(document)
        return any("node_id" in as_dict(node) for node in (*as_list(found.get("nodes"))[:1], found.get("root")))

    def read(self, document: Any, place: Place) -> Draft:
        nodes = [as_dict(node) for node in as_list(document.get("nodes"))] or _unfolded(as_dict(document.get("root")))
        path = _path(nodes)
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
            place=place,
            format=self.name,
            task_id=as_text(metadata.get("instance_id")) or task_by_place(messages, place),
            policy="",
            messages=messages,
            patch=_patch(path),
            exit_status="submitted" if path and _finished(path[-1]) else "unfinished",
            names=tuple(n for n in (evaluation, model) if n),
            time="-".join(day.groups()) if day else "",
        )
        if len(path) < len(nodes):
            draft.removed["nodes of other branches"] += len(nodes) - len(path)
        return proven(draft)


def _unfolded(root: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes of a tree that are kept within one another, each with its parent's id, in the order in which they were made."""
    found, open_nodes = [], [root]
    while open_nodes:
        node = open_nodes.pop()
        found.append(node)
        open_nodes += [{**as_dict(child), "parent_id": node.get("node_id")} for child in as_list(node.get("children"))]
    return sorted(found, key=lambda node: node["node_id"] if isinstance(node.get("node_id"), int) else -1)


def _path(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
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
    said = first_text(
        *(as_dict(b).get("text") for b in blocks),
        as_dict(node.get("thoughts")).get("text"),
        node.get("assistant_message"),
    )
    for step in _steps(node):
        action = as_dict(step.get("action"))
        if not action:
            continue
        said = said or first_text(*(action.get(key) for key in THOUGHTS))
        name = as_text(tool.get("name")) or as_text(action.get("action_args_class")).rsplit(".", 1)[-1].removesuffix(
            "Args"
        )
        shown = {
            k: v for k, v in (as_dict(tool.get("input")) or action).items() if k not in (*THOUGHTS, "action_args_class")
        }
        messages.append(Message("assistant", turn(clean(said), [call(name, shown)])))
        observed = as_dict(step.get("observation")) or as_dict(step.get("output"))
        if observed:
            messages.append(Message("tool", clean(first_text(observed.get("message"), observed.get("summary")))))
        said, tool = "", {}
    return messages


def _patch(path: list[dict[str, Any]]) -> str | None:
    """The diff of the last node that keeps its files: the patches of all files together."""
    for node in reversed(path):
        files = [as_dict(f) for f in as_list(as_dict(node.get("file_context")).get("files"))]
        patches = [clean(as_text(f.get("patch"))) for f in files if as_text(f.get("patch")).strip()]
        if patches:
            return "\n".join(patches)
    return None
