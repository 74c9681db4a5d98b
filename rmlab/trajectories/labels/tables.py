"""Reports that are no JSON: Markdown lists as OpenHands writes them, and tables of `instance_id` and `resolved`."""

import csv
import io
import re

from rmlab.trajectories.labels.rows import NOT_EVALUATED, NOT_READABLE
from rmlab.trajectories.labels.statement import Report, infra_word, stated_outcome
from rmlab.trajectories.naming import looks_like_task
from rmlab.trajectories.places import Place

HEADING = re.compile(r"^#+\s*(.+?)\s*$")
ITEM = re.compile(r"^\s*[-*]\s+\[?`?([^\]`\s]+)")
SEPARATORS = (",", "\t", ";", "|")
NUMBERS = {"1": True, "1.0": True, "0": False, "0.0": False}


def markdown_report(text: str, place: Place) -> Report | None:
    """A report with the headings Resolved, Unresolved, Empty Patch, Error and Incomplete Instances; None where it is none.

    An empty patch stands in two of its lists, as unresolved.
    """
    report, section, headings = Report(place, "Markdown list"), "", 0
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


def csv_report(text: str, place: Place) -> Report | None:
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
        report = Report(place, "table")
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
