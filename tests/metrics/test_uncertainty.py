import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmlab.metrics import weighted
from rmlab.metrics.table import table
from rmlab.metrics.uncertainty import Rule, bootstrap, cluster_weights, interval
from rmlab.scores.scores import Scores


def test_weights_draw_as_many_clusters_as_there_are():
    weights = np.concatenate(list(cluster_weights(7, 100, 0)))
    assert weights.shape == (100, 7)
    assert (weights.sum(axis=1) == 7).all()
    assert weights.std() > 0.5


def test_the_same_seed_gives_the_same_and_chunks_do_not_matter(monkeypatch):
    whole = np.concatenate(list(cluster_weights(7, 100, 5)))
    monkeypatch.setattr("rmlab.metrics.uncertainty.WEIGHTS_AT_ONCE", 70)
    parts = list(cluster_weights(7, 100, 5))
    assert len(parts) == 10
    assert (np.concatenate(parts) == whole).all()
    assert (np.concatenate(list(cluster_weights(7, 100, 6))) != whole).any()


def test_percentile_and_basic_intervals_by_hand():
    values = np.linspace(0.0, 1.0, 1001)
    assert interval(0.4, values) == pytest.approx((0.025, 0.975))
    assert interval(0.4, values, Rule.BASIC_UNCUT) == pytest.approx((0.8 - 0.975, 0.8 - 0.025))
    assert interval(0.4, values, Rule.BASIC) == pytest.approx((0.0, 0.775))  # cut at 0


def test_undefined_replicates_are_left_out():
    values = np.array([0.5, np.nan, 0.5])
    assert interval(0.5, values) == (0.5, 0.5)
    assert interval(np.nan, values) is None
    assert interval(0.5, np.array([np.nan])) is None


def test_clusters_are_resampled_not_rows():
    # ten copies of each task in one cluster: the spread is that of 20 clusters, not of 200 rows
    rng = np.random.default_rng(0)
    label = np.repeat(rng.random(20) < 0.5, 10)
    cluster = np.repeat([f"c{i}" for i in range(20)], 10)
    rows = table(Scores.of([f"t{i}" for i in range(200)], np.full(200, 0.5), label, cluster=cluster))
    spread = bootstrap(weighted.RowMeans(rows), rows.clusters, 2000, 0)["resolved_rate"].std()
    assert spread == pytest.approx(np.sqrt(label.mean() * (1 - label.mean()) / 20), rel=0.1)


@pytest.mark.slow
def test_intervals_cover_the_truth():
    # random scores: the within-task AUC is 1/2
    rng = np.random.default_rng(0)
    task = np.repeat([f"t{i:02d}" for i in range(60)], 8)
    covered = 0
    for seed in range(300):
        rows = table(Scores.of(task, rng.random(480), rng.random(480) < np.repeat(rng.random(60), 8)))
        statistic = weighted.WithinTasks(rows)
        estimate = float(statistic.values(np.ones((1, rows.clusters)))["auc_within_task"][0])
        low, high = interval(estimate, bootstrap(statistic, rows.clusters, 300, seed)["auc_within_task"])
        covered += low <= 0.5 <= high
    assert 0.91 <= covered / 300 <= 0.98


@given(st.floats(0, 1), st.lists(st.floats(0, 1), min_size=1, max_size=30), st.sampled_from(list(Rule)), st.booleans())
def test_every_interval_holds_its_estimate(estimate, values, rule, difference):
    low, high = interval(estimate, np.array(values), rule, difference=difference)
    assert low <= estimate <= high
    if rule is Rule.BASIC and not difference:
        assert low >= 0
        assert high <= 1


def test_an_estimate_below_all_resamples_ends_its_interval():
    # The ECE of scores that were just calibrated: every resample has more. 2 · 0.0207 - 0.022 = 0.0194 is below the estimate.
    values = np.linspace(0.022, 0.05, 1001)
    assert interval(0.0207, values, Rule.BASIC) == (0.0, 0.0207)
