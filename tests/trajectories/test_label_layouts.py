"""Statements of outcomes, one layout at a time."""

import pytest

from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.labels.documents import reports
from rmlab.trajectories.labels.rows import csv_report, markdown_report
from rmlab.trajectories.labels.statement import predictions
from tests.trajectories.drafts import A, B, C, D

HERE = Location("run.zip", "results.json")


@pytest.mark.parametrize(
    ("document", "outcome", "unfinished"),
    [
        ({"resolved": True, "tests_status": {}, "instance_id": A}, {A: True}, {}),
        ({"resolved": True, "patch_successfully_applied": False, "instance_id": A}, {A: True}, {}),
        ({A: {"resolved": True, "patch_exists": True}, B: {"resolved": False}}, {A: True, B: False}, {}),
        (
            {"resolved_ids": [A], "unresolved_ids": [B], "empty_patch_ids": [C], "error_ids": [D]},
            {A: True, B: False, C: False},
            {D: "error_ids"},
        ),
        (
            {"resolved_ids": [A], "unresolved_ids": [], "pending_ids": [B], "failed_ids": [C], "incomplete_ids": [D]},
            {A: True},
            {B: "pending_ids", C: "failed_ids", D: "incomplete_ids"},
        ),
        ({"resolved_ids": [A], "completed_ids": [A, B], "error_ids": [C]}, {A: True, B: False}, {C: "error_ids"}),
        ({"ids_resolved": [A], "ids_unresolved": [B], "resolved": 1}, {A: True, B: False}, {}),
        ({"success_ids": [A], "failure_ids": [B], "error_ids": [C]}, {A: True, B: False}, {C: "error_ids"}),
        (
            {
                "no_generation": [A],
                "generated": [B, C, D],
                "with_logs": [B, C],
                "applied": [B, C],
                "install_fail": [],
                "resolved": [B],
            },
            {A: False, B: True, C: False},
            {D: "generated"},
        ),
        ({"generated": [A], "with_logs": [A], "install_fail": [A], "resolved": []}, {}, {A: "install_fail"}),
        ({A: True, B: False}, {A: True, B: False}, {}),
        ([{"instance_id": A, "resolved": True}, {"instance_id": B, "resolved": False}], {A: True, B: False}, {}),
        ({"instances": [{"instance_id": A, "resolved": True}]}, {A: True}, {}),
        ({"resolved_ids": ["o/n:pr-1"], "unresolved_ids": [], "error_ids": ["o/n:pr-2"]}, {A: True}, {B: "error_ids"}),
        ({"resolved_ids": ["o/n:pr-1"], "completed_ids": ["o/n:pr-1", "o/n:pr-2"]}, {A: True, B: False}, {}),
        ({"resolved": ["o/n:pr-1"], "applied": ["o/n:pr-1", "o/n:pr-2"]}, {A: True, B: False}, {}),
        (
            [{"instance_id": "o/n:pr-1", "resolved": True}, {"instance_id": B, "resolved": None}],
            {A: True},
            {B: "no outcome"},
        ),
        ([{"instance_id": A, "resolved": None}, {"instance_id": A, "resolved": True}], {A: True}, {}),
        ({"resolved": [A], "no_generation": [B], "no_logs": [C]}, {A: True, B: False}, {C: "no_logs"}),
        ({A: True, B: None}, {A: True}, {B: "no outcome"}),
        ({A: {"resolved": True}, B: {"resolved": None}}, {A: True}, {B: "no outcome"}),
        ([{"instance_id": A, "resolved": False}, {"instance_id": B, "resolved": None}], {A: False}, {B: "no outcome"}),
        (
            [
                {"instance_id": A, "test_result": {"report": {"resolved": False}}},
                {"instance_id": B, "report": {"resolved": True}},
            ],
            {A: False, B: True},
            {},
        ),
        ([{"instance_id": A, "report": {"resolved": False, "error_eval": True}}], {}, {A: "evaluation failed"}),
        # An evaluation whose environment failed states nothing, in whatever words; tests that passed all the same do.
        (
            {"resolved_ids": [A], "unresolved_ids": [B, C], "error_ids": [D], "infra_failure_ids": [A, C, D]},
            {A: True, B: False},
            {C: "infra_failure_ids", D: "infra_failure_ids"},
        ),
        (
            {"resolved_ids": [], "unresolved_ids": [A, B], "empty_patch_ids": [C], "ids_docker_error": [B]},
            {A: False, C: False},
            {B: "ids_docker_error"},
        ),
        ({A: {"resolved": False, "patch_exists": True, "infra_failure": True}}, {}, {A: "infra_failure"}),
        ({A: {"resolved": False, "patch_exists": True, "infra_failure": False}}, {A: False}, {}),
        (
            {
                "resolved_ids": [],
                "unresolved_ids": [A, B, C],
                "docker_build_errors": {B: "no space"},
                "infra_failure_instances": 1,
            },
            {A: False, C: False},
            {B: "docker_build_errors"},
        ),
        ({"resolved": False, "patch_exists": True, "instance_id": A, "infra_failure": True}, {}, {A: "infra_failure"}),
        (
            [{"instance_id": A, "resolved": False, "status": "infrastructure_failure"}],
            {},
            {A: "infrastructure_failure"},
        ),
        ([{"instance_id": A, "resolved": False, "environment_error": "yes"}], {}, {A: "environment_error"}),
        ([{"instance_id": A, "resolved": False, "failure_category": "patch_apply_failure"}], {A: False}, {}),
        # Final reports of older harnesses, and what people make of them.
        ({"resolved": [A], "unresolved": [B], "error": [C], "total": 3}, {A: True, B: False}, {C: "error_ids"}),
        (
            {"resolved_instances": [A], "completed_instances": [A, B], "incomplete_instances": [C]},
            {A: True, B: False},
            {C: "incomplete_ids"},
        ),
        (
            {"total": 2, "results": [{"instance_id": A, "resolved": True}, {"instance_id": B, "resolved": False}]},
            {A: True, B: False},
            {},
        ),
        ({"total": 2, "results": {A: {"resolved": True}, B: {"resolved": None}}}, {A: True}, {B: "no outcome"}),
        ({"total": 2, "results": {A: True, B: False}, "config": {"x": True}}, {A: True, B: False}, {}),
        # Outcomes in words; what is no outcome is counted.
        ([{"instance_id": A, "resolved": "true"}, {"instance_id": B, "resolved": "No"}], {A: True, B: False}, {}),
        ([{"instance_id": A, "resolved": 1}, {"instance_id": B, "resolved": 0.0}], {A: True, B: False}, {}),
        (
            [{"instance_id": A, "resolved": True}, {"instance_id": B, "resolved": "maybe"}],
            {A: True},
            {B: "outcome neither true nor false"},
        ),
        ({A: {"resolved": "yes"}, B: {"resolved": "no"}}, {A: True, B: False}, {}),
        ({A: "passed", B: "failed"}, {A: True, B: False}, {}),
    ],
)
def test_layouts(document: object, outcome: dict, unfinished: dict) -> None:
    (report,) = reports(document, HERE)
    assert (report.outcome, report.unfinished) == (outcome, unfinished)


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        None,
        3,
        "x",
        {"resolved": True},
        {"resolved": 3, "unresolved": 50},
        {"debug": True, "verbose": False},
        {"resolved": [A]},
        {A: {"model_patch": "x"}},
        {A: {"resolved": 1}},
        {A: {"resolved": "maybe"}},
        {"success": True, "instance_id": A},
        {"instances": []},
        {"a0": {"task_id": A, "score": 0.5, "resolved": True}, "a1": {"task_id": A, "score": 0.4, "resolved": False}},
        {"a0": {"instance_id": A, "resolved": True}},
        {"leaderboards": [{"results": [{"name": "x", "resolved": 50.0}]}]},
    ],
)
def test_what_states_no_outcome_is_no_report(document: object) -> None:
    assert reports(document, HERE) == []


