"""Runs whose labels or names were lost or wrong: whole folders as people keep them, each imported once."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY

A, B = "o__n-1", "o__n-2"
OUTCOMES = {"resolved_ids": [A], "unresolved_ids": [B]}


@pytest.fixture
def cases() -> Path:
    """Folder of small runs made by hand."""
    folder = REPOSITORY.parent / "shared" / "data" / "cases"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: inputs made by hand are kept beside the repository, not in it")
    return folder


def attempt(folder: Path, task: str, words: str = "", **info: object) -> None:
    """One attempt of mini-SWE-agent at a task, by vendor/model."""
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": f"Fix {task}"},
        {
            "role": "assistant",
            "content": f"look {words}",
            "tool_calls": [{"function": {"name": "bash", "arguments": '{"command": "ls"}'}}],
        },
        {"role": "tool", "content": "x.py"},
    ]
    stated = {
        "exit_status": "Submitted",
        "submission": f"+{task}{words}\n",
        "config": {"model": {"model_name": "vendor/model"}},
    }
    document = {
        "info": stated | info,
        "trajectory_format": "mini-swe-agent-1.1",
        "instance_id": task,
        "messages": messages,
    }
    write(folder / task / f"{task}.traj.json", document)


def write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("import/m3", (2, 2, 1)),
        ("import/m3/run", (2, 2, 1)),
        ("import/m4", (2, 2, 1)),
        ("import/m5", (2, 2, 1)),
        ("import/m6", (2, 2, 1)),
        ("use/sbcli_report_beside", (4, 4, 2)),
        ("use/id_case/run", (3, 3, 1)),
        ("use/infra_failure/run", (4, 2, 1)),
        ("use/infra_failure_report/run", (3, 2, 1)),
        ("use/critic_attempts/out", (5, 3, 2)),
    ],
)
def test_runs_made_by_hand(cases: Path, importing: Callable, name: str, counts: tuple[int, int, int]) -> None:
    found = importing(cases / name).summary
    assert (found["trajectories"], found["labelled"], found["resolved"]) == counts


def test_infrastructure_failures_of_runs_made_by_hand_are_named(cases: Path, importing: Callable) -> None:
    lists = importing(cases / "use" / "infra_failure" / "run")
    assert {t.task_id: t.resolved for t in lists.trajectories} == {
        "acme__tool-1": True,
        "acme__tool-2": False,
        "acme__tool-3": None,
        "acme__tool-4": None,
    }
    assert lists.summary["not_evaluated"] == {"infra_failure_ids in run/vendor__model-a.run.json": 2}
    single = importing(cases / "use" / "infra_failure_report" / "run")
    assert {t.task_id: t.resolved for t in single.trajectories} == {
        "acme__tool-1": True,
        "acme__tool-2": False,
        "acme__tool-3": None,
    }


def test_retried_attempts_of_a_run_made_by_hand_stay_unlabelled_and_that_is_said(
    cases: Path, importing: Callable
) -> None:
    found = importing(cases / "use" / "critic_attempts" / "out")
    chosen = [t for t in found.trajectories if t.resolved is not None]
    assert all("output.jsonl" in str(t.extra) for t in chosen)
    assert {t.task_id: t.resolved for t in chosen} == {
        "acme__tool-1": True,
        "acme__tool-2": True,
        "acme__tool-3": False,
    }
    assert any("2 attempts have no label" in note for note in found.summary["notes"])


def test_one_policy_for_a_run_made_by_hand(cases: Path, importing: Callable) -> None:
    found = importing(cases / "import" / "m2")
    assert found.summary["policies"] == {"gpt4__lite": 2}
    assert {t.attempt for t in found.trajectories} == {0}


@pytest.mark.parametrize("where", ["", "run", "sb-cli-reports", "run/sb-cli-reports", "reports", "run/evaluation"])
@pytest.mark.parametrize("name", ["run", "my_run", "v1.5_gpt-x"])
def test_a_report_of_sb_cli_above_beside_and_in_its_run(
    tmp_path: Path, importing: Callable, where: str, name: str
) -> None:
    for task in (A, B):
        attempt(tmp_path / "all" / "run", task)
    write(tmp_path / "all" / where / f"swe-bench-m__dev__{name}.json", OUTCOMES)
    found = importing(tmp_path / "all")
    assert {t.task_id: t.resolved for t in found.trajectories} == {A: True, B: False}


def test_reports_of_sb_cli_go_by_the_names_of_their_runs(tmp_path: Path, importing: Callable) -> None:
    for run in ("run_1", "run_2"):
        for task in (A, B):
            attempt(tmp_path / "all" / run, task, run)
    reports = tmp_path / "all" / "sb-cli-reports"
    write(reports / "swe-bench_lite__dev__run_1.json", OUTCOMES)
    write(reports / "swe-bench_lite__dev__run_2.json", {"resolved_ids": [], "unresolved_ids": [A, B]})
    write(reports / "swe-bench_lite__dev__run_3.json", {"resolved_ids": [A, B], "unresolved_ids": []})
    found = importing(tmp_path / "all")
    assert {(t.extra["place"].split("/")[1], t.task_id): t.resolved for t in found.trajectories} == {
        ("run_1", A): True,
        ("run_1", B): False,
        ("run_2", A): False,
        ("run_2", B): False,
    }
    assert [note.split(":")[0] for note in found.summary["notes"]] == [
        "all/sb-cli-reports/swe-bench_lite__dev__run_3.json labels no attempt"
    ]
    (reports / "swe-bench_lite__dev__run_1.json").unlink()  # then nothing says which run's the other outcomes are
    found = importing(tmp_path / "all")
    assert {t.resolved for t in found.trajectories if "/run_1/" in t.extra["place"]} == {None}


def test_a_report_of_sb_cli_about_another_model_is_not_taken(tmp_path: Path, importing: Callable) -> None:
    attempt(tmp_path / "all" / "run", A)
    write(tmp_path / "all" / "run" / "swe-bench_lite__dev__other__thing.json", OUTCOMES)
    found = importing(tmp_path / "all").summary
    assert (found["labelled"], len(found["notes"])) == (0, 1)
    assert "is about other__thing, 1 attempt beside it is of vendor/model" in found["notes"][0]


def test_ids_join_across_case_and_images(tmp_path: Path, importing: Callable) -> None:
    tasks = ["AcMe__Tool-1", "acme_1776_tool-2", "AcMe__Tool-3", "Plain"]
    for task in tasks:
        attempt(tmp_path / "run", task)
    write(
        tmp_path / "run" / "results.json",
        {
            "resolved_ids": ["acme__tool-1", "AcMe__Tool-2"],
            "unresolved_ids": ["x/sweb.eval.x86_64.acme_1776_tool-3:latest", "plain"],
        },
    )
    found = importing(tmp_path / "run")
    labels = {t.task_id: t.resolved for t in found.trajectories}
    assert labels == {"AcMe__Tool-1": True, "acme__tool-2": True, "AcMe__Tool-3": False, "Plain": None}


def test_one_task_in_two_spellings_is_one_task_of_one_cluster(tmp_path: Path, importing: Callable) -> None:
    for number, task in enumerate(["AcMe__Tool-1", "AcMe__Tool-1", "acme__tool-1", "acme_1776_tool-1"]):
        attempt(tmp_path / "all" / f"run_{number}", task, str(number))
    found = importing(tmp_path / "all")
    assert {(t.task_id, t.cluster) for t in found.trajectories} == {("AcMe__Tool-1", "AcMe/Tool")}
    assert sorted(t.attempt for t in found.trajectories) == [0, 1, 2, 3]


def test_an_evaluation_that_failed_by_one_report_is_unresolved_by_none(tmp_path: Path, importing: Callable) -> None:
    for task in (A, B):
        attempt(tmp_path / "run", task)
    write(tmp_path / "run" / "results.json", {"resolved_ids": [], "unresolved_ids": [A, B]})
    single = {A: {"resolved": False, "patch_exists": True, "infra_failure": True}}
    write(tmp_path / "run" / "logs" / A / "report.json", single)
    labels = {t.task_id: t.resolved for t in importing(tmp_path / "run").trajectories}
    assert labels == {A: None, B: False}


@pytest.mark.parametrize("column", ["infra_failure", "environment_error", "docker_failed"])
def test_a_row_whose_evaluation_failed_has_no_label(tmp_path: Path, importing: Callable, column: str) -> None:
    rows = [
        {
            "instance_id": task,
            "model": "m",
            "patch": "+x",
            "resolved": "false",
            column: task == A,
            "messages": [{"role": "user", "content": f"Fix {task}"}, {"role": "assistant", "content": "done"}],
        }
        for task in (A, B)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = importing(tmp_path / "rows.jsonl")
    assert {t.task_id: t.resolved for t in found.trajectories} == {A: None, B: False}
    assert found.summary["removed"] == {"label of an evaluation that failed": 1}
    table = f"instance_id,resolved,{column}\n{A},no,True\n{B},no,False\n"
    attempt(tmp_path / "run", A)
    attempt(tmp_path / "run", B)
    (tmp_path / "run" / "results.csv").write_text(table)
    assert {t.task_id: t.resolved for t in importing(tmp_path / "run").trajectories} == {A: None, B: False}


def test_a_report_goes_with_the_file_of_attempts_that_it_is_called_by(tmp_path: Path, importing: Callable) -> None:
    def row(task: str, words: str) -> str:
        messages = [{"role": "user", "content": f"Fix {task}"}, {"role": "assistant", "content": words}]
        return json.dumps({"instance_id": task, "model": "m", "patch": f"+{words}", "messages": messages})

    folder = tmp_path / "out"
    folder.mkdir()
    for number in (1, 2):
        (folder / f"output.critic_attempt_{number}.jsonl").write_text(
            "\n".join(row(task, f"try {number}") for task in (A, B))
        )
    (folder / "output.jsonl").write_text("\n".join([row(A, "try 1"), row(B, "try 2")]))
    write(folder / "output.report.json", OUTCOMES)
    write(folder / "output.critic_attempt_1.report.json", {"resolved_ids": [A], "unresolved_ids": [], "error_ids": [B]})
    labels = {(t.task_id, t.patch): t.resolved for t in importing(folder).trajectories}
    assert labels == {(A, "+try 1"): True, (B, "+try 2"): False, (A, "+try 2"): None, (B, "+try 1"): None}


def test_a_report_that_labels_nobody_says_what_would_make_it_join(tmp_path: Path, importing: Callable) -> None:
    attempt(tmp_path / "all" / "mine", A)
    write(tmp_path / "all" / "final_report.json", {"resolved_ids": ["x__y-9"], "unresolved_ids": ["x__y-8"]})
    write(tmp_path / "all" / "yours" / "results.json", OUTCOMES)
    found = importing(tmp_path / "all").summary
    assert found["labelled"] == 0
    assert found["notes"] == [
        f"all/final_report.json labels no attempt: none of its 2 tasks was read (it lists x__y-8; {A} was read). "
        "Reports are joined by task id: name the trajectories of this run",
        "all/yours/results.json labels no attempt: its run name or folder differs from that of the attempts "
        "at its tasks. Name it with --labels if it is about them, or put it into their run's folder",
    ]
    assert importing(tmp_path / "all", labels=(tmp_path / "all" / "yours" / "results.json",)).summary["labelled"] == 1


def test_attempts_that_predictions_leave_out_go_by_their_run_s_name(tmp_path: Path, importing: Callable) -> None:
    unnamed = {"config": {}}
    for run, listed in (("run_1", [A]), ("run_2", [B]), ("run_3", [])):
        for task in (A, B):
            attempt(tmp_path / "all" / run, task, run, **unnamed)
        rows = [{"instance_id": task, "model_patch": "+x", "model_name_or_path": f"model of {run}"} for task in listed]
        if rows:
            write(tmp_path / "all" / run / "preds.json", {row["instance_id"]: row for row in rows})
    found = importing(tmp_path / "all").summary
    assert found["policies"] == {"model of run_1": 2, "model of run_2": 2, "run_3": 2}


def test_labels_in_words_are_read_and_others_counted(tmp_path: Path, importing: Callable) -> None:
    values = ["true", "No", "yes", "F", 1, 0, "maybe", 7, "", None, -1]
    said = [{"role": "user", "content": "Fix"}, {"role": "assistant", "content": "done"}]
    rows = [
        {"instance_id": f"o__n-{n}", "model": "m", "patch": f"+{n}", "resolved": v, "messages": said}
        for n, v in enumerate(values)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = importing(tmp_path / "rows.jsonl")
    labels = [found.by_task()[f"o__n-{number}"].resolved for number in range(len(values))]
    assert labels == [True, False, True, False, True, False, None, None, None, None, None]
    assert found.summary["removed"] == {"label in column resolved that is neither true nor false": 2}


def test_a_named_report_goes_with_the_one_file_that_it_is_called_by(tmp_path: Path, importing: Callable) -> None:
    def row(words: str) -> str:
        messages = [{"role": "user", "content": f"Fix {A}"}, {"role": "assistant", "content": words}]
        return json.dumps({"instance_id": A, "model": "m", "patch": f"+{words}", "messages": messages})

    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "output.jsonl").write_text(row("second"))
    (folder / "output.critic_attempt_1.jsonl").write_text(row("first"))
    elsewhere = write(tmp_path / "reports" / "output.report.json", {"resolved_ids": [A], "unresolved_ids": []})
    found = importing(folder, labels=(elsewhere,))
    assert {t.patch: t.resolved for t in found.trajectories} == {"+second": True, "+first": None}
    assert found.summary["ambiguous"] == 0
