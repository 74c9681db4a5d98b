import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from rmlab.metrics.discrimination import discrimination, pairs_in_groups
from rmlab.metrics.table import table
from rmlab.scores.scores import Scores

row = st.tuples(st.sampled_from("abcd"), st.sampled_from([0.0, 0.1, 0.5, 0.5000001, 1.0]), st.booleans())


def by_pairs(rows, same_task):
    """Share of pairs (resolved, unresolved) that the resolved one wins, a tie half; same_task: None = any two tasks."""
    won = [
        (s > u) + (s == u) / 2
        for t, s, y in rows
        if y
        for v, u, z in rows
        if not z and (same_task is None or (t == v) == same_task)
    ]
    return np.mean(won) if won else float("nan")


@given(st.lists(row, min_size=1, max_size=25))
def test_equals_enumeration_and_the_identity_holds(rows):
    task, score, label = zip(*rows, strict=True)
    found = discrimination(table(Scores.of(task, score, label)))
    for value, same_task in ((found.pooled, None), (found.within_task, True), (found.between_tasks, False)):
        assert value == pytest.approx(by_pairs(rows, same_task), abs=1e-12, nan_ok=True)
    if not np.isnan(found.pooled):
        w = found.within_pair_share
        parts = [(w, found.within_task), (1 - w, found.between_tasks)]
        assert found.pooled == pytest.approx(sum(share * auc for share, auc in parts if share > 0), abs=1e-12)


def test_pooled_is_scikit_learn(make_scores):
    scores = make_scores(3, missing=0.0)
    assert discrimination(table(scores)).pooled == pytest.approx(roc_auc_score(scores.resolved, scores.score))


def test_one_task_within_is_scikit_learn_per_task(make_scores):
    scores = make_scores(4, tasks=1, attempts=40, missing=0.0)
    assert discrimination(table(scores)).within_task == pytest.approx(roc_auc_score(scores.resolved, scores.score))


def test_a_score_that_only_knows_the_task_is_half_within_and_good_pooled():
    rng = np.random.default_rng(0)
    difficulty = np.repeat(rng.random(400), 10)
    task = np.repeat([f"t{i}" for i in range(400)], 10)
    found = discrimination(table(Scores.of(task, difficulty, rng.random(4000) < difficulty)))
    assert found.within_task == 0.5
    assert found.pooled == pytest.approx(0.83, abs=0.02)  # uniform difficulty


def test_a_score_that_tells_policies_apart_gains_nothing_within_tasks():
    # a resolves and scores high, b does not: pooled 1, per (task, policy) no pair at all
    scores = Scores.of(["t", "t", "u", "u"], [0.9, 0.1, 0.9, 0.1], [1, 0, 1, 0], policy=["a", "b", "a", "b"])
    found = discrimination(table(scores))
    assert found.pooled == 1.0
    assert np.isnan(found.within_task)
    assert found.within_task_across == 1.0
    assert (found.mixed, found.pairs) == (0, 0)


def test_policies_are_averaged_where_defined():
    scores = Scores.of(
        ["t"] * 6, [0.9, 0.1, 0.1, 0.9, 0.5, 0.5], [1, 0, 1, 0, 1, 1], policy=["a", "a", "b", "b", "c", "c"]
    )
    found = discrimination(table(scores))
    assert found.within_task == 0.5  # a: 1, b: 0, c: no pair
    assert found.mixed == 2


def test_groups_without_rows_have_no_pairs():
    pairs = pairs_in_groups(np.array([0.2, 0.8]), np.array([0.0, 1.0]), np.array([2, 2]), 4)
    assert pairs.all_G.tolist() == [0, 0, 1, 0]
    assert pairs.won_G.tolist() == [0, 0, 1, 0]
    assert np.isnan(pairs_in_groups(np.zeros(0), np.zeros(0), np.zeros(0, dtype=int), 2).auc)
