import numpy as np
import pytest
from scipy import stats

from rmlab.errors import DataError
from rmlab.metrics.sweep_levels import (
    LevelTest,
    Spread,
    _tested,
    compare_levels,
    detectable_difference,
    distinct,
    holm,
    seed_variance,
    spread,
)
from rmlab.scores.scores import Scores


def sweep(seed, levels=1, seeds=3, tasks=40, attempts=6, seed_effect=0.5, interaction=0.5, gain=0.0):
    """Baseline and levels: score tables of one set of labels, with effects of tasks, seeds and tasks × seeds on the score's slope."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(tasks), attempts)
    label = (rng.random(len(task)) < rng.random(tasks)[task]).astype(float)
    task_effect, shared = rng.normal(0, 0.7, tasks), rng.normal(0, 0.7, len(task))
    names = [f"t{t:03d}" for t in task]

    def table(extra):
        slope = 1 + extra + rng.normal(0, seed_effect) + task_effect + rng.normal(0, interaction, tasks)
        linear = slope[task] * (label - 0.5) + shared + rng.normal(0, 0.5, len(task))
        return Scores.of(names, 1 / (1 + np.exp(-linear)), label, cluster=names)

    return [table(0.0) for _ in range(seeds)], {
        f"level {i}": [table(gain) for _ in range(seeds)] for i in range(levels)
    }


def test_fewer_than_three_seeds_is_no_test():
    baseline, levels = sweep(0, seeds=2)
    found = compare_levels(baseline, levels)
    assert [test.metric for test in found] == ["rm_at_k", "auc_within_task", "ece_width_10"]
    for test in found:
        assert test.p is None
        assert test.p_holm is None
        assert test.difference is not None
        assert test.reason == "no test: 2 of at least 3 seeds"
        assert not test.shown


def test_a_level_that_is_the_baseline_does_not_differ():
    baseline, _ = sweep(1)
    found = compare_levels(baseline, {"same": baseline}, replicates=50)
    assert {(test.difference, test.reason) for test in found} == {(0.0, "no test: nothing varies")}


def test_a_clear_gain_is_shown_with_its_interval():
    baseline, levels = sweep(2, seeds=4, levels=2, seed_effect=0.1, gain=2.0)
    found = {(test.level, test.metric): test for test in compare_levels(baseline, levels, replicates=300)}
    test = found["level 0", "auc_within_task"]
    assert test.shown
    assert 0 < test.ci95[0] < test.difference < test.ci95[1]
    assert test.p <= test.p_holm


def test_without_an_interaction_variances_are_those_by_hand():
    # two clusters weightings drawn, three seeds whose differences move alike: interaction 0
    drawn = np.array([[0.1, 0.3, 0.2], [0.2, 0.4, 0.3], [0.3, 0.5, 0.4]])
    found = spread(np.array([0.2, 0.3, 0.4]), drawn, clusters=10)
    assert found.interaction == pytest.approx(0.0)
    assert found.by_clusters == pytest.approx(0.01)
    test = _tested(LevelTest("l", "m", 3, 0.3), {"l": found})
    total = 0.01 / 3 + 0.01
    assert test.error == pytest.approx(np.sqrt(total))
    assert test.degrees == pytest.approx(total**2 / ((0.01 / 3) ** 2 / 2 + 0.01**2 / 9))
    assert test.p == pytest.approx(2 * stats.t.sf(0.3 / np.sqrt(total), test.degrees))


def test_what_other_seeds_would_show_too_is_not_counted_twice():
    # independent differences: by_clusters is all interaction, only the seeds' variance is left
    rng = np.random.default_rng(0)
    drawn = rng.normal(0, 0.1, (3, 20_000))
    found = spread(np.array([0.0, 0.1, -0.1]), drawn, clusters=10)
    assert found.by_clusters == pytest.approx(0.01 / 3, rel=0.05)
    assert found.interaction == pytest.approx(0.01 / 3, rel=0.05)


def test_variance_is_pooled_over_levels_unless_the_own_is_larger():
    alike = [np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 4.0])]
    variance, degrees = seed_variance(alike, alike[0])
    assert variance == pytest.approx((1 + 7 / 3) / 2)
    assert degrees == pytest.approx(2 * 2 / 1.25)
    assert seed_variance(alike, alike[1]) == (pytest.approx(7 / 3), pytest.approx(2 * 2 / 1.25))
    unlike = [np.array([0.0, 1.0, 2.0]), np.array([0.0, 5.0, 10.0])]  # variances 1 and 25, pooled 13
    assert seed_variance(unlike, unlike[1]) == (pytest.approx(25.0), 2.0)
    assert seed_variance(unlike, unlike[0]) == (pytest.approx(13.0), pytest.approx(2 * 2 / 1.25))
    assert seed_variance(alike[:1], alike[0]) == (1.0, 2.0)
    lopsided = [np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 4.0, 6.0, 8.0])]  # variances 1 and 10, 2 and 4 degrees
    assert seed_variance(lopsided, lopsided[0]) == (pytest.approx((2 * 1 + 4 * 10) / 6), pytest.approx(6 / 1.25))
    equal = [np.array([0.5, 0.5, 0.5]), alike[0]]
    assert seed_variance(equal, equal[0]) == (pytest.approx(0.5), pytest.approx(2 * 2 / 1.25))


def test_holm_by_hand():
    def test(p):
        return LevelTest("l", "m", 3, 0.1, p=p, by_seed=(p or 0.0,))

    found = holm([test(0.04), test(None), test(0.01), test(0.03)])
    assert [t.p_holm for t in found] == [pytest.approx(0.06), None, pytest.approx(0.03), pytest.approx(0.06)]
    assert [t.shown for t in found] == [False, False, True, False]


def test_equal_data_is_one_test_with_the_larger_p():
    tests = [
        LevelTest(level, "m", 3, 0.1, p=p, by_seed=seeds)
        for level, p, seeds in (("a", 0.01, (0.1, 0.2)), ("b", 0.02, (0.1, 0.2)), ("c", 0.04, (0.1, 0.3)))
    ]
    assert [t.level for t in distinct(tests)] == ["b", "c"]
    assert [t.p_holm for t in holm(tests)] == pytest.approx([0.04, 0.04, 0.04])


@pytest.mark.parametrize("degrees", [2.0, 8.0, 60.0])
def test_the_detectable_difference_is_shown_in_four_of_five_draws(degrees):
    rng = np.random.default_rng(0)
    spread = np.sqrt(rng.chisquare(degrees, 40_000) / degrees)
    drawn = (detectable_difference(0.03, degrees, 0.05) + 0.03 * rng.normal(size=40_000)) / (0.03 * spread)
    assert (2 * stats.t.sf(np.abs(drawn), degrees) <= 0.05).mean() == pytest.approx(0.8, abs=0.01)
    assert detectable_difference(0.03, degrees, 0.05 / 9) > detectable_difference(0.03, degrees)


def test_levels_of_other_seeds_or_trajectories_are_refused():
    baseline, levels = sweep(3)
    with pytest.raises(DataError, match="level x has 2 seeds and the baseline 3"):
        compare_levels(baseline, {"x": levels["level 0"][:2]})
    other = sweep(4)[0]
    with pytest.raises(DataError, match="only tables on the same trajectories"):
        compare_levels(baseline, {"x": other})
    assert compare_levels(baseline, {}) == []


def test_a_seed_that_a_level_lacks_is_left_out_of_its_pairs():
    baseline, levels = sweep(5, levels=2, seeds=4)
    whole, part = levels["level 0"], levels["level 1"]
    found = {
        (t.level, t.metric): t
        for t in compare_levels(baseline, {"whole": whole, "part": [None, *part[1:]]}, replicates=50)
    }
    alone = compare_levels(baseline[1:], {"part": part[1:]}, replicates=50)
    for test in alone:
        assert (found["part", test.metric].seeds, found["part", test.metric].difference) == (3, test.difference)
    assert found["whole", "rm_at_k"].seeds == 4
    few = compare_levels(baseline, {"few": [None, None, *part[2:]], "whole": whole}, replicates=50)
    assert {t.reason for t in few if t.level == "few"} == {"no test: 2 of at least 3 seeds"}
    assert all(t.p is not None for t in few if t.level == "whole")
    assert compare_levels([None] * 4, {"x": part}) == []


def test_one_level_uses_its_own_seeds_only():
    found = Spread(np.array([0.1, 0.2, 0.3]), 0.0, 0.0, 10)
    assert _tested(LevelTest("l", "m", 3, 0.2), {"l": found}).degrees == pytest.approx(2.0)


@pytest.mark.slow
def test_a_sweep_of_four_equal_levels_shows_a_difference_as_often_as_said():
    """The variance of seeds is pooled over three levels and Holm corrects nine tests: at most 8 % of 200 sweeps show anything."""
    shown = [
        any(test.shown for test in compare_levels(*sweep(seed, levels=3, tasks=30), replicates=100))
        for seed in range(200)
    ]
    assert 0.01 <= np.mean(shown) <= 0.08


def test_levels_are_not_compared_in_what_rests_on_one_cluster():
    rng = np.random.default_rng(0)
    tasks, labels = [*"aabbccddeeff"], [1, 0, *[1, 1, 0, 0] * 2, 1, 1]
    tables = [Scores.of(tasks, rng.random(12), labels) for _ in range(6)]
    found = {test.metric: test for test in compare_levels(tables[:3], {"other": tables[3:]}, replicates=100)}
    assert found["auc_within_task"].reason == "no test: 1 cluster with a mixed task, at least 2 are needed"
    assert (found["auc_within_task"].ci95, found["auc_within_task"].p) == (None, None)
    assert found["ece_width_10"].p is not None
