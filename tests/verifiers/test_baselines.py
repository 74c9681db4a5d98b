from dataclasses import replace

import numpy as np
import pytest

from rmlab.scores.majority import majority_at_k
from rmlab.scores.scores import Scores
from rmlab.scores.shape import features, pattern
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import TrajectorySet
from rmlab.verifiers import baselines
from rmlab.verifiers.baselines import baseline_report, score_baselines


@pytest.fixture(autouse=True)
def _own_runs_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))


def attempt(
    task, n, resolved, shown="2", patch="", actions=("run", "submit"), policy="p", expected="2", split="evaluation"
):
    messages = [Message("user", f"f(1) should return {expected} but got 0\n1 def f(x):")]
    for action in actions:
        messages += [Message("assistant", action)] + ([Message("user", f"got {shown}")] if action == "run" else [])
    return Trajectory(
        task_id=task,
        cluster=task,
        source="s",
        policy=policy,
        attempt=n,
        messages=tuple(messages),
        patch=patch,
        exit_status="submitted",
        resolved=resolved,
        split=split,
        extra={"public_passed": shown == expected},
    )


def pool(*trajectories):
    return TrajectorySet(trajectories, {})


EVALUATION = pool(
    attempt("a", 0, True),
    attempt("a", 1, False),
    attempt("a", 2, False, shown="3"),
    attempt("a", 3, None),
    attempt("b", 0, True, policy="q"),
    attempt("b", 1, False, shown="3", policy="q"),
)
VALIDATION = pool(
    *(
        attempt(f"v{i}", n, (i + n) % 3 == 0, actions=["run"] * ((i + n) % 3 + 1), policy=policy, split="validation")
        for i in range(6)
        for n, policy in enumerate(("p", "p", "q"))
    )
)


def test_last_value_compares_what_was_shown_with_what_was_asked():
    scores = score_baselines(EVALUATION, None)["last_value"]
    assert isinstance(scores, Scores)
    assert scores.score.tolist() == [1, 1, 0, 1, 1, 0]


def test_difficulty_is_the_tasks_own_mean_and_ignores_unlabelled_rows():
    scores = score_baselines(EVALUATION, None)["task_difficulty"]
    assert scores.score.tolist() == pytest.approx([1 / 3] * 4 + [1 / 2] * 2)


def test_policy_identity_is_fitted_on_validation():
    scores = score_baselines(EVALUATION, VALIDATION)["policy_identity"]
    rate = {p: np.mean([t.resolved for t in VALIDATION.trajectories if t.policy == p]) for p in "pq"}
    assert scores.score.tolist() == pytest.approx([rate["p"]] * 4 + [rate["q"]] * 2)


def test_without_validation_fitted_baselines_are_null_with_a_reason():
    found = score_baselines(EVALUATION, None)
    for name in ("shape", "length", "policy_identity", "policy_likelihood"):
        assert set(found[name]) == {"reason"}


def test_foreign_trajectories_have_no_last_value_and_say_why():
    foreign = Trajectory(
        task_id="x",
        cluster="x",
        source="s",
        policy="p",
        attempt=0,
        messages=(Message("user", "fix it"),),
        patch=None,
        exit_status="submitted",
        resolved=True,
    )
    found = baseline_report(pool(foreign), None, replicates=0)
    assert "1 attempt names no expected value" in found["last_value"]["reason"]
    assert "no patch" in found["majority"]["reason"]
    assert "not executed" in found["public_execution"]["reason"]


def test_shape_reads_the_pattern_and_nothing_of_the_text():
    one = attempt("a", 0, True, actions=("edit 1: x = 1", "run", "hm", "submit"))
    other = attempt("b", 0, False, actions=("edit 3: y", "run", "well", "submit"), expected="9", patch="p")
    assert pattern(one) == "ER?S"
    assert features(one) == features(other)


def test_shape_finds_a_label_that_shape_gives_away():
    given = baseline_report(VALIDATION, VALIDATION, replicates=0)
    assert given["shape"]["auc_pooled"] == 1.0  # one run = resolved, by construction
    assert given["random"]["auc_pooled"] == 0.5
    assert given["oracle"]["rm_at_k"] == given["oracle"]["pass_at_k"]


def test_the_report_is_computed_once_and_again_for_other_labels(monkeypatch):
    first = baseline_report(EVALUATION, VALIDATION, replicates=20)
    assert first["last_value"]["trajectories"] == 5
    monkeypatch.setattr(baselines, "report", None)  # a second computation would fail
    assert baseline_report(EVALUATION, VALIDATION, replicates=20) == first
    with pytest.raises(TypeError):
        baseline_report(pool(*(replace(t, resolved=True) for t in EVALUATION.trajectories)), VALIDATION, replicates=20)


def test_majority_on_one_task_by_hand():
    # patches A A B C, labels 1 1 0 0: all four drawn -> A; one drawn -> the mean label
    value, error = majority_at_k([("t", "p")] * 4, ["A", "A", "B", "C"], [True, True, False, False], [1, 2, 4])
    assert value["4"] == 1.0
    assert error["4"] == 0.0
    assert value["1"] == pytest.approx(0.5, abs=4 * error["1"])
    # of two drawn: AA (1/6) -> 1; AB, AC (4/6) -> tie, 1/2; BC (1/6) -> 0
    assert value["2"] == pytest.approx(0.5, abs=4 * error["2"])
    assert 0 < error["2"] < 0.02


def test_majority_takes_the_mean_over_policies():
    groups = [("t", "p")] * 2 + [("t", "q"), ("u", "q")]
    value, _ = majority_at_k(groups, ["A", "A", "A", "A"], [True, True, False, False], [2])
    assert value["2"] == 0.5
