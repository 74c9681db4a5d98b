"""Hybrid policies beside one that execution alone paid, from the same weights."""

from pathlib import Path

import numpy as np
import pytest

from analysis.foretelling.answering import answer
from analysis.foretelling.beside_execution import beside_execution
from analysis.foretelling.runs import Study, read_study
from analysis.foretelling.tables import markdown
from analysis.rl.policies import PolicyRun
from rmlab.rl.held_out import compare_policies
from tests.analysis.foretelling.made_study import PLAN, TASKS, made_runs, rerun_of


def set_rates(run: PolicyRun, rates: dict[str, float]) -> PolicyRun:
    run.run.files["held_out.json"]["after"]["new"]["sampled"] = rates  # type: ignore[union-attr]
    return run


def made(folder: Path, worse: float) -> Study:
    """Hybrid runs of start b begin from the weights of the rerun of execution, which solves `worse` more than they do, but for one run;
    those of start a from weights that no run of execution begins from."""
    runs = made_runs(folder, 0.8, blocks="hybrid execution")
    for run in runs:
        if run.run.name.startswith("hybrid"):
            run.run.tags["start_fingerprint"] = "made again" if run.run.tags["start"].endswith("b") else "other"
    rng = np.random.default_rng(0)
    base = {task: 0.3 + 0.01 * (i % 7) for i, task in enumerate(TASKS)}
    hybrids = [run for run in runs if run.run.tags["start_fingerprint"] == "made again"]
    for run in hybrids:
        by = -2 * worse if run is hybrids[0] else worse
        set_rates(run, {task: rate - by + 0.02 * rng.normal() for task, rate in base.items()})
    again = rerun_of(next(run for run in runs if run.run.name == "execution_b_s1"), 0.3)
    return read_study([*runs, set_rates(again, base)], PLAN)


def test_every_hybrid_run_is_paired_by_task_with_the_rerun_from_its_weights(tmp_path: Path) -> None:
    study = made(tmp_path, 0.05)
    assert len(study.again) == 1
    found = beside_execution(study)
    assert list(found) == ["b"]
    one = found["b"]
    assert one.execution == ["execution_b_s7_again"]
    assert set(one.differences) == {run.cell["name"] for run in study.of("hybrid") if run.cell["start"] == "b"}
    for name, difference in one.differences.items():
        by_policies = compare_policies(study.taken[name].policy.run, study.again[0].policy.run, ["two_bugs"])
        assert by_policies["benchmarks"]["all"]["sampled"] == vars(difference)
    assert (len(one.differences), one.below, one.above, one.other_seed) == (12, 11, 1, True)
    assert one.mean == pytest.approx((11 * -0.05 + 0.1) / 12, abs=0.002)
    rows = {row["kind"]: row for row in answer(study).rows() if row["kind"].startswith("beside_execution")}
    assert {kind: (row["value"], row["block"], row["start"], row["n"]) for kind, row in rows.items()} == {
        "beside_execution": (one.mean, "hybrid", "b", 12),
        "beside_execution_below": (11, "hybrid", "b", 12),
        "beside_execution_above": (1, "hybrid", "b", 12),
    }
    text = markdown(study, answer(study))
    assert "Looked at afterwards, beside 1 run of execution with another RL seed (execution_b_s7_again): " in text
    assert f"differs from it by {100 * one.mean:+.1f} points on average; 11 are shown below it and 1 above" in text
    assert "Every one of these differences carries the deviation of that one run." in text


def test_differences_that_are_not_shown_are_counted_on_no_side(tmp_path: Path) -> None:
    one = beside_execution(made(tmp_path, 0.0))["b"]
    assert one.below + one.above <= 2


def test_of_several_runs_of_execution_the_mean_of_each_task_is_taken(tmp_path: Path) -> None:
    study = read_study(made_runs(tmp_path, 0.8, blocks="hybrid execution"), PLAN)
    found = beside_execution(study)
    assert list(found) == ["a", "b"]
    assert found["a"].execution == ["execution_a_s0", "execution_a_s1"]
    assert not found["a"].other_seed
    both = [study.taken[name].rates for name in found["a"].execution]
    name, difference = next(iter(found["a"].differences.items()))
    own = study.taken[name].rates
    expected = np.mean([own[task] - (both[0][task] + both[1][task]) / 2 for task in own])
    assert difference.difference == pytest.approx(expected)
    text = markdown(study, answer(study))
    assert "beside 2 runs of execution (execution_a_s0, execution_a_s1): " in text
    assert "carries what these 2 runs deviate by." in text


def test_without_a_common_start_nothing_is_said(tmp_path: Path) -> None:
    runs = made_runs(tmp_path, 0.8, blocks="hybrid execution")
    for run in runs:
        run.run.tags["start_fingerprint"] += run.run.name[:6]
    study = read_study(runs, PLAN)
    assert beside_execution(study) == {}
    assert "Beside execution" not in markdown(study, answer(study))
