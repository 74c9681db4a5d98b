import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from rmlab.baselines import rules
from rmlab.baselines.rules import baseline_report, majority_at_k, score_baselines, table_baselines
from rmlab.baselines.shape import features, pattern
from rmlab.metrics.discrimination import auc
from rmlab.scores.scores import Scores
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import TrajectorySet


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
    monkeypatch.setattr(rules, "report", None)  # a second computation would fail
    assert baseline_report(EVALUATION, VALIDATION, replicates=20) == first
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        baseline_report(pool(*(replace(t, resolved=True) for t in EVALUATION.trajectories)), VALIDATION, replicates=20)


def test_of_several_that_ask_at_once_one_computes(monkeypatch):
    calls, compute = [], rules.score_baselines
    monkeypatch.setattr(rules, "score_baselines", lambda *given: (calls.append(1), time.sleep(0.1), compute(*given))[2])
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: baseline_report(EVALUATION, VALIDATION, replicates=3), range(4)))
    assert len(calls) == 1
    assert found == [found[0]] * 4


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


def noise(n=200, **columns):
    rng = np.random.default_rng(0)
    label = rng.random(n) < 0.5
    return Scores.of([f"t{i // 4}" for i in range(n)], rng.random(n), label, **columns), label


def test_oracles_and_chance_and_reasons():
    found = table_baselines(noise()[0])
    assert found["oracle"]["auc_within_task"] == 1.0
    assert found["random"]["auc_pooled"] == 0.5
    assert found["task_difficulty"]["auc_within_task"] == 0.5
    assert found["task_difficulty"]["auc_between_tasks"] > 0.6
    assert found["policy_identity"] == {"reason": "the table has one policy"}
    assert found["length"] == {"reason": "the table has no n_tokens"}
    for name in ("majority", "shape", "last_value"):
        assert "--trajectories" in found[name]["reason"]


def test_length_and_policy_are_fitted_on_other_clusters():
    table, label = noise()
    lengths = np.where(label, 100.0, 1000.0)
    told = Scores.of(table.task_id, table.score, label, n_tokens=lengths, policy=np.where(label, "good", "bad"))
    found = table_baselines(told)
    assert found["length"]["auc_pooled"] == 1.0
    assert found["policy_identity"]["auc_pooled"] == 1.0
    # One cluster: nothing is left to fit on, and nothing is fitted on what it is judged on.
    alone = table_baselines(
        Scores.of(told.task_id, told.score, label, n_tokens=lengths, policy=told.policy, cluster=["c"] * len(label))
    )
    assert "not both labels to fit on" in alone["length"]["reason"]
    # A label that length tells only within this table does not come back as a fit: noise stays at chance.
    chance = table_baselines(Scores.of(table.task_id, table.score, label, n_tokens=np.arange(200.0)))
    assert chance["length"]["auc_within_task"] == pytest.approx(0.5, abs=0.12)


def test_validation_is_what_is_fitted_on():
    table, label = noise(n_tokens=np.arange(200.0))
    other = Scores.of(
        [f"v{i}" for i in range(40)], [0.5] * 40, np.arange(40) % 2, n_tokens=np.where(np.arange(40) % 2, 10.0, 1000.0)
    )
    found = table_baselines(table, other)  # short attempts are the resolved ones there
    assert found["length"]["auc_pooled"] == pytest.approx(auc(-np.arange(200.0), label.astype(float)))
    assert found["length"]["score_rate"] == 1.0


def test_length_is_one_baseline_whichever_way_the_table_comes():
    # Short answers of many tokens are resolved: by tokens the length tells all, by characters the other way round.
    rows = [attempt(f"t{i}", n, n == 0, actions=["run"] * (1 + n)) for i in range(10) for n in range(2)]
    n_tokens = [100.0 if t.resolved else 10.0 for t in rows]
    table = Scores.of_trajectories(rows, [0.5] * len(rows), n_tokens)
    alone = table_baselines(table)["length"]
    beside = baseline_report(pool(*rows), VALIDATION, replicates=0, scored=table)["length"]
    assert alone == beside
    assert alone["note"] == "logarithm of tokens"
    by_characters = baseline_report(pool(*rows), VALIDATION, replicates=0, scored=Scores.of_trajectories(rows))[
        "length"
    ]
    assert by_characters["note"] == "logarithm of characters"
    assert by_characters["score_rate"] == 1.0
    assert by_characters["auc_pooled"] in (0.0, 1.0)


def test_what_reads_the_table_alone_is_the_same_beside_trajectories():
    rows = EVALUATION.trajectories
    alone = table_baselines(Scores.of_trajectories(rows))
    beside = baseline_report(EVALUATION, VALIDATION, replicates=0)
    for name in ("random", "oracle", "task_difficulty", "majority"):
        assert alone[name] == beside[name], name


def test_a_policy_that_nothing_was_fitted_on_is_named():
    only_p = pool(*(t for t in VALIDATION.trajectories if t.policy == "p"))
    assert score_baselines(EVALUATION, only_p)["policy_identity"] == {
        "reason": "validation has no attempts of policy q"
    }
