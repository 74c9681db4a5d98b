from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmlab.metrics.best_of_k import rm_at_k_of_groups
from rmlab.metrics.hybrid_selection import kept, select_by_tests
from rmlab.scores.scores import Scores

values = st.sampled_from([0.1, 0.5, 0.9])
attempts = st.lists(st.tuples(values, values, values, st.booleans()), min_size=1, max_size=6)


def as_the_notebook_picks(drawn):
    """R2E-Gym's hybrid for one subset in one order: stable sorts, slices and filters, a mean over what is left."""
    kept_rows = sorted(drawn, key=lambda row: row[:3], reverse=True)[: max(3, int(len(drawn) * 0.5))]
    for column in (1, 2, 0):
        best = max(row[column] for row in kept_rows)
        kept_rows = [row for row in kept_rows if row[column] == best]
    return np.mean([row[3] for row in kept_rows])


def by_enumeration(rows, k):
    """Every subset in every order, since equal rows at the edge of the slice are kept by the order of the draw."""
    picks = []
    for subset in combinations(rows, min(k, len(rows))):
        orders = permutations(subset) if len({row[:3] for row in subset}) < len(subset) else [subset]
        picks.append(np.mean([as_the_notebook_picks(order) for order in orders]))
    return np.mean(picks)


def table(rows, task="t"):
    score, regression, reproduction, label = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    return Scores.of([task] * len(rows), score, label), regression, reproduction


@settings(max_examples=60, deadline=None)
@given(attempts, st.integers(1, 6))
def test_hybrid_equals_enumeration(rows, k):
    found = select_by_tests(*table(rows), k_J=[k])
    assert found.hybrid[str(k)] == pytest.approx(by_enumeration(rows, k), abs=1e-12)
    assert found.execution_free[str(k)] == pytest.approx(
        rm_at_k_of_groups(*np.array([[row[0], row[3]] for row in rows]).T, np.zeros(len(rows), int), [k])[0, 0],
        abs=1e-12,
    )


def test_larger_groups_equal_drawn_subsets():
    rng = np.random.default_rng(0)
    rows = [
        (float(rng.random()), float(rng.integers(3)), float(rng.integers(4)), bool(rng.integers(2))) for _ in range(26)
    ]
    found = select_by_tests(*table(rows), k_J=[1, 11, 16, 26])
    for k in (11, 16):
        drawn = [as_the_notebook_picks([rows[i] for i in rng.choice(26, k, replace=False)]) for _ in range(4000)]
        assert found.hybrid[str(k)] == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / np.sqrt(4000) + 1e-9)
    assert found.hybrid["26"] == as_the_notebook_picks(rows)
    assert found.hybrid["1"] == pytest.approx(np.mean([row[3] for row in rows]))


def test_by_hand():
    # score, regression, generated. All three kept at k = 3: the tests decide; execution_free takes the first.
    rows = [(0.9, 0.0, 1.0, False), (0.5, 1.0, 0.0, False), (0.4, 1.0, 1.0, True)]
    found = select_by_tests(*table(rows), k_J=[3])
    assert (found.execution_free["3"], found.execution_based["3"], found.hybrid["3"]) == (0.0, 1.0, 1.0)
    # At k = 8 the four best scores are kept: what passes every test below them is not picked.
    rows = [(0.9 - i / 100, 0.0, 0.0, False) for i in range(4)] + [(0.1, 1.0, 1.0, True)] * 4
    found = select_by_tests(*table(rows), k_J=[8])
    assert (found.execution_based["8"], found.hybrid["8"], kept(8)) == (1.0, 0.0, 4)


def test_attempts_without_tests_rank_last_and_are_counted():
    scores, regression, reproduction = table([(0.9, 1.0, 1.0, False), (0.5, 0.5, 0.5, True)])
    regression[0] = np.nan
    found = select_by_tests(scores, regression, reproduction, k_J=[2])
    assert (found.untested, found.execution_based["2"], found.hybrid["2"]) == (1, 1.0, 1.0)


def test_several_policies_are_averaged_and_unlabelled_rows_left_out():
    scores = Scores.of(["t"] * 4, [0.9, 0.1, 0.5, 0.4], [1, 0, 0, np.nan], policy=["a", "a", "b", "b"])
    found = select_by_tests(scores, np.ones(4), np.ones(4))
    assert found.hybrid == {"1": 0.25, "2": 0.5}
