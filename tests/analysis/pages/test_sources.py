"""Every number of README and of the study pages has a mark, and says what its source says; one altered digit is found."""

import csv
import random
import re
import runpy
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import mean

import pytest
import yaml

from analysis.pages import blocks as page_blocks
from analysis.pages import mark_numbers
from analysis.pages.blocks import blocks
from analysis.pages.sources import STUDIES, agrees, check, checked, marks_of, page_key, pages
from rmlab.paths import REPOSITORY

PAGE = """# Two levels

**Answer.** At 4,000 trajectories AUC is 0.71 (run `abc --k 8`, [arXiv 2512.21919](https://arxiv.org/abs/2512.21919), H200), p < 0.001;
a sixth of 3e-5.

| level | seeds | AUC within task | cost |
|---|---|---|---|
| 4:1 | 3 | 0.712 [0.690, 0.731] | 14 |
| *random* | | 0.500 | |

    rmlab figures --k 5
"""
MARKS = {
    "**Answer.** At #,# trajectories AUC is #": [
        {"design": "4,000"},
        {"table.csv level=4:1": "auc_within_task p"},
        {"once": "3e-5"},
    ],
    "| level | seeds | AUC within task | cost": [{"table": "table.csv"}, {"once": "14"}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "table.csv").write_text(
        "level,seeds,auc_within_task,auc_within_task_low,auc_within_task_high,p\n"
        "4:1,3,0.7123,0.69,0.7311,0.00002\nrandom,,0.5,,,\n"
    )
    return tmp_path


def wrong(folder: Path, text: str = PAGE, marks: dict = MARKS) -> list[str]:
    return [one.wrong for one in check(folder, text, marks) if one.wrong]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_number_of_a_page_is_marked_and_agrees_with_its_source(page: Path) -> None:
    assert [f"{one.block}: {one.wrong}" for one in checked(page) if one.wrong] == []


@pytest.mark.parametrize("digits", [4, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_one_altered_digit_is_found(page: Path, digits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_blocks, "_tokens", cache(page_blocks._tokens))  # only one line of a page is another one
    text, (path, marks) = page.read_text(encoding="utf-8"), marks_of(page)
    tokens = [token for block in blocks(text) for token in block.tokens]
    draw = random.Random(0)
    for token in draw.sample(tokens, min(digits, len(tokens))):
        at = token.start + draw.choice([i for i, sign in enumerate(token.text) if sign.isdigit()])
        # by two or more: of a value that lies half way, the page may show either neighbour
        altered = text[:at] + str((int(text[at]) + draw.randint(2, 8)) % 10) + text[at + 1 :]
        assert any(one.wrong for one in check(path.parent, altered, marks[page_key(page)])), altered[at - 60 : at + 20]


def test_a_page_that_agrees_has_nothing_wrong(folder):
    assert wrong(folder) == []
    kinds = [one.kind for one in check(folder, PAGE, MARKS)]
    assert len(kinds) == 11
    assert kinds.count("once") == 2


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("0.71 (", "0.72 (", "0.72, where table.csv level=4:1: auc_within_task is 0.7123"),
        ("4,000", "5,000", "5,000, marked as design: 4,000"),
        ("0.731]", "0.732]", "0.732, where table.csv level=4:1: auc_within_task_high is 0.7311"),
        ("| 0.500", "| 0.501", "0.501, where table.csv level=random: auc_within_task is 0.5"),
        ("| 4:1", "| 4:2", "4:2, marked as once: 14"),
        ("p < 0.001", "p = 0.001", "0.001, where table.csv level=4:1: p is 2e-05"),
        ("a sixth of 3e-5", "a sixth of 3e-5 and 7", "7 has no mark"),
        ("a sixth of 3e-5", "a sixth", "'once: 3e-5' has no number"),
        ("**Answer.** At", "**Result.** At", "no block with a number begins like this"),
    ],
)
def test_what_does_not_agree_is_named(folder, old, new, words):
    assert words in wrong(folder, PAGE.replace(old, new))


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ({"gone.csv": "a"}, "gone.csv is not there"),
        ({"table.csv": "auc_within_task"}, "2 rows, 2 with a value"),
        ({"table.csv level=4:1": "auc"}, "'auc'"),
        ({"table.csv level=4:1": "in(p)"}, "which number? in(COLUMN@2) is the second"),
        ({"derived": "9.5-1"}, "9.5, 1 is not on the page"),
        ({"guess table.csv": "p"}, "guess is not there"),
    ],
)
def test_a_mark_that_names_nothing_is_an_error_with_its_number(folder, mark, words):
    [text] = wrong(folder, "It is 0.712.\n", {"It is #.#.": [mark]})
    assert text.startswith("0.712: ")
    assert words in text


