"""Rows of chat messages, as the Hugging Face hub keeps them: one row an attempt, in JSONL, JSON or Parquet.

Columns are taken by their names, whichever set they come from (SWE-smith, SWE-Gym, nebius SWE-rebench and SWE-agent, R2E-Gym,
Open-SWE-Traces, CoderForge). The outcome is read from `resolved`, `target`, `reward` or `rewards`; what holds it otherwise
(`eval_logs`, `test_result`, `metadata.reference_patch`, `pred_passes_gen_tests`) is never kept. -1 means unknown.
`patch` is the attempt's patch where nothing else is: beside a column that names the attempt's (`model_patch`), or where the
benchmark's own columns were joined (`test_patch`), it is the benchmark's answer, which is counted and never kept.
Observations have the role `user` in sets without tool calls; they are read as `tool`.
"""

import json
import math
import re
from collections import Counter
from typing import Any

from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.json_text import as_dict, as_list, as_text, first_text
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.ingest.skipped import Skipped
from rmlab.trajectories.labels.rows import evaluated, unread_label
from rmlab.trajectories.labels.statement import infra_failure, stated_outcome
from rmlab.trajectories.readers.calls import content_text, is_structured, of_message, turn
from rmlab.trajectories.readers.executed import in_notation, submits
from rmlab.trajectories.readers.protocol import (
    UNKNOWN_ROLE,
    agent_turns,
    exit_status,
    register,
    task_by_location,
    validated,
)
from rmlab.trajectories.readers.r2e import LOG, judged_attempt
from rmlab.trajectories.record import Message, Role, clean

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
PATCHES = (
    *("model_patch", "generated_patch", "output_patch", "predicted_patch", "pred_patch", "agent_patch"),
    *("candidate_patch", "final_patch", "git_patch"),
)
"""Columns that hold the attempt's patch whatever stands beside them; one that is there and empty says that there is none."""
SUBMISSIONS = ("submission", "prediction")
"""Columns that hold the attempt's patch where they hold a diff: some sets keep a name there."""
REFERENCE = re.compile(
    r"(?:gold(?:en)?|ref(?:erence)?|oracle|ground_?truth|gt|true|correct|solution|upstream|human|expected|fix)_?(?:patch|diff)"
)
"""Columns that hold the benchmark's answer by their name."""
JOINED = ("test_patch", "fail_to_pass", "pass_to_pass", "hints_text", "environment_setup_commit")
"""Columns of a benchmark's tasks, in any case: where they were joined to the attempts, so was its `patch`."""
HELD_BACK = (
    "eval_logs",
    "test_result",
    "reference_patch",
    "pred_passes_gen_tests",
    "gen_tests_correct",
    "execution_result",
    "test_output",
)


@register(order=90)  # last, since several formats hold messages too
class ChatRows:
    """One row."""

    name = "chat"

    def matches(self, document: Any) -> bool:
        if isinstance(document, list):
            return len(document) > 1 and all(as_text(as_dict(m).get("role")) in ROLES for m in document)
        turns = _raw(as_dict(document))
        return bool(turns) and any(_role(as_dict(m)) in ROLES for m in turns[:3])

    def read(self, document: Any, location: Location) -> Draft:
        row = {"messages": document} if isinstance(document, list) else as_dict(document)
        if "test_result" in row:
            row = {**row, "test_result": _parsed(row["test_result"], "{")}
        metadata = as_dict(_parsed(row.get("metadata"), "{"))
        raw = [as_dict(m) for m in _raw(row)]
        messages = _conversation(raw)
        judged = _judged(messages)
        messages = _observed(judged[0] if judged else messages)
        patch, answers = _patch(row, metadata, judged[1] if judged else None)
        policy = first_text(*(row.get(key) for key in POLICIES), metadata.get("teacher_model"), metadata.get("model"))
        stated = as_text(row.get("exit_status"))
        resolved, column = _outcome(row)
        task = first_text(*(row.get(key) for key in TASKS))
        identity = first_text(row.get("traj_id"), row.get("trajectory_id"))
        last = next((m.content for m in reversed(messages) if m.role == "assistant"), "")
        if judged and not agent_turns(messages):
            raise Skipped("a judge's prompt without a log")
        if judged and resolved is None and not task:
            raise Skipped("a verifier's conversation")
        draft = Draft(
            location=location,
            format=self.name,
            task_id=task or task_by_location(messages, location),
            policy=policy,
            messages=messages,
            patch=patch,
            exit_status=exit_status(stated, submitted=(patch is not None and not judged) or submits(last)),
            resolved=resolved,
            label_source=f"{location}: {column}" if resolved is not None else None,
            joins=bool(policy or patch or stated or isinstance(document, list)),
            repository=first_text(row.get("repo")),
            names=tuple(n for n in (policy, as_text(row.get("run_id"))) if n),
            extra={"row": identity} if identity else {},
            removed=_removed(row, metadata, raw, answers),
        )
        return validated(draft)


