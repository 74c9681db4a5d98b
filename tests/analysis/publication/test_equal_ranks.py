"""The figure of one verifier paid in two ways of equal ranks."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.foretelling.causal import causal
from analysis.foretelling.runs import PaidRun, Study, read_study
from analysis.presentation import style
from analysis.publication import equal_ranks
from rmlab.errors import DataError
from tests.analysis.foretelling.made_study import PLAN, made_runs
from tests.analysis.publication.test_paper_figures import Trained, scores

pytestmark = pytest.mark.usefixtures("small_pictures")
SHIFTS = {"recalibrated": 0.0, "shifted_far_up": 3.0}


def made_study(folder: Path) -> Study:
    """Five RL seeds of the distortions, the last two of one training; scores shifted far up cost 8 points of pass@1, and so end lower."""
    study = read_study(made_runs(folder, 0.8, blocks="distortion"), PLAN)
    taken = dict(study.taken)
    for name, run in study.taken.items():
        made: Any = run.policy.run
        condition, training = run.cell["condition"], f"training {min(int(run.cell['seed']), 3)}"
        made.tags |= {"verifier_fingerprint": training, "start_fingerprint": training}
        lower = 0.08 * (condition == "shifted_far_up")
        paired = made.files["outcome.json"]["held_out"]["all"]["sampled"]
        paired |= {"after": paired["after"] - lower, "low": 0.01 - lower, "high": 0.05 - lower}
        for rates in (made.files["held_out.json"]["after"]["new"]["sampled"],):
            rates |= {task: rate - lower for task, rate in rates.items()}
        made.files["config.yaml"]["reward"]["transform"] = {"slope": 0.7, "shift": SHIFTS.get(condition, 1.0)}
        made.files["paid_report.json"] |= {"ece_width_10": 0.4 if lower else 0.03}
        trained: Any = Trained("v", training, {}, {}, {"scores.parquet": scores(1.5, 1)}, folder)
        taken[name] = PaidRun(run.cell, replace(run.policy, paid_by=trained))
    return replace(study, taken=taken)


def condition(study: Study, name: str) -> list[PaidRun]:
    return [run for run in study.of("distortion") if run.cell["condition"] == name]


def test_two_conditions_of_equal_ranks_are_drawn_with_the_numbers_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = made_study(tmp_path)
    monkeypatch.setattr(equal_ranks, "read_study", lambda runs: study)
    paths = equal_ranks.draw([], tmp_path / "out")
    ends = (".pdf", ".png", ".csv", "_one_column.pdf", ".caption.md", ".caption.tex")
    assert {path.name for path in paths} == {f"equal_ranks{end}" for end in ends}
    with next(path for path in paths if path.suffix == ".csv").open() as file:
        rows = list(csv.DictReader(file))
    points: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        points.setdefault(f"{row['panel']} {row['condition']}", []).append((row["x"], row["y"]))
    for panel in ("rm_at_k", "roc"):
        assert points[f"{panel} recalibrated"] == points[f"{panel} shifted_far_up"], "ranks are equal"
    for panel in ("reliability", "resolved", "unresolved"):
        assert points[f"{panel} recalibrated"] != points[f"{panel} shifted_far_up"]
    [mean] = [row["y"] for row in rows if (row["panel"], row["seed"], row["x"]) == ("pass_at_1", "mean", "1")][1:]
    after = float(np.mean([run.outcome for run in condition(study, "shifted_far_up")]))
    assert float(mean) == pytest.approx(after)
    assert len({row["seed"] for row in rows if row["panel"] == "pass_at_1"}) == 6
    expected = causal(study)[equal_ranks.COMPARISON]
    [difference] = [row for row in rows if row["panel"] == "difference"]
    assert [float(difference[name]) for name in ("y", "low", "high")] == pytest.approx(
        [expected.difference, expected.low, expected.high]
    )
    text = next(path for path in paths if path.name.endswith("caption.md")).read_text()
    assert "recalibrated (ECE 0.03) or shifted far up (ECE 0.40; on the frozen pool" in text
    assert f"; shifted far up {after:.3f}, 5 of 5 below their starts (95 %" in text
    words = f"{100 * expected.difference:+.1f} [{100 * expected.low:+.1f}, {100 * expected.high:+.1f}] points"
    assert f"The difference is {words} (90 %, over RL seeds" in text
    assert "are of the training that pays RL seed 0." in text
    assert (
        "n = 5 RL seeds (0, 1, 2, 3, 4) of each; one verifier (4 trainings) and one start (4 sets of weights)" in text
    )
    assert "Offline: 480 attempts at 30 tasks." in text


def test_panels_say_what_is_equal_and_what_became_of_the_policies(tmp_path: Path) -> None:
    study = made_study(tmp_path)
    for run in condition(study, "shifted_far_up")[:2]:
        run.policy.outcome["held_out"]["all"]["sampled"] |= {"low": -0.01, "high": 0.02}
    found = equal_ranks.compared(study)
    assert found is not None
    with style.figure(2, 3, 2, 2) as (_, axes):
        equal_ranks._panels(axes.flat, found)
        best, roc, reliable, *distributions, policy = axes.flat
        value = found.both[0].runs[0].policy.verifier_report["rm_at_k"]["16"]
        assert [text.get_text() for text in best.texts] == [f"k = 16:\n{value:.3f} in both"]
        assert [text.get_text() for text in policy.texts] == [
            "recalibrated:\n5 of 5 above start",
            "shifted far up:\n3 of 5 below start",
        ]
        titles = ["best of k: equal", "ROC curve: equal", "calibration: not equal"]
        assert [axis.get_title() for axis in (best, roc, reliable)] == titles
        assert policy.get_title() == f"{-100 * found.difference.difference:.1f} points apart"
        assert [axis.get_title() for axis in distributions] == ["recalibrated, ECE 0.03", "shifted far up, ECE 0.40"]
        over, under = best.lines[:2]
        assert under.get_linewidth() > over.get_linewidth()
        assert under.get_zorder() < over.get_zorder(), "both are seen"


def test_a_rank_that_moved_or_a_report_that_differs_is_an_error(tmp_path: Path) -> None:
    study = made_study(tmp_path)
    last: Any = condition(study, "shifted_far_up")[-2].policy.run
    last.files["paid_report.json"]["rm_at_k"]["16"] += 0.01
    with pytest.raises(DataError, match="report another rm_at_k at equal ranks"):
        equal_ranks.compared(study)
    last.files["config.yaml"]["reward"]["transform"]["slope"] = -1.0
    with pytest.raises(DataError, match=r"attempts of 480 have other ranks in the scores that run .* pays"):
        equal_ranks.compared(study)


def test_without_three_seeds_or_a_score_table_it_says_so_and_draws_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert equal_ranks.draw([], tmp_path) == []
    said = capsys.readouterr().err
    assert said.startswith("equal_ranks: no 3 RL seeds of which_metric_foretells_rl have one verifier paid as recalib")
    assert said.count("\n") == 1
    whole = made_study(tmp_path)
    few = {name: run for name, run in whole.taken.items() if run.policy.seed < 2}
    bare = {name: PaidRun(run.cell, replace(run.policy, paid_by=None)) for name, run in whole.taken.items()}
    for taken in (few, bare):
        study = replace(whole, taken=taken)
        monkeypatch.setattr(equal_ranks, "read_study", lambda runs, study=study: study)
        assert equal_ranks.draw([], tmp_path) == []
        assert capsys.readouterr().err == said