def test_expressions(folder):
    (folder / "notes.csv").write_text('run,result\na,"sampled 0.221 to 0.286, of 1,024"\n')
    (folder / "found.json").write_text('{"tests": [{"p": 0.25}]}')
    text = "From 50 to 71.2, 0.221 and 28.6 of 1,024: -0.5, 25, 0.065.\n"
    entries = [
        {"table.csv": "min(auc_within_task)*100 max(auc_within_task)*100"},
        {"notes.csv run=a": "in(result@1) in(result@2)*100 in(result@of.1)"},
        {"table.csv level=random": "-auc_within_task"},
        {"found.json": "tests.0.p*100"},
        {"derived": "(28.6/100)-0.221"},
    ]
    assert wrong(folder, text, {"From # to #.#, #.# and #.# of #,#: -#.#,": entries}) == []


def test_columns_of_a_table_are_found_by_their_headings(folder):
    (folder / "table.csv").write_text(
        "level,seeds,rm_at_16,rm_at_16_weighted,ece_width_10\n1:4,5,0.6062,0.7462,0.1837\n"
    )
    page = "| ratio | seeds | RM@16 | RM@16 by sum of scores | ECE |\n|---|---|---|---|---|\n| 1:4 | 5 | 0.606 | 0.746 | 0.184 |\n"
    marks = {"| ratio | seeds | RM@# | RM@# by sum of": [{"table": "table.csv"}]}
    assert wrong(folder, page, marks) == []
    [text] = wrong(folder, page.replace("0.746", "0.745"), marks)
    assert text == "0.745, where table.csv level=1:4: rm_at_16_weighted is 0.7462"


def test_rounding_is_from_the_value_and_not_from_a_rounded_one():
    assert agrees("0.21", 0.21484)
    assert not agrees("0.22", 0.2148)
    assert not agrees("0.22", 0.21484)
    assert agrees("-0.062", -0.0625)
    assert agrees("-0.063", -0.0625)
    assert agrees("3e-5", 2.9e-5)
    assert agrees("1,024", 1024.3)


def test_new_marks_and_new_values(folder):
    page = folder / "README.md"
    page.write_text(PAGE)
    assert mark_numbers.mark(page) == 5
    marks = marks_of(page)[1]["README.md"]
    assert marks["| level | seeds | AUC within task | cost"] == [{"table": "table.csv"}, {"design": "14"}]
    page.write_text(PAGE.replace("0.712 [", "0.699 ["))
    assert mark_numbers.write(page) == 1
    assert page.read_text() == PAGE


def test_a_number_without_a_source_that_a_table_has_is_listed(folder, monkeypatch):
    page = folder / "README.md"
    page.write_text("Of 4,000 attempts 0.712 are ranked right; 0.713 elsewhere.\n")
    (folder / "numbers.yaml").write_text(
        "README.md: {'Of #,# attempts #.# are ranked right; #.': [design: '4,000 0.712', once: '0.713']}"
    )
    monkeypatch.setattr(mark_numbers, "pages", lambda: [page])
    monkeypatch.setattr(mark_numbers, "REPOSITORY", folder.parent)
    [line] = mark_numbers.sourced()
    assert line.endswith("design 0.712: table.csv level=4:1: auc_within_task")


def test_a_table_that_changed_is_marked_anew(folder):
    page = folder / "README.md"
    page.write_text(PAGE.replace("| 14 |", "| 15 |"))
    (folder / "numbers.yaml").write_text(yaml.safe_dump({"README.md": MARKS}))
    assert wrong(folder, page.read_text()) == ["15, marked as once: 14"]
    assert mark_numbers.mark(page) == 1
    assert marks_of(page)[1]["README.md"] == MARKS | {
        "| level | seeds | AUC within task | cost": [{"table": "table.csv"}, {"design": "15"}]
    }


