"""Labels without scores: which tasks did each run of a policy resolve, according to the reports of test harnesses?

A report is one attempt at each of its tasks; `rmlab.trajectories.labels` reads its layouts. A task that the report names
without an outcome (incomplete, pending, an error of the attempt) was asked and not solved: it counts as unresolved, as in the
harness's own rate, unless told otherwise. One whose evaluation failed by no fault of the attempt (the environment, the
infrastructure) has no label. A task that the report does not name is not an attempt. Where one file is about several
systems, each is a policy.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from rmlab.errors import DataError
from rmlab.scores.files import one_line_errors
from rmlab.scores.packed import opened
from rmlab.scores.scores import Scores
from rmlab.scores.table import ScoreTable
from rmlab.trajectories.ingest.compression import plain_name
from rmlab.trajectories.ingest.json_text import read_json
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.ingest.skipped import Skipped
from rmlab.trajectories.labels.documents import REPORT_KEYS, reports
from rmlab.trajectories.labels.statement import Report
from rmlab.trajectories.record import instance, looks_like_task, task_key
from rmlab.wording import counted

BY_INSTANCE = "report.json by instance"
PARTIAL = 0.1  # share of tasks without an outcome above which a report may be of a part that was handed in


class Incomplete(StrEnum):
    """What a task is that the report names without an outcome."""

    unresolved = "unresolved"
    unlabelled = "unlabelled"


@one_line_errors()
def harness_reports(path: Path) -> list[Report]:
    """The reports that a file holds, one a system; [] where it is another kind of file: a table of rows is a score table, and so
    are records by a key that is no instance's name.

    Raises DataError for a report that contradicts itself.
    """
    if not plain_name(path.name).lower().endswith(".json") or not path.is_file():
        return []
    try:
        with opened(path) as file:
            document, mended = read_json(file.read())
    except Skipped as error:
        raise DataError(f"{path}: {error}") from error
    if not isinstance(document, dict) or "score" in document:
        return []
    of_file = [
        report
        for report in reports(document, Location(path.name, ""))
        if report.kind != "rows" and not (report.kind == BY_INSTANCE and _by_other_keys(document))
    ]
    for report in of_file:
        if twice := report.by_key().contradictions:
            raise DataError(f"{path} lists task {twice[0]} as both resolved and unresolved")
    if mended and of_file:
        of_file[0].note = f"{path.name} is not strict JSON: {mended} was ignored" + (
            f"; {of_file[0].note}" if of_file[0].note else ""
        )
    for name in ("resolved", "unresolved"):
        listed, stated = document.get(f"{name}_ids"), document.get(f"{name}_instances")
        if isinstance(listed, list) and isinstance(stated, int) and len(listed) != stated:
            raise DataError(f"{path} lists {len(listed)} {name}_ids but states {name}_instances = {stated}")
    return of_file


def _by_other_keys(document: dict[str, Any]) -> bool:
    """Whether the keys of records are no instances' names, and the records have nothing that a harness writes."""
    return not all(map(looks_like_task, map(instance, document))) and not any(
        key in record for record in document.values() for key in REPORT_KEYS
    )


def read_reports(paths: Sequence[Path], incomplete: Incomplete = Incomplete.unresolved) -> ScoreTable:
    """A table of attempts without scores, one attempt a report. Raises DataError where a file is no report."""
    rows: list[tuple[str, str, str, float]] = []
    notes = []
    seen: dict[bytes, Path] = {}
    spelled: dict[str, str] = {}  # harnesses write ids in lower case or as they are: one task, as it is written first
    for number, path in enumerate(paths):
        reports = harness_reports(path)
        if not reports:
            raise DataError(
                f"{path} is not a report of a test harness (JSON with resolved_ids, or task: true or false)"
                + ("; several files are evaluated together only if all are reports" if len(paths) > 1 else "")
            )
        if (first := seen.setdefault(hashlib.sha256(path.read_bytes()).digest(), path)) != path:
            notes.append(f"{path} and {first} are identical: if they are one run, name it only once")
        for report in reports:
            missing = 0.0 if incomplete is Incomplete.unresolved else np.nan
            label = {
                **{task: np.nan if task in report.void else missing for task in report.unfinished},
                **{task: float(outcome) for task, outcome in report.outcome.items()},
            }
            label = {spelled.setdefault(task_key(task), task): value for task, value in label.items()}
            rows += [(task, f"{number}:{report.system}:{task}", report.system, value) for task, value in label.items()]
            notes.append(f"{path.name}{f' ({report.system})' if report.system else ''}: {_what(report, incomplete)}")
            if report.note:
                notes.append(report.note)
    task, attempt, policy, label_N = zip(*rows, strict=True) if rows else ((), (), (), ())
    return ScoreTable(
        Scores.of(
            list(task),
            np.full(len(rows), np.nan),
            np.array(label_N, dtype=float),
            trajectory_id=list(attempt),
            policy=list(policy),
        ),
        notes=tuple(notes),
    )


def _what(report: Report, incomplete: Incomplete) -> str:
    named = {task: why for task, why in report.unfinished.items() if task not in report.outcome}
    open_tasks = {task: why for task, why in named.items() if task not in report.void}
    failed = Counter(why for task, why in named.items() if task in report.void)
    total = len(report.outcome) + len(named)
    note = f"{counted(total, 'task')}, {report.resolved:,} resolved"
    if failed:
        words = ", ".join(f"{kind} {count:,}" for kind, count in sorted(failed.items()))
        note += f", {failed.total():,} without a label because the evaluation failed ({words})"
    if not open_tasks:
        return note
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(Counter(open_tasks.values()).items()))
    note += f", {len(open_tasks):,} without an outcome ({kinds}), counted as {incomplete.value}"
    if len(open_tasks) > PARTIAL * total and incomplete is Incomplete.unresolved:
        note += "; if only part of the tasks was submitted, --incomplete unlabelled leaves them out"
    return note
