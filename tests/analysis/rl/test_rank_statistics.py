"""Rank correlation within strata, its permutation and bootstrap, and regret: by hand, against SciPy, and by simulation."""

import numpy as np
import pytest
from scipy import stats

from analysis.foretelling.equivalence import compared, equivalence, paired_spread
from analysis.rl.rank_statistics import (
    centred_ranks,
    losses,
    permutation_p,
    rank_correlations,
    rank_regression,
    regret,
    relation,
    sets_of,
    stronger,
    unit_weights,
)
from rmlab.errors import DataError
from rmlab.metrics.sweep_levels import Spread


def test_within_one_stratum_it_is_spearmans_coefficient() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random(30).round(1), rng.random(30).round(1)
    assert rank_correlations(x, y, unit_weights(None, None, 30, 0))[0] == pytest.approx(stats.spearmanr(x, y).statistic)


def test_what_strata_differ_by_adds_nothing() -> None:
    """Two starts, in each a falling line; without strata the higher start makes it rise."""
    x, y, start = [1, 2, 3, 11, 12, 13], [3, 2, 1, 13, 12, 11], list("aaabbb")
    assert rank_correlations(x, y, unit_weights(None, start, 6, 0), start)[0] == pytest.approx(-1)
    assert rank_correlations(x, y, unit_weights(None, None, 6, 0))[0] > 0.5


def test_a_resample_by_weights_is_the_resample() -> None:
    rng = np.random.default_rng(1)
    x, y, start = rng.random(12).round(1), rng.random(12), np.repeat(["a", "b"], 6)
    weight_RN = unit_weights(None, start, 12, 50)
    assert (weight_RN[:, :6].sum(axis=1) == 6).all(), "every stratum keeps its size"
    for weight_N in weight_RN[1:6].astype(int):
        drawn = np.repeat(np.arange(12), weight_N)
        one_1N = np.ones((1, 12))
        a, b = (centred_ranks(side[drawn], one_1N, start[drawn])[0] for side in (x, y))
        expected = a @ b / np.sqrt(a @ a * (b @ b))
        assert rank_correlations(x, y, weight_N[None].astype(float), start)[0] == pytest.approx(expected)


def test_strata_are_drawn_independently_of_one_another() -> None:
    """Strata of one size, which a common seed would draw alike: how often a row is drawn says nothing of a row of another stratum."""
    weight_RN = unit_weights(None, np.repeat(["a", "b", "c"], 6), 18, 2000)[1:]
    rho_NN = np.corrcoef(weight_RN, rowvar=False)
    across_NN = np.arange(18)[:, None] // 6 != np.arange(18) // 6
    assert np.abs(rho_NN[across_NN]).max() < 0.1, "4.5 standard errors"


def test_all_permutations_of_small_blocks() -> None:
    """Two blocks of three in one start, each rising: of 36 orders one is as high, so the two-sided p is 2/36."""
    x, y = [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]
    found = permutation_p(x, y, ["a"] * 6, list("uuuvvv"), permutations=20_000)
    assert found == pytest.approx(2 / 36, abs=0.006)
    assert np.isnan(permutation_p([1] * 6, y, ["a"] * 6, list("uuuvvv"), 100))


def test_regression_of_ranks_by_hand() -> None:
    """The outcome's ranks are those of the first metric, whatever the second is."""
    first, second = rank_regression([[1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5]], [1, 2, 3, 4, 5, 6], ["a"] * 6)
    assert (first.value, second.value) == (pytest.approx(1), pytest.approx(0, abs=1e-12))
    rng = np.random.default_rng(2)
    x, z = rng.normal(size=(2, 40))
    y = x + 0.5 * z + rng.normal(size=40)
    ranks = [stats.rankdata(side) for side in (x, z, y)]
    design = np.stack([np.ones(40), *ranks[:2]], axis=1)
    expected, residual, *_ = np.linalg.lstsq(design, ranks[2], rcond=None)
    error = np.sqrt(residual[0] / 37 * np.diag(np.linalg.inv(design.T @ design)))
    found = rank_regression([x, z], y, ["a"] * 40)
    for one, value, sd in zip(found, expected[1:], error[1:], strict=True):
        assert one.value == pytest.approx(value)
        assert one.high - one.value == pytest.approx(stats.t.ppf(0.975, 37) * sd)


