"""Labels without scores: which tasks did each run of a policy resolve, by the reports that test harnesses leave?

A report is one attempt at each of its tasks. It is JSON with lists of ids (`resolved_ids`, `unresolved_ids`, ...; by stage in
older ones; `success_ids`, `failure_ids` elsewhere) or {id: true or false}. A task that the report lists as incomplete was
asked and nothing was handed in: it counts as unresolved, as in the harness's own rate, unless told otherwise. A task that
the report does not name is not an attempt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from rmlab.errors import DataError
from rmlab.metrics.scores import Scores
from rmlab.verifiers.score_table import ScoreTable
from rmlab.verifiers.score_table_files import load_json, one_line_errors

RESOLVED = ("resolved_ids", "resolved", "success_ids")
CONTRARY = ("unresolved_ids", "failure_ids", "empty_patch_ids", "error_ids")
INCOMPLETE = ("incomplete_ids", "pending_ids")
NO_TASKS = ("unstopped_containers", "unremoved_images")  # lists of other things
PARTIAL = 0.1  # share of incomplete tasks above which a report may be of a part that was handed in
STATED = {"resolved_ids": "resolved_instances", "unresolved_ids": "unresolved_instances"}


class Incomplete(StrEnum):
    """What a task is that the report lists as incomplete or pending."""

    unresolved = "unresolved"
    unlabelled = "unlabelled"


@dataclass(frozen=True)
class HarnessReport:
    """label: of each task, None = incomplete."""

    label: Mapping[str, bool | None]

    @property
    def incomplete(self) -> int:
        return sum(value is None for value in self.label.values())


@one_line_errors()
def harness_report(path: Path) -> HarnessReport | None:
    """The report that a file holds; None where it is another kind of file. Raises DataError for a report that contradicts itself."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return None
    value = load_json(path)
    if not isinstance(value, dict) or not value or "score" in value:
        return None
    if all(isinstance(label, bool) for label in value.values()):
        return HarnessReport({str(task): label for task, label in value.items()})
    name = next((name for name in RESOLVED if _is_ids(value.get(name))), None)
    return None if name is None else HarnessReport(_labels(path, value, name))


def read_reports(paths: Sequence[Path], incomplete: Incomplete = Incomplete.unresolved) -> ScoreTable:
    """A table of attempts without scores, one attempt a report. Raises DataError where a file is no report."""
    task: list[str] = []
    attempt: list[str] = []
    label: list[float] = []
    notes = []
    for number, path in enumerate(paths):
        report = harness_report(path)
        if report is None:
            raise DataError(f"{path} is no report of a test harness (JSON with resolved_ids, or task: true or false)"
                            + ("; several files are evaluated together only if all are reports" if len(paths) > 1 else ""))
        notes.append(f"{path.name}: {len(report.label):,} tasks, {sum(value is True for value in report.label.values()):,} resolved"
                     + (f", {report.incomplete:,} incomplete (counted as {incomplete.value})" if report.incomplete else "")
                     + ("; if only a part was handed in, --incomplete unlabelled leaves them out"
                        if report.incomplete > PARTIAL * len(report.label) and incomplete is Incomplete.unresolved else ""))
        missing = 0.0 if incomplete is Incomplete.unresolved else np.nan
        for name, value in report.label.items():
            task.append(name)
            attempt.append(f"{number}:{name}")
            label.append(missing if value is None else float(value))
    return ScoreTable(Scores.of(task, np.full(len(task), np.nan), label, trajectory_id=attempt), notes=tuple(notes))


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _labels(path: Path, value: dict[str, Any], resolved: str) -> dict[str, bool | None]:
    for name, count in STATED.items():
        if _is_ids(value.get(name)) and isinstance(value.get(count), int) and len(value[name]) != value[count]:
            raise DataError(f"{path}: it lists {len(value[name])} {name} and states {count} = {value[count]}: which is right is not known")
    lists = [ids for name, ids in value.items() if _is_ids(ids) and name not in (*INCOMPLETE, *NO_TASKS)]
    label: dict[str, bool | None] = {task: False for ids in lists for task in ids}
    for task in value[resolved]:
        other = next((name for name in CONTRARY if _is_ids(value.get(name)) and task in value[name]), None)
        if other:
            raise DataError(f"{path}: task {task} is in {resolved} and in {other}: which is right is not known")
        label[task] = True
    for name in INCOMPLETE:
        for task in value[name] if _is_ids(value.get(name)) else ():
            label.setdefault(task, None)
    return label
