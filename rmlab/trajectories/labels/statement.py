"""What a file says about outcomes: statements about tasks of one run, and predictions (the patches that a run submitted).

Also the words in which files say it: of an outcome (true, "yes", "resolved"), and of an evaluation whose environment failed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from rmlab.trajectories.ingest.json_text import as_dict, as_list, as_text
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.record import clean, instance, task_key

YES, NO = (
    ("true", "yes", "y", "t", "pass", "passed", "resolved"),
    ("false", "no", "n", "f", "fail", "failed", "unresolved"),
)
INFRA = re.compile(
    r"infra(structure)?"
    r"|(infra(structure)?|env(ironment)?|harness|eval(uation)?|docker|container|image|grader)(_(setup|build|pull|start))?"
    r"_(fail|failed|failures?|errors?|errored|crash(ed)?)"
    r"|error_eval|(install|reset)_fail(ed)?"
)
"""Words for an evaluation that failed by itself, before it could judge the patch. A patch that is empty, does not apply or does
not build, and tests that run too long, are failures of the attempt and have other words."""
CAUSES = ("status", "evaluation_status", "failure_category", "failure_type", "error_type")
"""Fields in which a record says with one of these words why it failed."""


def stated_outcome(value: object) -> bool | None:
    """The outcome that a value states: true or false, or one of the words for them; None for anything else."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in YES else False if word in NO else None


def infra_word(name: str) -> bool:
    """Whether a field, a list of ids or a cause has a name for a failure of the environment: `infra_failure_ids`, `docker error`."""
    word = re.sub(r"[^a-z]+", "_", name.lower()).strip("_")
    word = re.sub(r"^ids_|_(ids|instances)$", "", word)
    return INFRA.fullmatch(word) is not None


def infra_failure(record: dict[str, Any]) -> str:
    """By which field a record says that its evaluation failed, and not the attempt; "" where none does."""
    for key, value in record.items():
        if stated_outcome(value) and infra_word(key):
            return key
        if key in CAUSES and isinstance(value, str) and infra_word(value):
            return value
    return ""


@dataclass
class Report:
    """All that one file says of one run.

    kind: the layout. outcome: task → True (passed the hidden tests) or False. unfinished: tasks that the file names without
    an outcome (errors, pending, no log): they stay unlabelled. system: the run's or model's name where the file is about
    several; only a run of that name takes its labels. names: model and run names that the file states besides.
    hidden: task → names of tests that were hidden from the agent. contradictions: tasks that it calls resolved and unresolved.
    void: task → the word by which the file says that its evaluation failed: no other statement makes it unresolved.
    explicit: named by the user as a source of labels. note: what in the file does not agree with itself.
    """

    location: Location
    kind: str
    outcome: dict[str, bool] = field(default_factory=dict)
    unfinished: dict[str, str] = field(default_factory=dict)
    system: str = ""
    names: tuple[str, ...] = ()
    hidden: dict[str, tuple[str, ...]] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    void: dict[str, str] = field(default_factory=dict)
    explicit: bool = False
    note: str = ""

    @property
    def tasks(self) -> set[str]:
        return {*self.outcome, *self.unfinished, *self.contradictions}

    @property
    def resolved(self) -> int:
        return sum(self.outcome.values())

    def say(self, task: str, outcome: bool) -> None:
        """Notes an outcome; a task that is called both is noted as a contradiction and has none."""
        task = instance(task)
        if not task or task in self.contradictions or (not outcome and task in self.void):
            return
        self.unfinished.pop(task, None)
        if self.outcome.get(task, outcome) != outcome:
            del self.outcome[task]
            self.contradictions.append(task)
            return
        self.outcome[task] = outcome

    def leave_open(self, task: str, why: str) -> None:
        """Notes a task that is named without an outcome; what was said of it, before or behind, counts for more."""
        task = instance(task)
        if task not in self.outcome and task not in self.contradictions:
            self.unfinished[task] = why

    def fail(self, task: str, why: str) -> None:
        """Notes that the evaluation of a task failed: it is not unresolved. Tests that passed all the same count for more."""
        task = instance(task)
        self.void[task] = why
        if self.outcome.get(task) is False:
            del self.outcome[task]
        self.leave_open(task, why)

    def take(self, record: dict[str, Any], task: str, outcome: bool | None, open_why: str) -> None:
        """Notes what a record says of a task. outcome: None where it states none, and open_why is the reason."""
        if why := infra_failure(record):
            self.fail(task, why)
        if outcome is None:
            self.leave_open(task, open_why)
        else:
            self.say(task, outcome)

    def merge(self, other: "Report", named: Callable[[str], str] = instance) -> None:
        """Takes over what another part of the same file says. named: how its tasks are to be called."""
        for task, why in other.void.items():
            self.fail(named(task), why)
        for task, outcome in other.outcome.items():
            self.say(named(task), outcome)
        for task, why in other.unfinished.items():
            self.leave_open(named(task), why)
        for task in map(named, other.contradictions):
            self.outcome.pop(task, None)
            self.contradictions += [] if task in self.contradictions else [task]
        self.hidden.update({named(task): tests for task, tests in other.hidden.items()})

    def by_key(self) -> "Report":
        """The same statements about tasks as they are compared (see task_key)."""
        keyed = replace(self, outcome={}, unfinished={}, hidden={}, contradictions=[], void={})
        keyed.merge(self, task_key)
        return keyed


@dataclass
class Predictions:
    """The patches that a run submitted. patch: task → patch ("" = none). model: task → the name that the run goes by."""

    location: Location
    patch: dict[str, str] = field(default_factory=dict)
    model: dict[str, str] = field(default_factory=dict)


def predictions(document: Any, location: Location) -> Predictions | None:
    """The predictions of a document: a row, rows, or rows by id. None where it holds none."""
    if _is_row(document):
        rows = [as_dict(document)]
    elif isinstance(document, dict):
        rows = [as_dict(value) for value in document.values()]
    else:
        rows = [as_dict(value) for value in as_list(document)]
    if not rows or not all(map(_is_row, rows)):
        return None
    submitted = Predictions(location)
    for row in rows:
        task = row["instance_id"]
        submitted.patch[task] = clean(as_text(row.get("model_patch")) or as_text(row.get("prediction")))
        submitted.model[task] = clean(as_text(row.get("model_name_or_path")))
    return submitted


def _is_row(value: Any) -> bool:
    row = as_dict(value)
    return (
        isinstance(row.get("instance_id"), str)
        and ("model_patch" in row or "prediction" in row)
        and "messages" not in row
    )
