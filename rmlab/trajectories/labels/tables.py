"""Reports that are no JSON: Markdown lists as OpenHands writes them, and tables of `instance_id` and `resolved`."""

import csv
import io
import re

from rmlab.trajectories.labels.statement import Report
from rmlab.trajectories.naming import looks_like_task
from rmlab.trajectories.places import Place

HEADING = re.compile(r"^#+\s*(.+?)\s*$")
ITEM = re.compile(r"^\s*[-*]\s+\[?`?([^\]`\s]+)")
TRUE, FALSE = ("true", "1", "1.0"), ("false", "0", "0.0")


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
    for task in [*report.outcome, *report.contradictions]:
        report.unfinished.pop(task, None)
    return report if headings else None


def csv_report(text: str, place: Place) -> Report | None:
    """A CSV with the columns `instance_id` and `resolved`, and no scores; None where it is none."""
    try:
        rows = csv.DictReader(io.StringIO(text))
        columns = rows.fieldnames or []
        if "instance_id" not in columns or "resolved" not in columns or "score" in columns:
            return None
        report = Report(place, "table")
        for row in rows:
            value = (row.get("resolved") or "").strip().lower()
            if value in TRUE + FALSE:
                report.say((row.get("instance_id") or "").strip(), value in TRUE)
        return report
    except csv.Error:
        return None
