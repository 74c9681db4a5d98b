"""How far a rerun may end from its cell, and whether one that was made did."""

from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis.foretelling.answering import answer
from analysis.foretelling.reruns import RerunSpread, rerun_spread, reruns
from analysis.foretelling.runs import read_study
from analysis.foretelling.tables import markdown
from analysis.rl.policies import PolicyRun
from tests.analysis.foretelling.made_study import PLAN, made_runs, rerun_of

CAUSAL = "distortion unnormalised affine difficulty"


def with_starts_of_their_own(runs: list[PolicyRun]) -> list[PolicyRun]:
    """Every RL seed of the causal experiments begins from weights of its own."""
    for run in runs:
        run.run.tags["start_fingerprint"] += f" {run.run.name[-2:]}"
    return runs


def left_out_of(runs: list[PolicyRun]) -> str:
    """Why the rerun of execution_b is not taken."""
    study = read_study(runs, PLAN)
    [reason] = [reason for name, reason in study.left_out if name == "execution_b_s7_again"]
    return reason


def test_conditions_that_begin_from_several_starts_say_what_a_rerun_changes(tmp_path: Path) -> None:
    study = read_study(with_starts_of_their_own(made_runs(tmp_path, 0.8, blocks=CAUSAL)), PLAN)
    spread = rerun_spread(study)
    assert spread is not None
    assert (spread.conditions, spread.runs, spread.degrees) == (12, 46, 34)
    by_condition: dict[tuple[str, ...], list[float]] = {}
    for run in study.taken.values():
        key = tuple(run.cell[name] for name in ("block", "verifier", "condition"))
        by_condition.setdefault(key, []).append(run.outcome)
    squares = sum(np.var(own) * len(own) for own in by_condition.values())
    assert spread.deviation == pytest.approx(np.sqrt(squares / 34))
    good, poor = (rerun_spread(study, role) for role in ("good", "poor"))
    assert good is not None
    assert poor is not None
    assert (good.conditions, poor.conditions) == (10, 2)
    assert good.deviation**2 * good.degrees + poor.deviation**2 * poor.degrees == pytest.approx(squares)


def test_seeds_of_one_start_say_nothing_of_a_new_one(tmp_path: Path) -> None:
    study = read_study(made_runs(tmp_path, 0.8, blocks=CAUSAL), PLAN)
    assert rerun_spread(study) is None
    assert reruns(study) == []
    assert "A new start" not in markdown(study, answer(study))


def test_the_interval_is_one_of_prediction() -> None:
    half = stats.t.ppf(0.975, 6) * 0.02
    low, high = RerunSpread(0.02, 3, 9).interval({"one start": [0.3], "another": [0.32]})
    assert (low, high) == (pytest.approx(0.31 - half * sqrt(1.5)), pytest.approx(0.31 + half * sqrt(1.5)))
    low, high = RerunSpread(0.02, 3, 9).interval({"one start": [0.3, 0.32]})  # its own deviation is not averaged out
    assert (low, high) == (pytest.approx(0.31 - half * sqrt(2)), pytest.approx(0.31 + half * sqrt(2)))


def test_of_many_independent_reruns_nineteen_in_twenty_end_inside() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(1000):
        seen = rng.normal(0.3, 0.02, size=(4, 3))
        deviation = sqrt(sum(float(np.var(row)) * 3 for row in seen) / 8)
        first, again = rng.normal(0.3, 0.02, size=2)
        low, high = RerunSpread(deviation, 4, 12).interval({"a start": [first]})
        inside += low <= again <= high
    assert 930 <= inside <= 970


@pytest.mark.parametrize(("by", "inside"), [(0.0, True), (0.3, False)])
def test_a_rerun_stands_beside_its_interval(by: float, inside: bool, tmp_path: Path) -> None:
    runs = with_starts_of_their_own(made_runs(tmp_path, 0.8, blocks=f"execution {CAUSAL}"))
    cell = next(run for run in runs if run.run.name == "execution_b_s1")
    outcome = cell.outcome["held_out"]["all"]["sampled"]["after"] + by
    study = read_study([*runs, rerun_of(cell, outcome)], PLAN)
    assert len(study.taken) == 50
    [one] = reruns(study)
    assert (one.name, one.block, one.outcomes, one.inside) == ("execution_b_s7_again", "execution", 2, inside)
    row = next(row for row in answer(study).rows() if row["kind"] == "rerun")
    assert (row["value"], row["low"], row["high"]) == (one.outcome, one.low, one.high)
    said = "inside" if inside else "outside"
    assert f"| execution_b_s7_again | {outcome:.3f}, {said} | " in markdown(study, answer(study))


def test_a_rerun_that_is_not_its_cell_is_left_out_and_named(tmp_path: Path) -> None:
    runs = with_starts_of_their_own(made_runs(tmp_path, 0.8, blocks=f"execution {CAUSAL}"))
    cell = next(run for run in runs if run.run.name == "execution_b_s1")
    assert reruns(read_study([*runs, rerun_of(cell, 0.3, steps="40")], PLAN)) == []
    assert "it has 40 steps, the plan 60" in left_out_of([*runs, rerun_of(cell, 0.3, steps="40")])
    same = rerun_of(cell, 0.3)
    same.run.tags["start_fingerprint"] = cell.run.tags["start_fingerprint"]
    assert "it is no rerun from another start" in left_out_of([*runs, same])
    first, second = rerun_of(cell, 0.3), rerun_of(cell, 0.4)
    second.run.end_time = 1
    second.run.run_id = "later"  # type: ignore[misc]
    assert "an earlier rerun of this name is taken" in left_out_of([*runs, first, second])
