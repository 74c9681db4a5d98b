"""How often do tests reject what is not there, and how often do intervals hold what is? Simulations of the whole computation."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy.special import expit

from rmlab.metrics import compare as compared
from rmlab.metrics import noise_floor, registry, uncertainty
from rmlab.metrics.compare import compare
from rmlab.metrics.noise_floor import NoiseFloor, intercepts, noise_floor_task
from rmlab.metrics.sweep_levels import FAMILY, compare_levels
from rmlab.metrics.table import table
from rmlab.metrics.uncertainty import bootstrap, interval
from rmlab.metrics.weighted import BestOfK, Combined, WidthBins, WithinTasks
from rmlab.metrics.weighted_sorted import SortedRows
from rmlab.scores.scores import Scores

pytestmark = pytest.mark.slow

BOOTSTRAPS = 20
"""Of other clusters, which the tables of a simulation take in turn: to draw new ones for each takes much of the time, and the error
that twenty share is a fifth of that of one."""


@pytest.fixture(autouse=True)
def clusters_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(uncertainty, "_all_weights", kept := cache(uncertainty._all_weights.__wrapped__))
    yield
    kept.cache_clear()


@pytest.fixture
def rough_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The floor's mean, of fewer draws and of a task effect to three digits that is not sought where no table here has it."""
    monkeypatch.setattr(noise_floor, "DRAWS", 200)
    monkeypatch.setattr(noise_floor, "LARGEST_DEVIATION", 4.0)
    search = noise_floor.brentq
    monkeypatch.setattr(noise_floor, "brentq", lambda *asked, xtol: search(*asked, xtol=1e-3))


def error(rate: float, draws: int) -> float:
    """Standard error of a rate over independent draws."""
    return float(np.sqrt(rate * (1 - rate) / draws))


def is_nominal(rate: float, draws: int, errors: int = 1) -> bool:
    """Whether a rate at a nominal 0.05 is between 0.03 and 0.07, give or take so many errors of the simulation."""
    return bool(0.03 - errors * error(0.03, draws) <= rate <= 0.07 + errors * error(0.07, draws))


@dataclass(frozen=True)
class World:
    """Attempts whose probability of being resolved is σ(logit), with an effect of the task on it that no score knows.

    slope, intercept: a verifier's score is σ(slope · logit + intercept): 1 and 0 are calibrated.
    """

    slope: float = 1.0
    intercept: float = 0.0
    task_deviation: float = 0.7

    def draw(self, rng: np.random.Generator, tasks: int, attempts: int) -> Scores:
        logit_N = (rng.normal(0, 1.2, (tasks, 1)) + rng.normal(0, 1, (tasks, attempts))).ravel()
        effect_N = np.repeat(rng.normal(0, self.task_deviation, tasks), attempts)
        label_N = rng.random(len(logit_N)) < expit(intercepts(expit(logit_N), self.task_deviation) + effect_N)
        name_N = np.repeat([f"{t:06d}" for t in range(tasks)], attempts)
        return Scores.of(name_N, expit(self.slope * logit_N + self.intercept), label_N, cluster=name_N)


WORLDS = {
    "calibrated": World(),
    "slightly off": World(1.2, 0.2),
    "too high": World(1.0, 0.3),
    "far too high": World(1.0, 1.0),
    "underconfident": World(0.5),
    "overconfident": World(1.6),
}


def test_intervals_of_discrimination_hold_the_truth_at_80_tasks():
    """RM@8 and AUC within task of 80 tasks with 16 attempts: at least 0.93 of the 95 % intervals hold the value of endless tasks."""
    draws, kinds = 1000, (BestOfK, WithinTasks)
    worlds = [table(World().draw(np.random.default_rng([1, i]), 20_000, 16)) for i in range(4)]
    endless = [Combined(rows, kinds).values(np.ones((1, rows.clusters))) for rows in worlds]
    eighth = (1, 2, 4, 8, 16).index(8)
    truth = {
        "rm_at_8": np.mean([values["rm_at_k"][0, eighth] for values in endless]),
        "auc_within_task": np.mean([values["auc_within_task"][0] for values in endless]),
    }
    rng, held = np.random.default_rng(2), dict.fromkeys(truth, 0)
    for seed in range(draws):
        rows = table(World().draw(rng, 80, 16))
        statistic = Combined(rows, kinds)
        own, drawn = (
            statistic.values(np.ones((1, rows.clusters))),
            bootstrap(statistic, rows.clusters, 600, seed % BOOTSTRAPS),
        )
        for name, (estimate, *value_R) in (
            ("rm_at_8", [*own["rm_at_k"][:, eighth], *drawn["rm_at_k"][:, eighth]]),
            ("auc_within_task", [*own["auc_within_task"], *drawn["auc_within_task"]]),
        ):
            low, high = interval(estimate, np.array(value_R))
            held[name] += low <= truth[name] <= high
    print(held)
    for name, count in held.items():
        assert count / draws >= 0.93 - error(0.93, draws), (name, count / draws)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.usefixtures("rough_floor")
