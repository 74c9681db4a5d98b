"""Rows of chat messages, as the Hugging Face hub keeps them: one row an attempt, in JSONL, JSON or Parquet.

Columns are taken by their names, whichever set they come from (SWE-smith, SWE-Gym, nebius SWE-rebench and SWE-agent, R2E-Gym,
Open-SWE-Traces, CoderForge). The outcome is read from `resolved`, `target`, `reward` or `rewards`; what holds it otherwise
(`eval_logs`, `test_result`, `metadata.reference_patch`, `pred_passes_gen_tests`) is never kept. -1 means unknown.
Observations have the role `user` in sets without tool calls; they are read as `tool`.
"""

import json
import math
from typing import Any

from rmlab.fingerprint import fingerprint
from rmlab.trajectories.draft import Draft, NotATrajectory
from rmlab.trajectories.formats.calls import content_text, of_text, of_tool_calls, turn
from rmlab.trajectories.formats.judged import LOG, judged_attempt
from rmlab.trajectories.formats.openhands_events import issue_text
from rmlab.trajectories.formats.protocol import UNKNOWN_ROLE, agent_turns, exit_status, proven
from rmlab.trajectories.labels.rows import evaluated, unread_label
from rmlab.trajectories.labels.statement import infra_failure, stated_outcome
from rmlab.trajectories.places import Place
from rmlab.trajectories.reading import as_dict, as_list, as_text, clean, first_text
from rmlab.trajectories.record import Message, Role

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "gpt": "assistant",
    "tool": "tool",
    "function": "tool",
    "environment": "tool",
    "observation": "tool",
}
OUTCOMES = ("resolved", "target", "reward", "rewards")
TASKS = ("instance_id", "docker_image", "docker_images", "task_id", "problem_id")
POLICIES = ("model", "model_name", "policy", "teacher_model", "run_id", "exp_name", "exp_names")
HELD_BACK = (
    "eval_logs",
    "test_result",
    "reference_patch",
    "pred_passes_gen_tests",
    "gen_tests_correct",
    "execution_result",
    "test_output",
)


class ChatRows:
    """One row."""

    name = "chat"

    def matches(self, document: Any) -> bool:
        if isinstance(document, list):
            return len(document) > 1 and all(as_text(as_dict(m).get("role")) in ROLES for m in document)
        turns = _raw(as_dict(document))
        return bool(turns) and any(_role(as_dict(m)) in ROLES for m in turns[:3])

    def read(self, document: Any, place: Place) -> Draft:
        row = {"messages": document} if isinstance(document, list) else as_dict(document)
        row = {**row, "test_result": _parsed(row.get("test_result"), "{")} if "test_result" in row else row
        raw = [as_dict(m) for m in _raw(row)]
        metadata = as_dict(_parsed(row.get("metadata"), "{"))
        messages = [m for m in map(_message, raw) if m is not None]
        strange = len(raw) - len(messages)
        judged = next((m.content for m in messages if m.role == "user" and LOG in m.content), "")
        logged_patch = None
        if judged:  # R2E-Gym: the whole attempt stands in a judge's prompt
            turns, logged_patch = judged_attempt(judged)
            messages = [
                Message(ROLES[name], of_text(text) if ROLES[name] == "assistant" else text)
                for name, text in turns
                if name in ROLES
            ]
        messages = _observed(messages)
        patch = (
            clean(
                first_text(
                    row.get("patch"),
                    row.get("model_patch"),
                    row.get("generated_patch"),
                    row.get("output_patch"),
                    metadata.get("model_patch"),
                    as_dict(row.get("test_result")).get("git_patch"),
                    logged_patch,
                )
            )
            or None
        )
        policy = first_text(*(row.get(key) for key in POLICIES), metadata.get("teacher_model"), metadata.get("model"))
        stated = as_text(row.get("exit_status"))
        resolved, column = _outcome(row)
        identity = first_text(row.get("traj_id"), row.get("trajectory_id"))
        last = next((m.content for m in reversed(messages) if m.role == "assistant"), "")
        draft = Draft(
            place=place,
            format=self.name,
            task_id=first_text(*(row.get(key) for key in TASKS)) or _unnamed(messages, place),
            policy=policy,
            messages=messages,
            patch=patch,
            exit_status=exit_status(stated, submitted=(patch is not None and not judged) or _submits(last)),
            resolved=resolved,
            label_source=f"{place}: {column}" if resolved is not None else None,
            joins=bool(policy or patch or stated or isinstance(document, list)),
            repository=first_text(row.get("repo")),
            names=tuple(n for n in (policy, as_text(row.get("run_id"))) if n),
            extra={"row": identity} if identity else {},
        )
        for key in HELD_BACK:
            if row.get(key) or metadata.get(key):
                draft.removed[f"column {key}"] += 1
        if why := unread_label(row):
            draft.removed[why] += 1
        hidden = sum(bool(as_text(m.get("reasoning_content"))) for m in raw)
        draft.removed.update({kind: n for kind, n in (("hidden reasoning", hidden), (UNKNOWN_ROLE, strange)) if n})
        if judged and not agent_turns(messages):
            raise NotATrajectory("a judge's prompt without a log")
        if judged and resolved is None and not first_text(*(row.get(key) for key in TASKS)):
            raise NotATrajectory("a verifier's conversation")
        return proven(draft)


