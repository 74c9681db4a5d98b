"""Reports in rows: one row an instance, in JSON lines or as a list; and the outcome that a row of OpenHands carries.

    {"instance_id": ..., "resolved": true}                               summaries of a run
    {"instance_id": ..., "test_result": {"report": {"resolved": true}}}  OpenHands output.swebench_eval.jsonl

A row that names an instance and leaves its outcome null, or says that the evaluation itself failed, states none. Outcomes are
true and false, the words for them (statement.py), or 1 and 0; a row with another value is counted.
"""

import csv
import io
import re
from typing import Any

from rmlab.trajectories.ingest.json_text import as_dict, as_list
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.labels.statement import Report, infra_failure, infra_word, stated_outcome
from rmlab.trajectories.record import looks_like_task

NOT_EVALUATED, FAILED_EVALUATION, NOT_READABLE = "no outcome", "evaluation failed", "outcome neither true nor false"


def row_report(document: Any, location: Location) -> Report | None:
    """The report of a list of rows, or of an object that keeps one such list under some name; None where it is none."""
    lists = [as_list(document), *map(as_list, as_dict(document).values())]
    row_lists = [rows for one in lists if (rows := [as_dict(row) for row in one]) and all(map(_is_row, rows))]
    if len(row_lists) != 1:
        return None
    rows = row_lists[0]
    report = Report(location, "rows")
    for row in rows:
        first, second = _inner(row)
        report.take(first | second | row, row["instance_id"], *_outcome(row))
    return report


def evaluated(row: dict[str, Any]) -> tuple[bool | None, str]:
    """The outcome that a row of OpenHands states, and in which field; None where it states none."""
    for report, where in (
        (row.get("report"), "report"),
        (as_dict(row.get("test_result")).get("report"), "test_result.report"),
    ):
        stated = as_dict(report)
        outcome = stated_outcome(stated.get("resolved"))
        if outcome is not None and (outcome or not infra_failure(stated)):
            return outcome, f"{where}.resolved"
    return None, ""


def unread_label(row: dict[str, Any], column: str) -> str:
    """Why what a column of an attempt's own row says of its outcome is not taken; "" where it is, or says nothing."""
    value = row.get(column)
    if value in (None, "", -1, [], {}):
        return ""
    if infra_failure(row):
        return "label of an evaluation that failed"
    read = stated_outcome(value) is not None or (isinstance(value, (int, float)) and value in (0, 1))
    return "" if read else f"label in column {column} that is neither true nor false"


def _is_row(row: dict[str, Any]) -> bool:
    if not isinstance(row.get("instance_id"), str):
        return False
    return "resolved" in row or any("resolved" in report for report in _inner(row))


def _inner(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [as_dict(row.get("report")), as_dict(as_dict(row.get("test_result")).get("report"))]


def _outcome(row: dict[str, Any]) -> tuple[bool | None, str]:
    """The outcome of a row, and why it has none where it has none."""
    if "resolved" not in row:
        return evaluated(row)[0], FAILED_EVALUATION if any(map(infra_failure, _inner(row))) else NOT_READABLE
    value = row["resolved"]
    if isinstance(value, (int, float)) and value in (0, 1):
        return value == 1, ""
    return stated_outcome(value), NOT_EVALUATED if value in (None, "") else NOT_READABLE


HEADING = re.compile(r"^#+\s*(.+?)\s*$")
ITEM = re.compile(r"^\s*[-*]\s+\[?`?([^\]`\s]+)")
SEPARATORS = (",", "\t", ";", "|")
NUMBERS = {"1": True, "1.0": True, "0": False, "0.0": False}


def markdown_report(text: str, location: Location) -> Report | None:
    """A report with the headings Resolved, Unresolved, Empty Patch, Error and Incomplete Instances; None where it is none.

    An empty patch stands in two of its lists, as unresolved.
    """
    report, section, headings = Report(location, "Markdown list"), "", 0
    for line in text.splitlines():
        if heading := HEADING.match(line):
            section = heading[1].lower()
            headings += section in ("resolved instances", "unresolved instances")
        elif (item := ITEM.match(line)) and looks_like_task(item[1]):
            if section.startswith(("resolved", "unresolved", "empty patch")):
                report.say(item[1], section.startswith("resolved"))
            elif section.startswith(("error", "incomplete")):
                report.unfinished[item[1]] = section
            elif infra_word(section):
                report.fail(item[1], section)
    for task in [*report.outcome, *report.contradictions]:
        report.unfinished.pop(task, None)
    return report if headings else None


def csv_report(text: str, location: Location) -> Report | None:
    """A table with the columns `instance_id` and `resolved`, and no scores; None where it is none.

    Its cells are separated by commas, tabs, semicolons or bars.
    """
    text = text.removeprefix("\ufeff")
    header = text.splitlines()[0] if text else ""
    separator = next(
        (one for one in SEPARATORS if {"instance_id", "resolved"} <= set(header.replace('"', "").split(one))), ","
    )
    try:
        rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
        columns = rows.fieldnames or []
        if "instance_id" not in columns or "resolved" not in columns or "score" in columns:
            return None
        report = Report(location, "table")
        for row in rows:
            value = (row.get("resolved") or "").strip()
            outcome = NUMBERS.get(value, stated_outcome(value))
            cells = {key: NUMBERS.get(cell, cell) for key, cell in row.items() if key and isinstance(cell, str)}
            report.take(
                cells, (row.get("instance_id") or "").strip(), outcome, NOT_READABLE if value else NOT_EVALUATED
            )
        return report
    except csv.Error:
        return None
