"""By patch: every value against all draws, one by one."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmlab.metrics import best_of_k as vote
from rmlab.metrics.by_patch import votes
from rmlab.metrics.report import report
from rmlab.metrics.table import table
from rmlab.pages.report_page import report_page
from rmlab.pages.report_tables import show
from rmlab.scores.scores import Scores
from rmlab.verifiers.evaluation import log_report
from tests.metrics.enumeration import best_by_enumeration

nan = float("nan")
attempt = st.tuples(
    st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.3, 0.7, nan]), st.booleans(), st.sampled_from(["a", "b", "c", "d"])
)
attempts = st.lists(attempt, min_size=1, max_size=8)


def weighted_by_enumeration(rows, k):
    """The patch with the largest sum over every subset of k; the sum of no score is below 0, a tie is its mean."""
    label_of = {p: np.mean([y for _, y, q in rows if q == p]) for _, _, p in rows}
    picks = []
    for draw in combinations(rows, min(k, len(rows))):
        sums = {}
        for score, _, patch in draw:
            sums.setdefault(patch, []).append(score)
        total = {p: round(np.nansum(s), 9) if not np.isnan(s).all() else -1.0 for p, s in sums.items()}
        picks.append(np.mean([label_of[p] for p, t in total.items() if t == max(total.values())]))
    return np.mean(picks)


def mean_of_scored(scores):
    scored = [s for s in scores if not np.isnan(s)]
    return round(sum(scored) / len(scored), 12) if scored else nan


def voted(rows, k_J, seed=0):
    score, label, patch = zip(*rows, strict=True)
    _, patch_N = np.unique(patch, return_inverse=True)
    return vote.weighted_vote(np.array(score), np.array(label, dtype=float), patch_N, k_J, np.random.default_rng(seed))


def scores_of(groups, **columns):
    rows = [(f"t{g}", *row) for g, group in enumerate(groups) for row in group]
    task, score, label, patch = zip(*rows, strict=True)
    return Scores.of(task, score, label, patch=patch, **columns)


@settings(max_examples=150, deadline=None)
@given(attempts)
def test_weighted_majority_equals_enumeration(rows):
    k_J = list(range(1, len(rows) + 2))
    value, variance = voted(rows, k_J)
    assert value == pytest.approx([weighted_by_enumeration(rows, k) for k in k_J], abs=1e-12)
    assert not variance.any()


@settings(max_examples=50, deadline=None)
@given(st.lists(attempts, min_size=1, max_size=4))
def test_a_report_is_the_mean_over_tasks_of_what_enumeration_gives(groups):
    found = report(scores_of(groups), replicates=0)
    distinct = [
        [
            (mean_of_scored([s for s, _, q in rows if q == p]), np.mean([y for _, y, q in rows if q == p]))
            for p in sorted({q for *_, q in rows})
        ]
        for rows in groups
    ]
    for k, value in found["rm_at_k_weighted"].items():
        assert value == pytest.approx(np.mean([weighted_by_enumeration(rows, int(k)) for rows in groups]), abs=1e-12)
    for k, value in found["rm_at_k_patches"].items():
        means = [best_by_enumeration(*zip(*rows, strict=True), int(k)) for rows in distinct]
        assert value == pytest.approx(np.mean(means), abs=1e-12)
    won = [
        (a > b) + (a == b) / 2
        for rows in distinct
        for a, y in rows
        for b, z in rows
        if (y, z) == (1, 0) and not np.isnan(a) and not np.isnan(b)
    ]
    assert found["auc_within_task_patches"] == (pytest.approx(np.mean(won), abs=1e-12) if won else None)
    assert found["patches"] == sum(map(len, distinct))
    assert found["mixed_patches"] == sum(0 < y < 1 for rows in distinct for _, y in rows)


def test_copies_of_the_right_patch_win_together_by_hand():
    # One wrong attempt scores best; three copies of the right patch score more together.
    scores = scores_of([[(0.5, 1, "right"), (0.5, 1, "right"), (0.5, 1, "right"), (0.9, 0, "wrong")]])
    found = report(scores, replicates=0)
    assert found["rm_at_k"] == pytest.approx({"1": 0.75, "2": 0.5, "4": 0.0})
    assert found["rm_at_k_weighted"] == pytest.approx({"1": 0.75, "2": 0.5, "4": 1.0})
    assert found["rm_at_k_patches"] == pytest.approx({"1": 0.5, "2": 0.0})
    assert found["auc_within_task_patches"] == 0.0
    assert (found["patches"], found["mixed_patches"]) == (2, 0)
    assert found["rm_at_k_weighted_standard_error"] == {"1": 0, "2": 0, "4": 0}


def test_equal_sums_tie_though_floats_do_not_add_up():
    value, _ = voted([(0.1, 1, "a"), (0.2, 1, "a"), (0.3, 0, "b")], [3])
    assert value == pytest.approx([0.5])


def test_equal_means_tie_though_floats_do_not_add_up():
    mean = [(0.3, 1, "a"), (0.2, 1, "a"), (0.1, 1, "a")]
    found = report(scores_of([[*mean, (0.2, 0, "b")]]), replicates=0)
    assert found["rm_at_k_patches"]["2"] == 0.5
    assert found["auc_within_task_patches"] == 0.5


def test_without_patches_all_is_null_and_without_one_an_attempt_stands_alone():
    found = report(Scores.of(["t"] * 3, [0.1, 0.2, 0.3], [1, 0, 1]), replicates=20)
    for name in ("auc_within_task_patches", "rm_at_k_patches", "rm_at_k_weighted", "patches", "mixed_patches"):
        assert found[name] is None, name
        assert name not in found["ci95"]
    found = report(scores_of([[(0.4, 1, "a"), (0.4, 1, "a"), (0.5, 0, ""), (0.5, 0, "")]]), replicates=0)
    assert found["patches"] == 3
    assert found["rm_at_k_weighted"]["4"] == 1.0


def test_intervals_are_those_of_the_tasks_that_are_really_resampled(make_scores):
    rng = np.random.default_rng(0)
    groups = [[(rng.random(), rng.random() < 0.5, rng.choice(list("abc"))) for _ in range(5)] for _ in range(40)]
    found = report(scores_of(groups), replicates=500)
    for name in ("rm_at_k_patches", "rm_at_k_weighted"):
        for k, (low, high) in found["ci95"][name].items():
            assert low < found[name][k] < high, (name, k)
    low, high = found["ci95"]["auc_within_task_patches"]
    assert low < found["auc_within_task_patches"] < high
    value_G = votes(table(scores_of(groups)))[0][:, -1]
    drawn = rng.choice(value_G, (2000, 40)).mean(axis=1)
    assert found["ci95"]["rm_at_k_weighted"]["5"] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.03)


@pytest.mark.parametrize("sizes", [(15, 1), (8, 8), (12, 2, 1, 1), (1,) * 16, (5, 5, 3, 3)])
def test_sixteen_attempts_are_exact_whatever_the_patches(sizes):
    rng = np.random.default_rng(1)
    patches = [name for name, size in zip("abcdefghijklmnop", sizes, strict=False) for _ in range(size)]
    rows = [(rng.random(), rng.random() < 0.5, patch) for patch in patches]
    value, variance = voted(rows, [1, 2, 3, 16])
    assert value == pytest.approx([weighted_by_enumeration(rows, k) for k in (1, 2, 3, 16)], abs=1e-9)
    assert not variance.any()


def test_where_it_is_too_long_subsets_stand_in_with_their_error(monkeypatch):
    rng = np.random.default_rng(2)
    rows = [(rng.random(), patch == "b", patch) for patch in rng.choice(list("abc"), 14)]
    exact, _ = voted(rows, [1, 2, 7, 14])
    monkeypatch.setattr(vote, "LARGEST_WORK", 0)
    drawn, variance = voted(rows, [1, 2, 7, 14])
    assert drawn[[0, 1, 3]] == pytest.approx(exact[[0, 1, 3]], abs=1e-12)
    assert (variance > 0).tolist() == [False, False, True, False]
    assert drawn[2] == pytest.approx(exact[2], abs=4 * np.sqrt(variance[2]))
    assert voted(rows, [7])[0] == voted(rows, [7])[0]


def test_tables_and_mlflow_show_them(capsys):
    scores = scores_of([[(0.5, 1, "a"), (0.5, 1, "a"), (0.9, 0, "b"), (0.1, 0, "c")], [(0.5, 0, "a"), (0.2, 1, "b")]])
    found = report(scores, replicates=20)
    show("a table", found)
    shown = capsys.readouterr().out
    page = report_page("a table", found, scores)
    for label in ("RM@k of patches", "weighted majority", "the same, by patch"):
        assert label in page
        assert label in " ".join(shown.split()), shown
    logged = []
    log_report(SimpleNamespace(metric=lambda *one: logged.append(one)), "eval", found)
    assert ("eval/auc_within_task_patches", found["auc_within_task_patches"]) in logged
    assert ("eval/rm_at_k_weighted", found["rm_at_k_weighted"]["4"], 4) in logged