def test_marks_of_a_table_outlive_new_values(folder):
    """Else the marks that somebody gave its cells would be lost, and the next `write` could not put the values in."""
    page, new = folder / "README.md", PAGE.replace("0.712 [", "0.699 [")
    page.write_text(new)
    (folder / "numbers.yaml").write_text(yaml.safe_dump({"README.md": MARKS}))
    assert len(wrong(folder, new)) == 1
    assert mark_numbers.mark(page) == 0
    assert marks_of(page)[1]["README.md"] == MARKS
    assert mark_numbers.write(page) == 1
    assert page.read_text() == PAGE


def test_shown_keeps_digits_sign_and_commas():
    assert [mark_numbers.shown(-0.0001, "+0.123"), mark_numbers.shown(1234.5, "1,000")] == ["+0.000", "1,234"]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "study", sorted(p.parent.name for p in STUDIES.glob("*/runs.csv") if p.with_name("table.csv").exists())
)
def test_the_table_of_a_study_is_the_mean_of_its_runs(study):
    runs = defaultdict(list)
    for run in _rows(STUDIES / study / "runs.csv"):
        runs[run.get("arm", ""), run["level"]].append(run)
    rows = [row for row in _rows(STUDIES / study / "table.csv") if row["seeds"]]
    assert {(row["arm"], row["level"]) for row in rows} == set(runs)
    for row in rows:
        of_level = runs[row["arm"], row["level"]]
        assert int(row["seeds"]) == len(of_level)
        for name in set(row) & set(of_level[0]) - {"arm", "level", "seed"}:
            assert float(row[name]) == pytest.approx(mean(float(run[name]) for run in of_level), rel=1e-4), name


def test_the_comparison_with_execution_is_computed_from_the_tables_that_stand_beside_it():
    folder = STUDIES / "policy_rl"
    fresh = runpy.run_path(str(folder / "against_execution.py"))["rows"]()
    for row, shipped in zip(fresh, _rows(folder / "rewards" / "against_execution.csv"), strict=True):
        assert list(row) == list(shipped)
        for name, value in row.items():
            assert value == (pytest.approx(float(shipped[name])) if isinstance(value, float) else shipped[name]), name
    hybrids = [row for row in fresh if row["reward"] == "hybrid"]
    assert sorted(row["p_holm"] <= 0.05 for row in hybrids) == [False] + [True] * 5
    assert max(row["p"] for row in hybrids if row["p_holm"] <= 0.05) == pytest.approx(0.0022, abs=5e-5)


def test_what_relation_says_was_gained_is_in_the_table_of_runs():
    folder = STUDIES / "policy_rl" / "rewards"
    gained = defaultdict(list)
    for run in _rows(folder / "rl_table.csv"):
        gained[run["arm"]].append(float(run["sampled_difference"]))
    for row in _rows(folder / "relation.csv"):
        reward, evidence, rest = row["arm"].partition(" (")
        arm = f"{reward}, {row['verifier']}{evidence}{rest}"
        assert float(row["pass@1 gained"]) == pytest.approx(mean(gained[arm]), abs=1e-9), arm


@pytest.mark.parametrize("study", sorted(p.parent.name for p in STUDIES.glob("*/differences.csv")))
def test_the_table_of_a_study_has_the_differences_of_its_figure(study):
    rows = {(row["arm"], row["level"]): row for row in _rows(STUDIES / study / "table.csv")}
    [curve] = {
        re.match(r"rm_at_\d+(?=_difference)", name)[0]
        for row in rows.values()
        for name in row
        if "rm_at" in name and name.endswith("_difference")
    }  # type: ignore[index]
    names = {"rm_at_k": curve, "auc_within_task": "auc_within_task", "ece_width_10": "ece_width_10"}
    for test in _rows(STUDIES / study / "differences.csv"):
        row = rows[test["arm"], test["level"]]
        for column in ("difference", "p_holm", "verdict"):
            assert row[f"{names[test['metric']]}_{column}"] == test[column]


def test_the_table_of_rl_runs_has_the_last_gaps_of_its_figure():
    folder = STUDIES / "policy_rl" / "rewards"
    drawn = {
        row["run_id"]: row for row in _rows(folder / "rl_curves.csv") if row["panel"] == "hacking_gap"
    }  # the last step
    for run in _rows(folder / "rl_table.csv"):
        shown = [drawn[run["run_id"]][name] for name in ("value", "low", "high")]
        assert [float(value) for value in shown] == pytest.approx(
            [float(run[name]) for name in ("hacking_gap", "hacking_gap_low", "hacking_gap_high")]
        )
