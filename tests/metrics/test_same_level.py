import numpy as np
import pytest

from rmlab.errors import DataError
from rmlab.metrics.same_level import same_level
from rmlab.metrics.sweep_levels import FAMILY, compare_levels
from rmlab.scores.scores import Scores


def tables(number, tasks=25, attempts=5, shift=0.0):
    """Score tables of one level, one a seed; shift: what the second half's seeds do better."""
    rng = np.random.default_rng(7)
    task = np.repeat(np.arange(tasks), attempts)
    label = (rng.random(len(task)) < rng.random(tasks)[task]).astype(float)
    shared = rng.normal(0, 0.7, len(task))
    found = []
    for seed in range(number):
        slope = 1 + rng.normal(0, 0.3) + (shift if seed >= number // 2 else 0)
        linear = slope * (label - 0.5) + shared + rng.normal(0, 0.5, len(task))
        found.append(Scores.of([f"t{t}" for t in task], 1 / (1 + np.exp(-linear)), label))
    return found


def test_the_declared_split_is_first_half_against_second_and_all_others_come_once():
    eight = tables(8)
    found = same_level(eight, replicates=100)
    assert (found.seeds, found.splits) == (8, 35)
    by_hand = compare_levels(eight[:4], {"second half": eight[4:]}, replicates=100)
    assert [(t.metric, t.difference, t.p) for t in found.declared] == [(t.metric, t.difference, t.p) for t in by_hand]
    assert set(found.rejected) == set(FAMILY)
    assert all(
        0 <= share <= 1 and (share * 35) == pytest.approx(round(share * 35)) for share in found.rejected.values()
    )


def test_seeds_that_do_differ_are_found():
    found = same_level(tables(8, shift=6.0), replicates=100)
    assert {t.metric: t.shown for t in found.declared}["auc_within_task"]
    assert found.rejected["auc_within_task"] > 0


def test_an_odd_seed_is_left_out_and_too_few_are_refused():
    assert same_level(tables(7), replicates=20).splits == 10
    with pytest.raises(DataError, match="5 seeds do not make two halves of at least 3"):
        same_level(tables(5))