def _observed(messages: list[Message]) -> list[Message]:
    """A user's turn right behind the agent's is what the environment showed: nobody else talks to these agents."""
    pairs = zip([None, *messages], messages, strict=False)
    return [
        Message("tool", m.content) if m.role == "user" and before and before.role == "assistant" else m
        for before, m in pairs
    ]


def _submits(last: str) -> bool:
    """Whether an agent's last turn ends the attempt."""
    return "[call submit]" in last or "[call finish]" in last


def _unnamed(messages: list[Message], place: Place) -> str:
    """The task of a record that names none: its file's name, or among the rows of a file the hash of its issue."""
    issue = next((m.content for m in messages if m.role == "user"), "")
    return place.subject if place.line is None or not issue else f"issue-{fingerprint(issue_text(issue))}"


def _raw(row: dict[str, Any]) -> list[Any]:
    """The turns of a row; SWE-smith keeps them as a JSON text, older sets call them `conversations`."""
    for key in ("messages", "trajectory", "conversations"):
        value = _parsed(row.get(key), "[")
        if isinstance(value, list) and value:
            return value
    return []


def _parsed(value: object, opening: str) -> object:
    """The value, or what its text holds where that begins like JSON: sets keep nested columns either way."""
    if not isinstance(value, str) or not value.lstrip().startswith(opening):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _role(message: dict[str, Any]) -> str:
    return (as_text(message.get("role")) or as_text(message.get("from"))).lower()


def _message(one: dict[str, Any]) -> Message | None:
    """A turn in our roles; None for a role that is none. Parquet fills absent keys with null, and null is absent."""
    role = ROLES.get(_role(one))
    if role is None:
        return None
    content = next((one[key] for key in ("content", "text", "value") if one.get(key) is not None), None)
    text = content_text(content) or (clean(as_text(one.get("system_prompt"))) if role == "system" else "")
    if role != "assistant":
        return Message(role, text)
    calls = of_tool_calls(one.get("tool_calls"))
    return Message("assistant", turn(text, calls) if calls else of_text(text))


def _outcome(row: dict[str, Any]) -> tuple[bool | None, str]:
    """The stated outcome and its column; None where none is stated, or it is unknown (-1)."""
    if infra_failure(row):
        return None, ""
    for key in OUTCOMES:
        value = row.get(key)
        if (outcome := stated_outcome(value)) is not None:
            return outcome, key
        if isinstance(value, (int, float)) and math.isfinite(value) and value in (0, 1):
            return value == 1, key
    return evaluated(row)


def held_back(column: str) -> bool:
    """Whether a column holds an outcome or an answer and is therefore never even read."""
    return column in HELD_BACK and column != "test_result"


def row_list(value: Any) -> list[Any]:
    """Rows of a JSON document that is a list of rows; [] for anything else."""
    rows = as_list(value)
    return rows if rows and all(isinstance(r, dict) and _raw(r) for r in rows[:3]) else []