def test_leaderboards_and_submissions() -> None:
    board = {
        "results": [
            {
                "folder": "2025_x",
                "resolved": 50.0,
                "per_instance_details": {A: {"resolved": True}, B: {"resolved": False}, C: {"cost": 1}},
            }
        ]
    }
    (report,) = reports({"leaderboards": [board, board]}, HERE)
    assert (report.system, report.outcome, report.note) == ("2025_x", {A: True, B: False}, "")
    two = reports(
        {
            A: {"resolved_submissions": ["x", "y", "x"]},
            B: {"resolved_submissions": ["x"]},
            C: {"resolved_submissions": []},
        },
        HERE,
    )
    assert {r.system: r.outcome for r in two} == {"x": {A: True, B: True}, "y": {A: True}}
    several = reports({"base": {"resolved_ids": [A]}, "ours": {"resolved_ids": [A, B]}, "n": 500}, HERE)
    assert {r.system: r.outcome for r in several} == {"base": {A: True}, "ours": {A: True, B: True}}


def test_markdown_and_csv() -> None:
    text = (
        f"# R\n- resolved instances: 1\n## Resolved Instances\n- [{A}](x.log)\n## Unresolved Instances\n- [{B}](y)\n- {C}\n"
        f"## Error Instances\n- {D}\n## Empty Patch Instances\n- [{C}](z)\n"
    )
    report = markdown_report(text, HERE)
    assert (report.outcome, report.unfinished) == ({A: True, B: False, C: False}, {D: "error instances"})
    assert markdown_report(f"# Notes\n- [{A}](x)\n", HERE) is None
    table = csv_report(f"instance_id,resolved,patch\n{A},True,x\n{B},false,\n{C},,\n{D},maybe,x\n", HERE)
    assert table.outcome == {A: True, B: False}
    assert csv_report("task_id,score,resolved\na,1,1\n", HERE) is None
    assert csv_report(f"instance_id,score,resolved\n{A},1,1\n", HERE) is None  # a score table is no report


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_tables_of_labels_in_every_dialect(separator: str, end: str) -> None:
    rows = ("instance_id", "resolved", "x"), (A, "Yes", "1"), (B, "0", ""), (C, "", ""), (D, "maybe", "")
    found = csv_report("\ufeff" + end.join(separator.join(row) for row in rows), HERE)
    assert found is not None
    assert found.outcome == {A: True, B: False}
    assert found.unfinished == {C: "no outcome", D: "outcome neither true nor false"}


def test_predictions() -> None:
    row = {"instance_id": A, "model_patch": "diff", "model_name_or_path": "m"}
    for document in (row, [row], {A: row}):
        found = predictions(document, HERE)
        assert (found.patch, found.model) == ({A: "diff"}, {A: "m"})
    assert predictions({A: row, "x": 1}, HERE) is None
    assert predictions({}, HERE) is None
    assert predictions({**row, "messages": []}, HERE) is None
