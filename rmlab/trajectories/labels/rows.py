"""Reports in rows: one row an instance, in JSON lines or as a list; and the outcome that a row of OpenHands carries.

    {"instance_id": ..., "resolved": true}                               summaries of a run
    {"instance_id": ..., "test_result": {"report": {"resolved": true}}}  OpenHands output.swebench_eval.jsonl

A row that names an instance and leaves its outcome null, or says that the evaluation itself failed, states none.
"""

from typing import Any

from rmlab.trajectories.labels.statement import Report
from rmlab.trajectories.places import Place
from rmlab.trajectories.reading import as_dict, as_list

NOT_EVALUATED, FAILED_EVALUATION = "no outcome", "evaluation failed"


def row_report(document: Any, place: Place) -> Report | None:
    """The report of a list of rows (or of an object that keeps them under `instances`); None where it is none."""
    rows = [as_dict(row) for row in as_list(document) or as_list(as_dict(document).get("instances"))]
    if not rows or not all(_is_row(row) for row in rows):
        return None
    report = Report(place, "rows")
    for row in rows:
        outcome, why = _outcome(row)
        if outcome is None:
            report.leave_open(row["instance_id"], why)
        else:
            report.say(row["instance_id"], outcome)
    return report


def evaluated(row: dict[str, Any]) -> tuple[bool | None, str]:
    """The outcome that a row of OpenHands states, and in which field; None where it states none."""
    for report, where in (
        (row.get("report"), "report"),
        (as_dict(row.get("test_result")).get("report"), "test_result.report"),
    ):
        stated = as_dict(report)
        if isinstance(stated.get("resolved"), bool) and not _failed(stated):
            return stated["resolved"], f"{where}.resolved"
    return None, ""


def _is_row(row: dict[str, Any]) -> bool:
    if not isinstance(row.get("instance_id"), str):
        return False
    reports = (row.get("report"), as_dict(row.get("test_result")).get("report"))
    return ("resolved" in row and (row["resolved"] is None or isinstance(row["resolved"], bool))) or any(
        isinstance(as_dict(report).get("resolved"), bool) for report in reports
    )


def _outcome(row: dict[str, Any]) -> tuple[bool | None, str]:
    if "resolved" in row:
        return row["resolved"], NOT_EVALUATED
    return evaluated(row)[0], FAILED_EVALUATION


def _failed(report: dict[str, Any]) -> bool:
    """Whether the evaluation broke off before it knew: then `resolved` is only what it was set to at the start."""
    return report.get("error_eval") is True and report.get("resolved") is False
