import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from rmlab.metrics import noise_floor as noise_floor_module
from rmlab.metrics.calibration import binned, ece, width_bin
from rmlab.metrics.noise_floor import intercepts, noise_floor, noise_floor_task, task_variance
from rmlab.metrics.table import table
from rmlab.scores.scores import Scores


def drawn(tasks, attempts, deviation, seed=0):
    """Calibrated scores whose labels share a normal task effect on the logit."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(tasks), attempts)
    score = rng.beta(2, 2, len(task))
    effect = rng.normal(0, deviation, tasks)[task]
    label = rng.random(len(task)) < expit(intercepts(score, deviation) + effect)
    return Scores.of([f"{t:05d}" for t in task], score, label)


@pytest.mark.parametrize("deviation", [0.01, 0.3, 1.0, 3.0, 10.0])
def test_intercept_keeps_the_mean(deviation):
    mean = np.array([1e-4, 0.03, 0.5, 0.9, 0.999])
    for a, m in zip(intercepts(mean, deviation), mean, strict=True):
        bend = [max(-8.9, min(8.9, -a / deviation))]
        value, _ = quad(
            lambda z, a=a: expit(a + deviation * z) * norm.pdf(z), -9, 9, points=bend, epsabs=1e-12, limit=300
        )
        assert value == pytest.approx(m, rel=1e-6)


def test_no_deviation_is_tried_twice(monkeypatch):
    """The largest one takes most nodes, and was worked out before the search and again by it."""
    tried = []

    def counted(mean, deviation):
        tried.append(deviation)
        return intercepts(mean, deviation)

    rows = table(drawn(80, 8, 1.0)).scored
    monkeypatch.setattr(noise_floor_module, "intercepts", counted)
    assert task_variance(rows.score_N, rows.label_N, rows.task_N) > 0
    assert len(set(tried)) == len(tried) > 3


def test_plain_floor_of_one_bin_is_half_a_binomial_spread():
    # every score .5: the ECE is |mean y - .5|, whose mean is about sqrt(.25/n · 2/π)
    n = 400
    floor = noise_floor(table(Scores.of([f"{i:03d}" for i in range(n)], [0.5] * n, [1] * n)))
    assert floor.mean == pytest.approx(np.sqrt(0.25 / n * 2 / np.pi), rel=0.06)
    assert floor.p95 == pytest.approx(1.96 * np.sqrt(0.25 / n), rel=0.1)


def test_floor_is_the_stated_draw():
    scores = drawn(20, 3, 1.0)
    order = np.lexsort((scores.score, scores.policy, scores.task_id))
    s = scores.score[order]
    labels = np.random.default_rng(0).random((1000, len(s))) < s
    bins = np.minimum(np.floor(s * 10 + 1e-12), 9)
    errors = [sum(abs((s - y)[bins == b].sum()) for b in range(10)) / len(s) for y in labels]
    floor = noise_floor(table(scores))
    assert (floor.mean, floor.p95) == pytest.approx((np.mean(errors), np.quantile(errors, 0.95)), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("deviation", [0.5, 1.0, 2.0])
def test_task_variance_is_found_again(deviation):
    found = [
        task_variance(t.score_N, t.label_N, t.task_N)
        for t in (table(drawn(400, 8, deviation, seed)) for seed in range(8))
    ]
    assert np.mean(found) == pytest.approx(deviation**2, rel=0.2)


def test_without_a_task_effect_both_floors_agree():
    # labels that differ within every task as much as they can: products of residuals are negative
    scores = Scores.of(np.repeat([f"{i:03d}" for i in range(50)], 2), [0.5] * 100, [0, 1] * 50)
    plain, task = noise_floor(table(scores)), noise_floor_task(table(scores))
    assert task.task_variance == 0.0
    assert (task.mean, task.p95) == (plain.mean, plain.p95)


def test_a_task_effect_raises_the_floor_to_what_is_seen():
    tables = [table(drawn(40, 16, 2.0, seed)) for seed in range(60)]
    seen = [ece(binned(t.score_N, t.label_N, width_bin(t.score_N, 10), 10)) for t in tables]
    floors = [noise_floor_task(t) for t in tables[:12]]
    assert np.mean([floor.mean for floor in floors]) == pytest.approx(np.mean(seen), rel=0.15)
    assert np.mean(seen) > 1.15 * noise_floor(tables[0]).mean
    # calibrated scores are called miscalibrated in about 5 % of cases, not in most
    assert np.mean(np.array(seen[:12]) > [floor.p95 for floor in floors]) <= 0.25


def test_labels_equal_within_tasks_reach_the_largest_effect():
    task = np.repeat(np.arange(40), 8)
    found = noise_floor_task(table(Scores.of([f"{t:03d}" for t in task], np.full(320, 0.5), task % 2)))
    assert found.task_variance == 100.0
    assert found.mean == pytest.approx(np.sqrt(0.25 / 40 * 2 / np.pi), rel=0.15)  # 40 draws, not 320


def test_nothing_scored_has_no_floor():
    empty = table(Scores.of(["t"], [float("nan")], [1]))
    assert np.isnan([noise_floor(empty).mean, noise_floor_task(empty).p95]).all()
