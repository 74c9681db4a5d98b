"""Reports in JSON: the layouts in which harnesses, leaderboards and people state who resolved what.

    report.json with fields at top level, or keyed by instance id        SWE-bench, SWE-smith, Multi-SWE-bench
    `resolved_ids`, `unresolved_ids`, ...                                harness reports, sb-cli, several systems in one file
    `ids_resolved`, `ids_unresolved`                                     SWE-smith's summary of a run
    the same lists as `resolved`, `unresolved` or `resolved_instances`, ...    final reports of older harnesses
    lists by stage (`generated`, `with_logs`, ..., `resolved`)           SWE-bench before 2.0; its leaderboards
    `success_ids`, `failure_ids`                                         Multi-SWE-bench
    {id: true}                                                           SWE-bench Pro
    rows of `instance_id` and `resolved` (see rows)                      summaries, OpenHands
    per-instance details of several entries; id → submissions            leaderboards

A list of errors, of pending or of incomplete instances states no outcome. A patch that is stated to be empty cannot pass.
"""

from collections.abc import Iterable
from typing import Any

from rmlab.trajectories.ingest.json_text import as_dict, as_list, as_text
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.labels.rows import NOT_EVALUATED, row_report
from rmlab.trajectories.labels.statement import Report, infra_word, stated_outcome
from rmlab.trajectories.record import instance, looks_like_task

PASSED = ("resolved_ids", "ids_resolved", "success_ids")
FAILED = ("unresolved_ids", "ids_unresolved", "failure_ids", "empty_patch_ids")
OPEN = ("error_ids", "incomplete_ids", "pending_ids", "failed_ids")
STAGES = (
    "no_generation", "generated", "with_logs", "no_logs", "install_fail", "reset_failed", "no_apply", "applied",
    "test_errored", "test_timeout",
)  # fmt: skip
# Stages at which the environment failed before any test ran: they state no outcome of the patch.
HARNESS_FAILED = ("install_fail", "reset_failed", "no_logs")
REPORT_KEYS = (
    "tests_status",
    "patch_exists",
    "patch_is_None",
    "patch_successfully_applied",
    "FAIL_TO_PASS",
    "PASS_TO_PASS",
)


def reports(document: Any, location: Location) -> list[Report]:
    """What a JSON document states, one report a run; [] where it is no report. Never raises."""
    fields = as_dict(document)
    for reader in (
        _single,
        _id_lists,
        _stages,
        _bare_lists,
        _systems,
        _leaderboards,
        _submissions,
        _rows,
        _keyed,
        _inner_keyed,
        _flags,
    ):
        stated = reader(document if reader is _rows else fields, location)
        if stated:
            return stated
    return []


def _single(fields: dict[str, Any], location: Location) -> list[Report]:
    if stated_outcome(fields.get("resolved")) is None or not any(key in fields for key in REPORT_KEYS):
        return []
    report = Report(location, "report.json", names=_names(fields))
    task = as_text(fields.get("instance_id")) or (location.folders[-1] if location.path else "")
    _take(report, task, fields)
    return [report]


def _keyed(fields: dict[str, Any], location: Location) -> list[Report]:
    records = {task: as_dict(value) for task, value in fields.items()}
    if not _says([record.get("resolved", "") for record in records.values()]) or _by_attempt(records):
        return []
    report = Report(location, "report.json by instance")
    for task, record in records.items():
        _take(report, task, record)
    return [report]


def _inner_keyed(fields: dict[str, Any], location: Location) -> list[Report]:
    """Records by instance that stand under one name beside other things (`{"total": 2, "results": {id: {...}}}`)."""
    inner = [
        value for value in map(as_dict, fields.values()) if value and all(map(looks_like_task, map(instance, value)))
    ]
    return _keyed(inner[0], location) or _flags(inner[0], location) if len(inner) == 1 else []


def _by_attempt(records: dict[str, dict[str, Any]]) -> bool:
    """Whether the keys are those of attempts, since the records name their task themselves, or have a score."""
    return any(
        "score" in record or any(record.get(key, task) != task for key in ("task_id", "instance_id"))
        for task, record in records.items()
    )


def _take(report: Report, task: str, value: dict[str, Any]) -> None:
    report.take(value, task, stated_outcome(value["resolved"]), NOT_EVALUATED)
    status = as_dict(value.get("tests_status")) or value
    tests = as_dict(status.get("FAIL_TO_PASS"))
    names = tuple(name for key in ("success", "failure") for name in as_list(tests.get(key)) if isinstance(name, str))
    if names:
        report.hidden[instance(task)] = names


def _id_lists(fields: dict[str, Any], location: Location) -> list[Report]:
    if not any(isinstance(fields.get(key), list) for key in PASSED):
        return []
    report = Report(location, "id lists", names=_names(fields))
    _say_all(report, (fields.get(key) for key in PASSED), True)
    _say_all(report, (fields.get(key) for key in FAILED), False)
    for key in OPEN:
        for task in _instances(fields.get(key)):
            report.leave_open(task, key)
    for key in filter(infra_word, fields):
        for task in _instances(as_list(fields[key]) or list(as_dict(fields[key]))):  # a list, or reasons by instance
            report.fail(task, key)
    if unclear := _instances(fields.get("ambiguous_failure_ids")):
        report.note = f"{len(unclear)} of its failures may be due to the environment (ambiguous_failure_ids): they are counted as listed"
    if "unresolved_ids" not in fields:  # reports of the first containerised harness
        settled = report.tasks
        _say_all(report, [[task for task in _instances(fields.get("completed_ids")) if task not in settled]], False)
    return [report]