def test_regret_by_hand() -> None:
    """Five verifiers of outcomes 0 to 4: sets of four leave one out. The metric likes the worst best, but where it is left out."""
    outcome, liked = np.arange(5.0), np.array([9.0, 1, 2, 3, 4])
    sets = sets_of(["a"] * 5)
    assert len(sets) == 5
    assert sorted(losses(liked, outcome, sets)) == [0, 3, 4, 4, 4]
    assert losses(outcome, outcome, sets).sum() == 0
    assert losses(np.zeros(5), outcome, sets).mean() == pytest.approx(
        ((3 - 1.5) + (4 - 1.75) + 2 + (4 - 2.25) + 1.5) / 5
    )
    assert regret(losses(liked, outcome, sets), sets, 5).value == pytest.approx(3)
    assert len(sets_of(list("aaaabbbb"))) == 2
    assert np.isnan(regret(np.zeros(0), sets_of(["a", "b"]), 2).value)


def test_two_conditions_paired_by_seed_and_task() -> None:
    rates = {f"t{i}": 0.25 * (i % 5) for i in range(200)}
    clusters = {task: f"c{i // 2}" for i, task in enumerate(rates)}
    rng = np.random.default_rng(0)

    def moved(by: float) -> dict[str, float]:
        return {task: rate + by + 0.05 * rng.normal() for task, rate in rates.items()}

    same = paired_spread([(moved(0), moved(0)) for _ in range(3)], clusters)
    lower = paired_spread([(moved(0), moved(-0.1)) for _ in range(3)], clusters)
    few = paired_spread([(moved(0), moved(0)) for _ in range(2)], clusters)
    found = compared({"same": same, "lower": lower, "few": few}, 0.03)
    assert set(found) == {"same", "lower"}, "two seeds give no test"
    assert found["same"].words == "alike"
    assert found["lower"].words == "differs"
    assert found["lower"].difference == pytest.approx(-0.1, abs=0.01)
    with pytest.raises(DataError, match="judged on other tasks"):
        paired_spread([(rates, rates), (rates, {"t0": 1.0})], clusters)
    assert equivalence(Spread(np.zeros(3), 0.0, 0.0, 100), [np.zeros(3)], 0.03).words == "alike"


@pytest.mark.slow
def test_rates_without_a_relation_and_power_with_one() -> None:
    """Two starts, four columns of three: 0.05 of tests without a relation, though columns and starts differ; nearly all with one."""
    rng, draws = np.random.default_rng(0), 400
    start, block = np.repeat(["a", "b"], 12), np.repeat(list("ABCDEFGH"), 3)
    said = dict.fromkeys(("p", "bootstrap", "stronger", "power"), 0)
    for _ in range(draws):
        x, z, noise = rng.normal(size=(3, 24))
        columns = 0.7 * np.repeat(rng.normal(size=8), 3)
        found = relation("x", x, columns + noise, range(24), start, block, 400, 1000)
        said["p"] += found.p <= 0.05
        said["bootstrap"] += found.low > 0 or found.high < 0
        weight_RN = unit_weights(None, start, 24, 400)
        said["stronger"] += stronger(x, z, x + z + noise, weight_RN, start).low > 0
        said["power"] += relation("x", x, x + 0.5 * noise, range(24), start, block, 1, 1000).p <= 0.05
    assert 0.02 <= said["p"] / draws <= 0.08, said
    assert said["bootstrap"] / draws <= 0.10, said
    assert said["stronger"] / draws <= 0.06, said
    assert said["power"] / draws > 0.9, said