def test_the_interval_of_ece_less_its_floor_holds_the_truth_at_80_tasks(name):
    """At least 0.93 of the intervals hold the ECE of endless tasks, and at least as many the mean of what such tables show."""
    world, draws = WORLDS[name], 250
    endless = table(world.draw(np.random.default_rng(1), 20_000, 16))
    truth = _ece(WidthBins(endless), np.ones((1, endless.clusters)))[0]
    rule, rng = registry.named("ece_less_floor").rule, np.random.default_rng(2)
    less_D, end_D2 = np.zeros(draws), np.zeros((draws, 2))
    for seed in range(draws):
        rows = table(world.draw(rng, 80, 8))
        floor, statistic = noise_floor_task(rows).mean, WidthBins(rows)
        less_D[seed] = _ece(statistic, np.ones((1, rows.clusters)))[0] - floor
        drawn_R = bootstrap(statistic, rows.clusters, 500, seed % BOOTSTRAPS)["ece_width_10"]
        end_D2[seed] = interval(less_D[seed], drawn_R, rule, floor=floor)
    held = [float(((end_D2[:, 0] <= value) & (value <= end_D2[:, 1])).mean()) for value in (truth, less_D.mean())]
    print(name, truth, less_D.mean(), held)
    assert min(held) >= 0.93 - error(0.93, draws), held


def _ece(statistic, weight_RC):
    return statistic.values(weight_RC)["ece_width_10"]


@pytest.mark.usefixtures("rough_floor")
def test_calibrated_scores_are_called_miscalibrated_as_often_as_said(monkeypatch):
    """Above the 95th percentile of the floor with task effect lie 0.03 to 0.07 of calibrated tables whose tasks differ."""
    monkeypatch.setattr(noise_floor, "DRAWS", 400)  # a percentile of fewer draws is noisier and no larger
    draws, rng = (
        400,
        np.random.default_rng(3),
    )  # of a rule of twice the error, 0.10, is_nominal says so with 0.14 (binomial)
    found = []
    for _ in range(draws):
        rows = table(World(task_deviation=1.5).draw(rng, 80, 8))
        value = WidthBins(rows).values(np.ones((1, rows.clusters)))["ece_width_10"][0]
        found.append(value > noise_floor_task(rows).p95)
    rate = float(np.mean(found))
    print(rate)
    assert is_nominal(rate, draws), rate


SAME, FLAT = (1.0, 0.0), (3.0, 1.5)