def _bare_lists(fields: dict[str, Any], location: Location) -> list[Report]:
    """Lists under the names of id lists without `_ids`; one of resolved instances alone says nothing of the others."""
    lists = {
        f"{name}_ids": next(
            (fields[key] for key in (name, f"{name}_instances") if isinstance(fields.get(key), list)), None
        )
        for name in ("resolved", "unresolved", "completed", "empty_patch", "error", "incomplete", "pending")
    }
    stated = {key: value for key, value in lists.items() if value is not None}
    return _id_lists(fields | stated, location) if "resolved_ids" in stated and len(stated) > 1 else []


def _stages(fields: dict[str, Any], location: Location) -> list[Report]:
    if not isinstance(fields.get("resolved"), list) or not any(isinstance(fields.get(key), list) for key in STAGES):
        return []
    report = Report(location, "lists by stage")
    _say_all(report, [fields["resolved"]], True)
    stage_of = {task: key for key in STAGES for task in _instances(fields.get(key))}
    for task, stage in stage_of.items():
        if task in report.outcome:
            continue
        # "generated" alone: a patch whose tests left no log; the stages in between state that the tests ran.
        if stage in HARNESS_FAILED or (stage == "generated" and isinstance(fields.get("with_logs"), list)):
            report.leave_open(task, stage)
        else:
            report.say(task, False)
    return [report]


def _systems(fields: dict[str, Any], location: Location) -> list[Report]:
    stated = []
    for system, value in fields.items():
        passed = as_dict(value).get("resolved_ids")
        if isinstance(passed, list):
            report = Report(location, "id lists of several systems", system=system)
            _say_all(report, [passed], True)
            _say_all(report, [value.get("unresolved_ids")], False)
            stated.append(report)
    return stated


def _leaderboards(fields: dict[str, Any], location: Location) -> list[Report]:
    """An entry may stand on several boards: it is one report. A stated share that its own table does not have is noted."""
    stated: dict[str, Report] = {}
    for board in map(as_dict, as_list(fields.get("leaderboards"))):
        for entry in map(as_dict, as_list(board.get("results"))):
            cells = {
                task: as_dict(cell).get("resolved") for task, cell in as_dict(entry.get("per_instance_details")).items()
            }
            system = as_text(entry.get("folder")) or as_text(entry.get("name"))
            if not any(isinstance(value, bool) for value in cells.values()):
                continue
            report = stated.setdefault(system, Report(location, "leaderboard", system=system, names=_names(entry)))
            for task, value in cells.items():
                if isinstance(value, bool):
                    report.say(task, value)
            share, table = entry.get("resolved"), 100 * report.resolved / max(len(report.outcome), 1)
            if isinstance(share, (int, float)) and not isinstance(share, bool) and abs(share - table) > 1:
                counted = f"{report.resolved} of {len(report.outcome)} ({table:.1f} %)"
                report.note = f"{system} states {share} % resolved, its table has {counted}"
    return list(stated.values())


def _submissions(fields: dict[str, Any], location: Location) -> list[Report]:
    """Instance → the submissions that resolved it. An empty cell states nothing: submissions cover different splits."""
    if not fields or not all(isinstance(as_dict(v).get("resolved_submissions"), list) for v in fields.values()):
        return []
    stated: dict[str, Report] = {}
    for task, value in fields.items():
        for system in value["resolved_submissions"]:
            if isinstance(system, str):
                stated.setdefault(system, Report(location, "submissions by instance", system=system)).say(task, True)
    return list(stated.values())


def _rows(document: Any, location: Location) -> list[Report]:
    report = row_report(document, location)
    return [report] if report else []


def _flags(fields: dict[str, Any], location: Location) -> list[Report]:
    if not _says(fields.values()) or not all(map(looks_like_task, fields)):
        return []
    report = Report(location, "id to bool")
    for task, value in fields.items():
        report.take({}, task, stated_outcome(value), NOT_EVALUATED)
    return [report]


def _says(cells: Iterable[Any]) -> bool:
    """Whether cells are outcomes (see stated_outcome), or null where there is none; at least one of them states something."""
    stated = [stated_outcome(cell) for cell in cells if cell is not None]
    return bool(stated) and None not in stated


def _say_all(report: Report, lists: Iterable[Any], outcome: bool) -> None:
    for tasks in lists:
        for task in _instances(tasks):
            report.say(task, outcome)


def _instances(tasks: object) -> list[str]:
    """The instances that a list names; nothing where it is none."""
    return [instance(task) for task in as_list(tasks) if isinstance(task, str)]


def _names(fields: dict[str, Any]) -> tuple[str, ...]:
    return tuple(
        as_text(fields.get(key))
        for key in ("model_name_or_path", "run_id", "folder", "name")
        if as_text(fields.get(key))
    )
