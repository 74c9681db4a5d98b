"""The five lines at the end of a sweep say what the runs and tests say, and never more."""

import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from analysis.summaries import conclusions, summary_runs
from analysis.sweep import level_tests, level_words
from analysis.sweep.tracked import SweepRuns
from rmlab.metrics.sweep_levels import LevelTest
from rmlab.progress import set_verbosity
from rmlab.scores.scores import Scores


@dataclass(frozen=True)
class Cell:
    level: str
    seed: int
    report: dict
    baselines: dict
    arm: str = ""
    across: bool = False
    scores: Scores = field(default_factory=lambda: Scores.of(["a", "b"], [0.2, 0.8], [0, 1]))
    run: object = field(default_factory=lambda: SimpleNamespace(tags={"place": "0"}))


def report(rm: float, auc: float) -> dict:
    return {
        "clusters": 40,
        "rm_at_k": {"1": 0.4, "16": rm},
        "pass_at_k": {"1": 0.4, "16": 0.8},
        "rm_at_k_weighted": {"1": 0.4, "16": rm + 0.1},
        "auc_within_task": auc,
        "auc_within_task_patches": auc + 0.01,
        "ece_width_10": 0.05,
        "ci95": {"rm_at_k": {"16": [rm - 0.05, rm + 0.05]}, "auc_within_task": [auc - 0.02, auc + 0.02]},
    }


def sweep(tests: list[LevelTest], seeds: int = 3) -> SweepRuns:
    rules = {"last_value": {"auc_within_task": 0.85}, "length": {"auc_within_task": 0.5}, "shape": {"reason": "none"}}
    cells = tuple(
        Cell(level, seed, report(0.5 + place / 10, 0.7 + place / 10), rules)
        for place, level in enumerate(("500", "1000", "8000"))
        for seed in range(seeds)
    )
    group = SweepRuns("data_scale", "demo", "c0", "data_scale", cells, "1000")  # type: ignore[arg-type]
    object.__setattr__(group, "tests", {("", test.level, test.metric): test for test in tests})
    return group


def level_test(level: str, metric: str, difference: float, p_holm: float, detectable: float | None = None) -> LevelTest:
    ends = (difference - 0.02, difference + 0.02)
    return LevelTest(
        *(level, metric, 3, difference, 0.01, 4.0, ends, p_holm, p_holm),
        by_seed=(difference, p_holm),
        detectable_holm=detectable,
    )


def test_what_is_shown_and_what_is_not_are_two_lines() -> None:
    group = sweep(
        [
            level_test("500", "auc_within_task", -0.1, 0.001),
            level_test("8000", "auc_within_task", 0.01, 0.6, detectable=0.041),
            level_test("500", "ece_width_10", 0.02, 0.3, detectable=0.03),
            level_test("8000", "ece_width_10", 0.0, 1.0, detectable=0.025),
        ]
    )
    varied, found, hidden = conclusions.of_verifiers(group)
    assert varied == (
        "Varied: data_scale = 500, 1000 and 8000 (compared with 1000); 3 seeds each, 9 runs; everything else was the same."
    )
    assert "compared with 1000, AUC within task is lower at 500 (-0.100 [-0.120, -0.080])." in found
    assert "8000 (" not in found.split(". ")[0]
    assert "At 8000 the best-scored of 16 attempts is resolved in 70 % (95 % interval 65 % to 75 %)" in found
    assert "any attempt 40 %, a perfect verifier 80 %, the patch with the largest sum of scores 80 %" in found
    assert "AUC within task 0.900; AUC by patch 0.910; ECE 0.050" in found
    assert "3 of 4 differences from 1000: AUC within task at 8000; ECE at 500 and 8000." in hidden
    assert (
        "a power of at least 80 % for a difference of 0.041 in AUC within task and 0.030 in ECE, after Holm" in hidden
    )
    assert "lies above" not in hidden, "0.88 is above 0.85 and 0.5"


def test_a_difference_that_cannot_be_is_not_given_as_power() -> None:
    """Metrics lie between 0 and 1: a test that would need a difference of 1.004 could have shown none."""
    tests = [
        replace(level_test("500", "rm_at_k", 0.1, 0.9, detectable=1.004), detectable=0.4),
        replace(level_test("8000", "ece_width_10", 0.0, 1.0, detectable=0.025), detectable=0.02),
    ]
    group = sweep(tests)
    hidden = conclusions.of_verifiers(group)[2]
    assert "80 % for a difference of 0.025 in ECE, after Holm's correction; smaller ones may be there." in hidden
    assert hidden.endswith("In RM@16 at least one test could have shown none at all.")
    assert "1.004" not in hidden
    note = level_tests.power_note(group)
    assert note.startswith("No difference shown: 80 % power from a difference of RM@16 0.400 (none), ECE 0.020 (0.025)")
    assert note.endswith(level_tests.NONE)
    assert level_tests.power(tests[0]) == "0.400 / none"
    assert "| 0.400 / none |" in level_tests.as_markdown(group)
    assert level_tests.NONE in level_tests.as_markdown(group)


def test_what_compares_the_same_runs_again_is_counted_once() -> None:
    one = level_test("500", "auc_within_task", 0.01, 0.6)
    assert "1 of 1 differences" in conclusions.of_verifiers(sweep([one, replace(one, level="8000")]))[2]


def test_without_a_test_nothing_is_said_of_levels() -> None:
    group = sweep([LevelTest("500", "auc_within_task", 2, -0.1, reason="no test: 2 of at least 3 seeds")], seeds=2)
    _, found, hidden = conclusions.of_verifiers(group)
    assert "beside" not in found
    assert "no test (2 seeds, at least 3 are needed)" in hidden