@pytest.mark.parametrize(
    ("name", "a", "b", "metrics"),
    [
        ("two alike", SAME, SAME, ("ece_width_10", "ece_less_floor")),
        ("other calibration at ranks alike", SAME, FLAT, ("auc_pooled",)),
        ("errors of opposite sign", (1.0, 0.7), (1.0, -0.7), ("ece_width_10",)),
        ("both overconfident", (2.5, 0.0), (2.5, 0.0), ("ece_width_10", "ece_less_floor")),
    ],
)
@pytest.mark.usefixtures("rough_floor")
def test_compare_rejects_and_excludes_0_as_often_as_said(name, a, b, metrics, monkeypatch):
    """Two verifiers that differ by luck alone: p at most 0.05, and an interval without 0, in 0.03 to 0.07 of the draws. (Of
    1,000 the shares are 0.035 to 0.072; 400 take a minute less, and are held to two of their errors.) The pooled AUC is the same
    in all cases, since it reads ranks alone: one of them asks for it."""
    # A rule of twice the error, 0.10, is within two errors of 0.07 in one count of 400 draws with a probability of 0.41 (binomial),
    # and in the counts of four cases, which are independent but for the draws that they share, of about 0.41^4 = 0.03.
    if "ece_less_floor" not in metrics:
        monkeypatch.setattr(compared, "noise_floor_task", lambda table: NoiseFloor(0.0, 0.0))  # half of the time
    draws, tasks, attempts = 400, 80, 8
    name_N = np.repeat([f"{t:03d}" for t in range(tasks)], attempts)
    kinds = [
        kind for kind, first in ((SortedRows, "auc"), (WidthBins, "ece")) if any(m.startswith(first) for m in metrics)
    ]
    rng = np.random.default_rng(4)
    rejected, excluded = (dict.fromkeys(metrics, 0) for _ in range(2))
    for seed in range(draws):
        task_N, own_N = np.repeat(rng.normal(0, 1.2, tasks), attempts), rng.normal(0, 0.8, tasks * attempts)
        label_N = rng.random(len(own_N)) < expit(task_N + own_N + np.repeat(rng.normal(0, 0.7, tasks), attempts))
        scores = []
        for slope, intercept in (a, b):
            seen_N = 0.7 * task_N + 0.6 * own_N + np.repeat(rng.normal(0, 0.6, tasks), attempts)
            linear_N = slope * (seen_N + rng.normal(0, 0.7, len(own_N))) + intercept
            scores.append(Scores.of(name_N, expit(linear_N), label_N, cluster=name_N))
        found = compare(*scores, swaps=1, replicates=300, seed=seed % BOOTSTRAPS, kinds=kinds)["metrics"]
        for metric in metrics:
            rejected[metric] += found[metric]["p"] <= 0.05
            low, high = found[metric]["ci95"]
            excluded[metric] += not low <= 0 <= high
    print(name, rejected, excluded)
    for metric in metrics:
        for count in (rejected[metric], excluded[metric]):
            assert is_nominal(count / draws, draws, errors=2), (name, metric, count / draws)


def levels(seed: int, deviations: tuple[float, ...], seeds: int = 3, tasks: int = 40, attempts: int = 6):
    """Tables of a baseline (the first) and levels without a difference. deviations: of a seed's effect on the slope, by level."""
    rng = np.random.default_rng(seed)
    name_N = np.repeat([f"{t:03d}" for t in range(tasks)], attempts)
    task_N = np.repeat(np.arange(tasks), attempts)
    label_N = (rng.random(len(task_N)) < rng.random(tasks)[task_N]).astype(float)
    task_effect, shared_N = rng.normal(0, 0.7, tasks), rng.normal(0, 0.7, len(task_N))

    def scores(deviation: float) -> Scores:
        slope_T = 1.5 + rng.normal(0, deviation) + task_effect + rng.normal(0, 0.3, tasks)
        linear_N = slope_T[task_N] * (label_N - 0.5) + shared_N + rng.normal(0, 0.5, len(task_N))
        return Scores.of(name_N, expit(linear_N), label_N, cluster=name_N)

    baseline, *others = [[scores(deviation) for _ in range(seeds)] for deviation in deviations]
    return baseline, {f"level {i}": tables for i, tables in enumerate(others)}


@pytest.mark.parametrize(
    ("name", "deviations"),
    [
        ("all alike", (0.4, 0.4, 0.4, 0.4)),
        ("one three times as noisy", (0.25, 0.75, 0.25, 0.25)),
        ("a noisy baseline", (0.75, 0.25, 0.25, 0.25)),
        ("one level alone", (0.4, 0.4)),
    ],
)
def test_level_tests_keep_their_rate(name, deviations):
    """The first level, which is the noisiest where one is: 0.03 to 0.07 of its tests at 5 % reject (RM@k of few tasks takes few
    values and is held from above only)."""
    draws = 250  # of a test of twice its level, 0.10, is_nominal says so with 0.22 (binomial), and in all four cases with 0.002
    rejected = dict.fromkeys(FAMILY, 0)
    for seed in range(draws):
        for test in compare_levels(*levels(seed, deviations), replicates=100):
            rejected[test.metric] += test.level == "level 0" and test.p is not None and test.p <= 0.05
    rates = {metric: count / draws for metric, count in rejected.items()}
    print(name, rates)
    assert is_nominal(rates["auc_within_task"], draws), rates
    assert is_nominal(rates["ece_width_10"], draws), rates
    assert rates["rm_at_k"] <= 0.07 + error(0.07, draws), rates