def _conversation(raw: list[dict[str, Any]]) -> list[Message]:
    """The turns of a row in our roles and our notation of calls; turns of unknown roles are left out."""
    messages = [m for m in map(_message, raw) if m is not None]
    if any(map(is_structured, raw)):
        return messages
    # nebius keeps SWE-agent's runs so: every turn ends with its command
    as_nebius = any(_role(m) == "ai" and "text" in m for m in raw)
    return in_notation(messages, "last block" if as_nebius else None)


def _judged(messages: list[Message]) -> tuple[list[Message], str | None] | None:
    """R2E-Gym: the turns and the patch of the attempt that stands whole in a judge's prompt; None where there is no such prompt."""
    prompt = next((m.content for m in messages if m.role == "user" and LOG in m.content), None)
    if prompt is None:
        return None
    turns, patch = judged_attempt(prompt)
    return in_notation([Message(ROLES[role], text) for role, text in turns if role in ROLES], "observed block"), patch


def _removed(
    row: dict[str, Any], metadata: dict[str, Any], raw: list[dict[str, Any]], answers: list[str]
) -> Counter[str]:
    """What of a row is not kept, by kind. answers: columns that hold the benchmark's answer."""
    held_back = [key for key in HELD_BACK if row.get(key) or metadata.get(key)]
    removed = Counter(f"column {key}" for key in (*answers, *held_back))
    removed.update(why for key in OUTCOMES if (why := unread_label(row, key)))
    counts = {
        "hidden reasoning": sum(bool(as_text(m.get("reasoning_content"))) for m in raw),
        UNKNOWN_ROLE: sum(_role(m) not in ROLES for m in raw),
    }
    removed.update({kind: n for kind, n in counts.items() if n})
    return removed


def _observed(messages: list[Message]) -> list[Message]:
    """A user's turn right behind the agent's is what the environment showed: nobody else talks to these agents."""
    pairs = zip([None, *messages], messages, strict=False)
    return [
        Message("tool", m.content) if m.role == "user" and before and before.role == "assistant" else m
        for before, m in pairs
    ]


def names_patch(column: str) -> bool:
    """Whether a column is the attempt's patch by its name: a null there says that there is none."""
    return column in PATCHES


def _patch(row: dict[str, Any], metadata: dict[str, Any], logged: str | None) -> tuple[str | None, list[str]]:
    """The attempt's patch, and the columns that hold the benchmark's answer instead."""
    tested = as_dict(row.get("test_result"))
    submitted = [row[key] for key in SUBMISSIONS if "diff --git" in as_text(row.get(key))]
    named = [
        *(row.get(key) for key in PATCHES),
        *submitted,
        metadata.get("model_patch"),
        tested.get("git_patch"),
        logged,
    ]
    stated = (
        any(map(names_patch, row)) or "model_patch" in metadata or "git_patch" in tested or bool(submitted or logged)
    )
    answers = [key for key in row if REFERENCE.fullmatch(key.lower()) and row[key] and key not in HELD_BACK]
    joined = any(key.lower() in JOINED for key in row)
    plain = row.get("patch")
    if plain and (stated or (joined and (not answers or any(row[key] == plain for key in answers)))):
        answers.append("patch")
    return clean(first_text(*named, None if "patch" in answers else plain)) or None, answers


def _raw(row: dict[str, Any]) -> list[Any]:
    """The turns of a row; SWE-smith keeps them as a JSON text, older sets call them `conversations`."""
    values = [_parsed(row.get(key), "[") for key in ("messages", "trajectory", "conversations")]
    lists = [value for value in values if isinstance(value, list) and value]
    turns = (value for value in lists if any(_role(as_dict(m)) in ROLES for m in value[:3]))  # others are no talk
    return next(turns, lists[0] if lists else [])


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
    return Message("assistant", turn(text, of_message(one)))


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
