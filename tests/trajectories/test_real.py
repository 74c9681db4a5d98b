"""Every source of ../shared/data/real with the counts that its README states, and each trap that the README names."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.trajectories.conftest import Imported

# trajectories, tasks, labelled, resolved, skipped records (files of other kinds are "no known format" and not counted here)
SOURCES = {
    "mini_v1_gemini3_verified": (34, 34, 34, 20, {}),
    "mini_v2_deepseek_litedev_4runs": (
        26,
        7,
        24,
        14,
        {"crash trace": 3},
    ),  # 24 + 5 of another model, of which 3 never answered
    "mini_v2_testdata": (2, 2, 0, 0, {}),
    "sweagent0_coder_lite": (36, 36, 36, 15, {}),
    "sweagent1_swesmith": (5, 4, 2, 1, {}),  # 2, and 3 rows for fine-tuning that have no labels
    "sweagent_demos": (12, 6, 0, 0, {}),
    "openhands015_completions_verified": (40, 40, 40, 22, {}),
    "openhands_output_jsonl": (10, 10, 4, 0, {"crash trace": 4}),  # 14, of which 4 died at login
    "openhands_sdk_v1_events": (5, 2, 0, 0, {"no agent turn": 2}),  # 3 attempts at one issue, 2 at another
    "moatless_v0_lite": (100, 50, 99, 37, {}),  # one patch of gpt4o was never tested
    "moatless_v0_4_nodes": (5, 5, 0, 0, {}),
    "stub_trajs_polydev": (0, 0, 0, 0, {"statistics only": 25}),
    "bestofk_reports": (0, 0, 0, 0, {}),
    "leaderboard_matrix": (0, 0, 0, 0, {}),
    "swebench_pro_eval_results": (0, 0, 0, 0, {}),
    "sbcli_reports_partial": (0, 0, 0, 0, {}),
    "verifier_scores": (0, 0, 0, 0, {"a verifier's conversation": 1}),
}


@pytest.fixture(scope="module")
def kept() -> dict[str, Imported]:
    """Imports by what was asked for."""
    return {}


@pytest.fixture
def importing(importing: Callable[..., Imported], kept: dict[str, Imported]) -> Callable[..., Imported]:
    """As everywhere, but each source once: most tests look at the same ones, and change nothing."""

    def once(*paths: Path, **options: Any) -> Imported:
        asked = repr((paths, options))
        if asked not in kept:
            kept[asked] = importing(*paths, **options)
        return kept[asked]

    return once


@pytest.mark.parametrize("name", SOURCES)
def test_counts_are_those_of_the_readme(name: str, real: Path, importing) -> None:
    found = importing(real / f"{name}.zip").summary
    skipped = {reason: n for reason, n in found["skipped"].items() if reason != "no known format"}
    assert (found["trajectories"], found["tasks"], found["labelled"], found["resolved"], skipped) == SOURCES[name]
    assert found["duplicates"] == found["conflicts"] == found["ambiguous"] == found["outcomes_in_prompts"] == 0


@pytest.mark.slow
def test_all_sources_at_once_are_the_sum_and_label_nobody_else(real: Path, importing) -> None:
    found = importing(real)
    moatless_nodes = 2  # the leaderboard's matrix lies in the same folder, and carries the run's name
    assert found.summary["trajectories"] == sum(row[0] for row in SOURCES.values())
    assert found.summary["labelled"] == sum(row[2] for row in SOURCES.values()) + moatless_nodes
    assert found.summary["resolved"] == sum(row[3] for row in SOURCES.values()) + moatless_nodes
    assert found.summary["policies"]["20240604_CodeR"] == 36


@pytest.mark.parametrize(
    ("name", "trajectories", "labelled", "resolved", "mended"),
    [
        ("moatless_20240609_gpt4o", 300, 296, 70, 8),
        ("moatless_20240623_claude-3.5-sonnet", 291, 291, 80, 13),
        pytest.param("mini_v1_gemini3_verified_half", 246, 246, 179, 31, marks=pytest.mark.slow),
    ],
)
def test_whole_runs(
    name: str, trajectories: int, labelled: int, resolved: int, mended: int, corpus: Path, importing
) -> None:
    found = importing(corpus / f"{name}.zip").summary
    assert (found["trajectories"], found["labelled"], found["resolved"]) == (trajectories, labelled, resolved)
    assert len(found["policies"]) == 1
    assert found["mended"] == mended  # backslashes that the replacement of user names left behind


def reports(summary: dict) -> dict[str, tuple[int, int]]:
    return {
        f"{Path(r['place']).name} {r['system'] or ''}".strip(): (r["stated"], r["resolved"]) for r in summary["reports"]
    }


@pytest.mark.slow
def test_labels_live_in_eight_places(real: Path, importing) -> None:
    v2 = importing(real / "mini_v2_deepseek_litedev_4runs.zip").summary["reports"]
    kinds = {r["kind"] for r in v2}
    assert kinds == {"id lists", "report.json by instance"}
    assert sum(r["resolved"] for r in v2 if r["kind"] == "report.json by instance") == 6
    assert sorted(r["resolved"] for r in v2 if r["kind"] == "id lists") == [5, 8, 8]
    v1 = reports(importing(real / "mini_v1_gemini3_verified.zip").summary)
    assert v1 == {"report.json": (34, 20), "results_summary.csv": (500, 371), "results_summary.json": (500, 371)}
    markdown = importing(real / "openhands015_completions_verified.zip").summary["reports"]
    assert [(r["kind"], r["stated"], r["resolved"]) for r in markdown] == [("Markdown list", 50, 26)]
    java = {r["kind"]: r["stated"] for r in importing(real / "openhands_output_jsonl.zip").summary["reports"]}
    assert java == {"report.json": 4, "id lists": 4}
    stages = importing(real / "moatless_v0_lite.zip").summary["reports"]
    assert [(r["kind"], r["resolved"]) for r in stages] == [("lists by stage", 70), ("lists by stage", 80)]
    pro = importing(real / "swebench_pro_eval_results.zip").summary["reports"]
    assert {r["kind"] for r in pro} == {"id to bool"}
    assert (len(pro), min(r["resolved"] for r in pro), max(r["resolved"] for r in pro)) == (9, 36, 319)
    assert (min(r["stated"] for r in pro), max(r["stated"] for r in pro)) == (562, 955)
    matrix = importing(real / "leaderboard_matrix.zip").summary["reports"]
    assert [sum(r["kind"] == kind for r in matrix) for kind in ("leaderboard", "submissions by instance")] == [25, 99]
    # The README counts 18,209 positive cells: a submission stands in a list once or twice, 15,801 are different ones.
    assert sum(r["resolved"] for r in matrix if r["kind"] == "submissions by instance") == 15_801


def test_reports_of_several_runs(real: Path, importing) -> None:
    runs = importing(real / "bestofk_reports.zip").summary["reports"]
    assert sorted(r["resolved"] for r in runs) == sorted([156, 162, 162, 153, 160, 166, 152, 148, 98, 109, 101])
    partial = importing(real / "sbcli_reports_partial.zip").summary["reports"]
    assert sorted(r["resolved"] for r in partial) == sorted([3, 4, 5, 6, 6, 6, 4, 8])
    assert all(
        r["stated"] <= 10 and r["stated"] + r["not_evaluated"] == 23 for r in partial
    )  # pending and absent are no outcome
    several = reports(importing(real / "stub_trajs_polydev.zip").summary)
    assert [several[f"FINAL_RESULTS.json {name}"] for name in ("baseline", "polydev", "hybrid")] == [
        (323, 323),
        (333, 333),
        (373, 373),
    ]


def test_resolved_without_an_applied_patch_is_resolved(real: Path, importing) -> None:
    found = importing(real / "sweagent1_swesmith.zip").by_task()
    assert found["pydantic__pydantic.acb0f10f.pr_8316"].cluster == "pydantic/pydantic"
    with zipfile.ZipFile(real / "sweagent1_swesmith.zip") as archive:
        report = json.loads(
            archive.read("sweagent1_swesmith/run_evaluation/pydantic__pydantic.acb0f10f.pr_8316/report.json")
        )
    assert (report["patch_successfully_applied"], report["resolved"]) == (False, True)


def test_absent_from_every_report_is_unlabelled(real: Path, importing) -> None:
    found = importing(real / "mini_v2_deepseek_litedev_4runs.zip")
    other = [t for t in found.trajectories if t.policy == "deepseek/deepseek-reasoner"]
    assert [t.resolved for t in other] == [None, None]  # its tasks are in four reports, all of other runs
    assert sorted(t.exit_status for t in other) == ["error", "submitted"]


def test_four_runs_of_one_model_are_attempts_with_labels_of_their_own(real: Path, importing) -> None:
    found = [
        t
        for t in importing(real / "mini_v2_deepseek_litedev_4runs.zip").trajectories
        if t.policy == "deepseek/deepseek-chat"
    ]
    assert sorted({(t.task_id, t.attempt) for t in found}) == [
        (task, a) for task in sorted({t.task_id for t in found}) for a in range(4)
    ]
    with zipfile.ZipFile(real / "mini_v2_deepseek_litedev_4runs.zip") as archive:
        for t in found:
            run = t.extra["place"].split("/output/")[1].split("/")[0]
            root = "mini_v2_deepseek_litedev_4runs"
            if run == "deepseek_lite_dev":
                inner = f"{root}/logs/run_evaluation/{run}/deepseek__deepseek-chat/{t.task_id}/report.json"
                assert t.resolved == json.loads(archive.read(inner))[t.task_id]["resolved"]
            else:
                lists = json.loads(archive.read(f"{root}/deepseek__deepseek-chat.{run}.json"))
                assert t.resolved == (t.task_id in lists["resolved_ids"])
                assert (t.task_id in lists["unresolved_ids"]) != t.resolved


def test_a_matrix_labels_only_the_run_whose_name_it_carries_and_only_what_it_states(real: Path, importing) -> None:
    found = importing(real / "moatless_v0_4_nodes.zip", labels=(real / "leaderboard_matrix.zip",))
    assert (found.summary["labelled"], found.summary["resolved"]) == (
        2,
        2,
    )  # an empty cell of the matrix states nothing
    assert {t.task_id for t in found.trajectories if t.resolved} == {"django__django-12983", "mwaskom__seaborn-3010"}
    assert all(
        "20241117_moatless_claude-3.5-sonnet-20241022" in t.label_source for t in found.trajectories if t.resolved
    )


def test_a_table_that_disagrees_with_its_own_headline_is_noted(real: Path, importing) -> None:
    notes = importing(real / "leaderboard_matrix.zip").summary["notes"]
    assert len(notes) == 1
    assert "claude-3-7-sonnet-20250219 states 52.8 % resolved, its table has 51 of 500" in notes[0]


def test_near_json_is_read_with_a_warning(real: Path, importing) -> None:
    found = importing(real / "sweagent0_coder_lite.zip").summary
    assert found["mended"] == 1
    assert found["places"]["mended"] == [
        "sweagent0_coder_lite.zip/sweagent0_coder_lite/results.json: a comma before a closing bracket"
    ]
    assert [(r["resolved"], r["kind"]) for r in found["reports"]] == [(82, "lists by stage")]
    assert found["predictions"][0] | {"place": ""} == {"place": "", "tasks": 300, "empty": 36}


def test_the_patch_is_not_repeated_as_last_turn(real: Path, importing) -> None:
    for name in ("mini_v1_gemini3_verified", "mini_v2_deepseek_litedev_4runs", "sweagent1_swesmith"):
        for t in importing(real / f"{name}.zip").trajectories:
            if t.patch:
                assert t.patch.strip() not in t.messages[-1].content.replace("\r\n", "\n"), (name, t.task_id)
    removed = importing(real / "mini_v1_gemini3_verified.zip").summary["removed"]
    assert removed == {"patch repeated as last turn": 34}


def test_demonstrations_are_dropped_and_counted(real: Path, importing) -> None:
    found = importing(real / "sweagent0_coder_lite.zip")
    assert found.summary["removed"] == {"demonstration turns": 34}
    assert not any("--- DEMONSTRATION ---" in m.content for t in found.trajectories for m in t.messages)
    assert any(
        "[call plan]" in m.content or "[call bash]\nplan" in m.content for t in found.trajectories for m in t.messages
    )


def test_the_last_answer_of_a_conversation_is_read_from_its_response(real: Path, importing) -> None:
    found = importing(real / "openhands015_completions_verified.zip")
    assert all(t.messages[-1].role == "assistant" for t in found.trajectories)
    assert found.summary["exit_statuses"] == {"submitted": 37, "unfinished": 3}
    assert sum("[call finish]" in t.messages[-1].content for t in found.trajectories) == 37
    whole = found.by_task()["django__django-11066"]  # 15 calls are there: they are one attempt
    assert whole.attempt == 0
    assert whole.resolved is True


def test_attempts_without_a_task_id_share_the_hash_of_their_issue(real: Path, importing) -> None:
    found = importing(real / "openhands_sdk_v1_events.zip").trajectories
    tasks = sorted({t.task_id for t in found})
    assert sorted(sum(t.task_id == task for t in found) for task in tasks) == [2, 3]
    assert all(task.startswith("issue-") for task in tasks)
    assert sum(t.exit_status == "submitted" for t in found) == 2


def test_two_models_on_the_same_tasks(real: Path, importing) -> None:
    found = importing(real / "moatless_v0_lite.zip")
    assert found.summary["policies"] == {"20240609_moatless_gpt4o": 50, "20240623_moatless_claude-3.5-sonnet": 50}
    by_policy = {
        p: sum(t.resolved is True for t in found.trajectories if t.policy == p) for p in found.summary["policies"]
    }
    assert by_policy == {"20240609_moatless_gpt4o": 19, "20240623_moatless_claude-3.5-sonnet": 18}
    assert found.summary["without_patch"] == 6
    assert found.summary["not_evaluated"] == {
        "generated in moatless_v0_lite.zip/moatless_v0_lite/20240609_moatless_gpt4o/result.json": 1
    }


def test_text_with_escapes_and_other_scripts_survives(real: Path, importing) -> None:
    found = importing(real / "openhands_output_jsonl.zip", real / "sweagent1_swesmith.zip").trajectories
    text = "".join(m.content for t in found for m in t.messages)
    assert "\r" in text
    assert any(ord(c) > 127 for c in text)


def test_the_attempt_within_a_judges_prompt(real: Path, tmp_path: Path, importing) -> None:
    name = "verifier_scores/r2egym_verifier_notebook/verifier_conversation.json"
    with zipfile.ZipFile(real / "verifier_scores.zip") as archive:
        talk = json.loads(archive.read(name))
    talk = talk if isinstance(talk, list) else talk["messages"]
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": talk, "docker_images": "img", "rewards": 0.0}))
    (t,) = importing(tmp_path / "rows.jsonl").trajectories
    assert [m.role for m in t.messages] == ["system", "user", *["assistant", "tool"] * 12]
    assert (t.task_id, t.resolved, t.exit_status) == ("img", False, "submitted")
    assert t.patch.startswith("diff --git a/django/contrib/admin/views/autocomplete.py")
    assert "[STEP]" not in "".join(m.content for m in t.messages)
    assert "judgement" not in "".join(m.content for m in t.messages)


def test_tool_calls_have_one_notation(real: Path, importing) -> None:
    """No policy is told apart by the syntax of its calls: fenced blocks, XML and tool calls all read alike."""
    for name in (
        "mini_v1_gemini3_verified",
        "mini_v2_deepseek_litedev_4runs",
        "sweagent1_swesmith",
        "openhands015_completions_verified",
        "openhands_output_jsonl",
        "openhands_sdk_v1_events",
        "moatless_v0_lite",
        "moatless_v0_4_nodes",
        "sweagent_demos",
    ):
        found = importing(real / f"{name}.zip").trajectories
        turns = [m.content for t in found for m in t.messages if m.role == "assistant"]
        assert sum("[call " in turn and "[/call]" in turn for turn in turns) > 0.85 * len(turns), name
        assert not any("<function=" in turn for turn in turns), name
