import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmlab.metrics.best_of_k import (
    groups_at_k,
    pass_at_k_of_groups,
    rm_at_k_of_groups,
    rm_curve,
    rm_curve_across,
    sizes_of_k,
)
from rmlab.metrics.table import table
from rmlab.scores.scores import Scores
from tests.metrics.enumeration import best_by_enumeration

nan = float("nan")
attempt = st.tuples(st.sampled_from([0.0, 0.2, 0.2, 0.9, 1.0, nan]), st.booleans())
attempts = st.lists(attempt, min_size=1, max_size=7)


def rm_at_k(score, label, k):
    """Of one task."""
    group = np.zeros(len(score), dtype=int)
    return rm_at_k_of_groups(np.array(score, dtype=float), np.array(label, dtype=float), group, [k])[0, 0]


def pass_at_k(label, k):
    return pass_at_k_of_groups(np.array(label, dtype=float), np.zeros(len(label), dtype=int), [k])[0, 0]


@given(attempts, st.integers(1, 8))
def test_rm_at_k_equals_enumeration(rows, k):
    score, label = zip(*rows, strict=True)
    assert rm_at_k(score, label, k) == pytest.approx(best_by_enumeration(score, label, k), abs=1e-12)


@given(attempts, st.integers(1, 8))
def test_pass_at_k_is_rm_at_k_of_a_perfect_score(rows, k):
    label = [row[1] for row in rows]
    assert pass_at_k(label, k) == pytest.approx(best_by_enumeration(np.array(label, dtype=float), label, k), abs=1e-12)


@given(st.lists(attempts, min_size=1, max_size=5), st.randoms())
def test_groups_at_once_equal_one_by_one_in_any_order(groups, random):
    rows = [(g, *row) for g, group in enumerate(groups) for row in group]
    random.shuffle(rows)
    group, score, label = (np.array(column) for column in zip(*rows, strict=True))
    k = [1, 2, 5]
    together = rm_at_k_of_groups(score, label.astype(float), group, k)
    passing = pass_at_k_of_groups(label.astype(float), group, k)
    for g in range(len(groups)):
        mine = group == g
        assert together[g] == pytest.approx([rm_at_k(score[mine], label[mine], j) for j in k], abs=1e-12)
        assert passing[g] == pytest.approx([pass_at_k(label[mine], j) for j in k], abs=1e-12)


def test_one_attempt_is_pass_at_1_and_all_attempts_is_argmax():
    assert rm_at_k([0.1, 0.9, 0.5], [True, False, True], 1) == pytest.approx(2 / 3)
    assert rm_at_k([0.1, 0.9, 0.5], [True, False, True], 3) == 0.0


def test_two_of_three_by_hand():
    # draws {a,b} {a,c} {b,c} of scores a .1 < c .5 < b .9: best b, c, b; only c of those is resolved
    assert rm_at_k([0.1, 0.9, 0.5], [True, False, True], 2) == pytest.approx(1 / 3)
    assert pass_at_k([True, False, True], 2) == pytest.approx(1.0)
    assert pass_at_k([True, False, False, False], 2) == pytest.approx(1 / 2)


def test_an_unscored_attempt_is_picked_only_among_unscored_ones():
    assert rm_at_k([nan, 0.0], [True, False], 2) == 0.0
    assert rm_at_k([nan, nan], [True, False], 2) == 0.5


def test_many_attempts_keep_precision():
    rng = np.random.default_rng(0)
    label = rng.random(1000) < 0.3
    assert rm_at_k(label.astype(float), label, 200) == pytest.approx(1.0, abs=1e-9)
    assert rm_at_k(np.zeros(1000), label, 200) == pytest.approx(label.mean(), abs=1e-9)


def test_sizes_are_powers_of_two_and_the_most():
    assert sizes_of_k(1) == [1]
    assert sizes_of_k(8) == [1, 2, 4, 8]
    assert sizes_of_k(12) == [1, 2, 4, 8, 12]
    assert sizes_of_k(0) == []


def test_policies_are_averaged_and_selection_across_them_has_its_own_name():
    # Policy a always resolves and scores .2, policy b never does and scores .8: telling them apart must not help, or hurt.
    scores = Scores.of(["t"] * 4, [0.2, 0.2, 0.8, 0.8], [1, 1, 0, 0], policy=["a", "a", "b", "b"])
    assert rm_curve(table(scores), [1, 2]) == pytest.approx([0.5, 0.5])
    assert rm_curve_across(table(scores), [4]) == [0.0]


def test_a_policy_counts_once_however_many_tasks_it_has():
    scores = Scores.of(["t", "u", "v", "t"], [0.5] * 4, [1, 1, 1, 0], policy=["a", "a", "a", "b"])
    assert rm_curve(table(scores), [1]) == pytest.approx([0.5])


def test_groups_at_k():
    assert groups_at_k(np.array([0, 0, 0, 1, 2, 2]), [1, 2, 3]) == [3, 2, 1]