def test_a_rule_that_is_not_beaten_is_named() -> None:
    group = sweep([])
    for cell in group.cells:
        cell.baselines["last_value"]["auc_within_task"] = 0.89
    assert conclusions.of_verifiers(group)[2].endswith(
        "That AUC within task at 8000 lies above last value (0.890) is not shown either."
    )


def test_every_difference_shown() -> None:
    group = sweep(
        [level_test("500", "auc_within_task", -0.1, 0.001), level_test("8000", "auc_within_task", 0.1, 0.001)]
    )
    assert conclusions.of_verifiers(group)[2] == "Not shown: nothing: all 2 differences from 1000 are shown."


def test_words_are_judged_at_the_baseline() -> None:
    cells = tuple(Cell(level, 0, report(0.6, 0.8), {}) for level in ("usual", "other"))
    group = SweepRuns("mixture", "demo", "c0", "mixture", cells, "usual")  # type: ignore[arg-type]
    object.__setattr__(group, "tests", {})
    assert "At usual the best-scored" in conclusions.of_verifiers(group)[1]


def test_a_search_says_which_trials_no_other_beats() -> None:
    rows = [
        {"trial": 0, "best": "", "rate": 0.1, "eval/auc": 0.6},
        {"trial": 1, "best": "yes", "rate": 0.00123456, "eval/auc": 0.71234},
    ]
    spec = SimpleNamespace(
        seeds=[0, 1], search=SimpleNamespace(space={"rate": []}, objectives={"eval/auc": "maximize"})
    )
    varied, found, hidden = conclusions.of_trials(spec, rows)  # type: ignore[arg-type]
    assert varied == "Varied: rate in 2 trials, 2 seeds each; everything else was the same."
    assert found.endswith("than trial 1 (rate=0.00123): eval/auc 0.712.")
    assert "not tested" in hidden


def test_where_to_look_names_the_first_figure_and_the_table(tmp_path: Path) -> None:
    (tmp_path / "rl" / "start").mkdir(parents=True)
    for name in ("differences.png", "rl/start/rl_curves.png"):
        (tmp_path / name).touch()
    look, table = conclusions.where_to_look(tmp_path, "rmlab ui", tmp_path / "table.md")
    assert re.search(r"2 figures in .*, rl/start/rl_curves.png first; the runs: rmlab ui$", look)
    assert table == f"Table: {tmp_path / 'table.md'}"


def test_levels_under_several_arms_are_named_by_arm_and_direction() -> None:
    cells = tuple(
        Cell(level, 0, report(0.5, 0.7), {}, arm)
        for arm in ("drop", "rank_last")
        for level in ("256", "768", "refilter")
    )
    group = SweepRuns("context_length", "demo", "c0", "context_length", cells, "768")  # type: ignore[arg-type]
    tests = {
        ("drop", "256"): level_test("256", "rm_at_k", -0.1, 0.001),
        ("drop", "refilter"): level_test("refilter", "rm_at_k", 0.05, 0.001),
        ("rank_last", "256"): level_test("256", "rm_at_k", -0.2, 0.001),
        ("rank_last", "refilter"): level_test("refilter", "rm_at_k", 0.01, 0.9),
    }
    object.__setattr__(group, "tests", {(arm, level, "rm_at_k"): test for (arm, level), test in tests.items()})
    assert level_words.shown_levels(group, "rm_at_k").text == (
        "RM@16 is lower at 256 under drop and at 256 (by 0.200) under rank_last, and higher at refilter (by 0.050) under drop"
    )
    assert level_words.place(group, "drop", "256") == "256 (drop)"


def test_an_answer_names_each_metric_once() -> None:
    group = sweep(
        [
            level_test("500", "auc_within_task", -0.1, 0.001),
            level_test("500", "rm_at_k", -0.2, 0.001),
            level_test("8000", "rm_at_k", 0.1, 0.001),
        ]
    )
    assert level_words.answer(group) == (
        "Compared with 1000: RM@16 is lower at 500 (by 0.200), and higher at 8000 (by 0.100); AUC within task is lower at 500 (by 0.100)."
    )


TABLE = "| level | AUC |\n|---|---|\n| 500 | 0.700 |\n"


def test_the_long_table_is_in_its_file_unless_more_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    summary_runs._tell("Does it?", TABLE, ["Varied: a", "Table: t.md"])
    assert capsys.readouterr().out == "\nDoes it?\n\nVaried: a\nTable: t.md\n"
    set_verbosity(1)
    try:
        summary_runs._tell("Does it?", TABLE, ["Varied: a"])
    finally:
        set_verbosity(0)
    assert TABLE in capsys.readouterr().out, "Markdown where it goes into a file"


def test_a_terminal_shows_a_table_and_no_pipes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    set_verbosity(1)
    try:
        summary_runs._tell("Does it?", TABLE, ["Varied: a"])
    finally:
        set_verbosity(0)
    out = capsys.readouterr().out
    assert "0.700" in out
    assert "|" not in out


def test_what_the_headline_rests_on_is_a_line_of_its_own_where_it_is_little() -> None:
    group = sweep([])
    assert [line.partition(":")[0] for line in conclusions.of_verifiers(group)] == ["Varied", "Found", "Not shown"]
    for cell in group.cells:
        cell.report["clusters"], cell.report["mixed_tasks"] = 5, 1
    *_, found, _, beware = conclusions.of_verifiers(group)
    assert "AUC within task 0.900 (1 mixed task)" in found
    assert beware.startswith("Beware: Only 5 clusters: intervals from so few are too narrow")
