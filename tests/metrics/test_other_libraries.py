"""Our numbers beside those of other libraries: the same where they are right, and why not where they are not.

scikit-learn and torchmetrics are installed for tests. netcal is compared where somebody has it: it brings pyro, gpytorch and
tensorboard, which nothing else here needs.
"""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from rmlab.metrics.calibration import binned, ece, mce, top_label, width_bin
from rmlab.metrics.report import report
from rmlab.scores.scores import Scores


def scores_and_labels(seed=0, n=500, edges=False):
    """Scores inside their bins, or (edges) with many exactly 0, 1 and at the bins' edges."""
    rng = np.random.default_rng(seed)
    score = rng.random(n) * 0.98 + 0.01
    if edges:
        score = np.where(rng.random(n) < 0.5, rng.integers(0, 11, n) / 10, score)
    else:
        score = np.where(np.abs(score * 10 - np.round(score * 10)) < 1e-3, 0.55, score)
    return score, (rng.random(n) < score**1.5).astype(float)


def ours(score, label, bins=10):
    return binned(score, label, width_bin(score, bins), bins)


@pytest.mark.parametrize("edges", [False, True])
def test_scikit_learn(edges):
    score, label = scores_and_labels(edges=edges)
    found = report(Scores.of([f"t{i % 50}" for i in range(500)], score, label), replicates=0)
    assert found["auc_pooled"] == pytest.approx(roc_auc_score(label, score), abs=1e-12)
    assert found["brier"] == pytest.approx(brier_score_loss(label, score), abs=1e-12)
    assert found["log_loss"] == pytest.approx(log_loss(label, score), abs=1e-9)
    rate, mean = calibration_curve(label, score, n_bins=10)
    bins = ours(score, label)
    full = bins.count > 0
    # scikit-learn puts a score at an edge into the bin below it, so only tables without such scores agree bin by bin.
    agree = np.allclose(rate, bins.label[full] / bins.count[full]) and np.allclose(
        mean, bins.score[full] / bins.count[full]
    )
    assert agree is (not edges)


def test_torchmetrics():
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip(
        "torchmetrics.functional.classification", reason="torchmetrics is not installed (extra dev)"
    )
    score, label = scores_and_labels()
    theirs = (torch.tensor(score), torch.tensor(label).long())
    assert float(functional.binary_auroc(*theirs)) == pytest.approx(
        roc_auc_score(label, score), abs=1e-6
    )  # float32 inside
    # Its "binary calibration error" compares the score with the rate of the positive class, as ours does.
    assert float(functional.binary_calibration_error(*theirs, n_bins=10)) == pytest.approx(
        float(ece(ours(score, label))), abs=1e-6
    )
    largest = float(functional.binary_calibration_error(*theirs, n_bins=10, norm="max"))
    assert largest == pytest.approx(float(mce(ours(score, label))), abs=1e-6)


def test_torchmetrics_keeps_a_score_of_one_in_a_bin_of_its_own():
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip(
        "torchmetrics.functional.classification", reason="torchmetrics is not installed (extra dev)"
    )
    score, label = np.array([0.92, 0.92, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, 0.0])
    # One bin [0.9, 1]: mean score .96, rate .75. Torchmetrics has an eleventh bin for 1.0: |.92 - 1|/2 + |1 - .5|/2.
    assert float(ece(ours(score, label))) == pytest.approx(0.21)
    theirs = float(functional.binary_calibration_error(torch.tensor(score), torch.tensor(label).long(), n_bins=10))
    assert theirs == pytest.approx(0.29)
    assert ours(score, label).count.tolist() == [0] * 9 + [4], "ten bins are ten bins, and their counts add up"


def test_netcal():
    metrics = pytest.importorskip(
        "netcal.metrics", reason="netcal is not installed: it brings pyro, gpytorch and tensorboard"
    )
    score, label = scores_and_labels()
    assert metrics.ECE(10).measure(score, label.astype(int)) == pytest.approx(float(ece(ours(score, label))), abs=1e-9)
    assert metrics.MCE(10).measure(score, label.astype(int)) == pytest.approx(float(mce(ours(score, label))), abs=1e-9)
    # A score at an edge: netcal counts 0.3 among (0.2, 0.3], by the definition here it opens [0.3, 0.4). |.3 - .5|/2 + |.25 - 0|/2.
    score, label = np.array([0.3, 0.3, 0.25, 0.25]), np.array([1.0, 0.0, 0.0, 0.0])
    assert float(ece(ours(score, label))) == pytest.approx(0.225)
    assert metrics.ECE(10).measure(score, label.astype(int)) == pytest.approx(0.025)


@pytest.mark.parametrize("bins", [10, 15])
def test_every_score_is_in_one_bin_also_at_0_at_1_and_at_edges(bins):
    score, label = scores_and_labels(edges=True)
    found = ours(score, label, bins)
    assert found.count.sum() == len(score)
    assert width_bin(np.array([0.0, 1.0]), bins).tolist() == [0, bins - 1]
    edges = np.arange(bins) / bins
    # 0.3 · 10 is 3.0000000000000004 or 2.9999999999999996 by the way it was computed: an edge opens its bin all the same.
    assert width_bin(edges, bins).tolist() == list(range(bins))
    assert width_bin(np.cumsum(np.full(bins - 1, 1 / bins)), bins).tolist() == list(range(1, bins))


def test_confidence_and_positive_class_are_two_numbers():
    score, label = np.array([0.1, 0.1, 0.9, 0.9]), np.array([0.0, 1.0, 1.0, 1.0])
    assert float(ece(ours(score, label))) == pytest.approx((0.4 + 0.1) / 2)
    confidence, right = top_label(score, label)
    assert float(ece(ours(confidence, right))) == pytest.approx(0.15)  # all at .9, three of four right
