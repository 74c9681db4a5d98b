"""pass@1 on each held-out benchmark by what pays, beside the paper's values."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.foretelling import runs as foretelling_runs
from analysis.publication import rl_benchmarks
from analysis.rl.policies import PolicyRun
from tests.analysis.foretelling.made_study import PLAN, made_runs

pytestmark = pytest.mark.usefixtures("small_pictures")


@pytest.fixture(autouse=True)
def plan_of_made_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foretelling_runs, "read_plan", lambda: PLAN)


def judged(folder: Path, blocks: str = "execution_free hybrid distortion") -> list[PolicyRun]:
    """Runs of the study that rose on `new` by as much as their number in hundredths, and fell on `long` by 0.1."""
    runs = made_runs(folder, 0.8, blocks=blocks)
    for number, run in enumerate(runs):
        made: Any = run.run
        for name, tasks, change in (("new", 575, number / 100), ("long", 154, -0.1)):
            ends = {"before": 0.3, "after": 0.3 + change, "difference": change, "tasks": tasks}
            made.files["outcome.json"]["held_out"][name] = {
                way: {"low": change - 1, "high": change + 1, **ends} for way in ("sampled", "greedy")
            }
    return [PolicyRun(run.run) for run in runs]


def test_means_of_an_arm_are_over_its_verifiers(tmp_path: Path) -> None:
    runs = judged(tmp_path)
    arms = rl_benchmarks.arms_of(runs)
    assert [(arm.name, len(arm.runs)) for arm in arms] == [
        ("execution_free", 24),
        ("hybrid", 24),
        ("the good verifier alone, recalibrated", 5),
        ("the good verifier alone, far too high", 5),
    ]
    rows = rl_benchmarks.measured(arms)
    found = {(row["arm"], row["benchmark"]): row for row in rows if row["way"] == "greedy"}
    new, long = found["execution_free", "new"], found["execution_free", "long"]
    places = [run.outcome["held_out"]["new"]["greedy"]["difference"] for run in arms[0].runs]
    assert (new["change"], new["before"]) == (pytest.approx(np.mean(places)), pytest.approx(0.3))
    assert new["value"] == pytest.approx(0.3 + new["change"])
    assert new["change_low"] < new["change"] < new["change_high"]
    assert (long["change_low"], long["change_high"]) == (pytest.approx(-0.1), pytest.approx(-0.1)), "all fall alike"
    assert (new["tasks"], new["runs"], new["units"]) == (575, 24, 24)


def test_the_paper_stands_in_a_panel_and_a_table_of_its_own(tmp_path: Path) -> None:
    paths = rl_benchmarks.draw(judged(tmp_path), tmp_path)
    folder = tmp_path / "rl" / "rl_benchmarks"
    assert {path.name for path in paths} >= {"rl_benchmarks.pdf", "rl_benchmarks.png", "rl_benchmarks_one_column.pdf"}
    with (folder / "rl_benchmarks.csv").open() as file:
        rows = list(csv.DictReader(file))
    paper = [row for row in rows if row["panel"] == "reported"]
    assert {row["arm"] for row in paper} == set(rl_benchmarks.REPORTED)
    assert len(paper) == 14, "two of sixteen are not reported"
    page = (folder / "rl_benchmarks.md").read_text()
    assert page.index("held-out benchmarks of micro-SWE, greedy") < page.index(
        "As SWE-RM (arXiv 2512.21919) reports it"
    )
    assert "| what pays | runs | new (575 tasks) | long (154 tasks) |" in page
    assert "| hybrid | 0.548 | 0.224 | 0.357 | 0.325 |" in page
    assert "| execution-free | - | 0.204 |" in page
    table = (folder / "rl_benchmarks.tex").read_text()
    assert table.count(r"\begin{tabular}{lrr}") == table.count(r"\end{tabular}") == 1
    assert all(line.endswith(r"\\") or line.startswith("\\") for line in table.splitlines())


def test_runs_without_benchmarks_draw_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rl_benchmarks.draw(made_runs(tmp_path, 0.8, blocks="execution_free"), tmp_path) == []
    assert "judged on a held-out benchmark" in capsys.readouterr().err
    assert not (tmp_path / "rl").exists()
