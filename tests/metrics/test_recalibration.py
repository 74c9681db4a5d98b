import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from rmlab.metrics.calibration import logit
from rmlab.metrics.recalibration import recalibrate


def test_equals_scikit_learn_without_penalty():
    rng = np.random.default_rng(0)
    score = rng.beta(0.3, 0.3, 500)
    label = (rng.random(500) < expit(0.4 + 0.6 * logit(score))).astype(float)
    found = recalibrate(score, label)
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(logit(score)[:, None], label)
    assert (found.intercept, found.slope) == pytest.approx((model.intercept_[0], model.coef_[0, 0]), abs=1e-4)
    assert found.fitted_N == pytest.approx(expit(found.intercept + found.slope * logit(score)))
    # the score equations of the maximum: residuals sum to nothing, alone and times the logit
    assert (label - found.fitted_N).sum() == pytest.approx(0.0, abs=1e-8)
    assert (label - found.fitted_N) @ logit(score) == pytest.approx(0.0, abs=1e-7)


def test_calibrated_scores_have_slope_one_and_intercept_zero():
    rng = np.random.default_rng(1)
    score = rng.random(200_000)
    found = recalibrate(score, (rng.random(200_000) < score).astype(float))
    assert found.slope == pytest.approx(1.0, abs=0.02)
    assert found.intercept == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize(
    ("score", "label", "fitted"),
    [
        ([0.1, 0.4, 0.6], [0, 0, 1], [0, 0, 1]),  # separable
        ([0.1, 0.4, 0.6], [1, 0, 0], [1, 0, 0]),  # separable, the wrong way round
        ([0.1, 0.4, 0.4, 0.4, 0.6], [0, 0, 1, 1, 1], [0, 2 / 3, 2 / 3, 2 / 3, 1]),  # touching
        ([0.1, 0.4], [1, 1], [1, 1]),  # one class
        ([0.4, 0.4, 0.4], [1, 0, 0], [1 / 3] * 3),  # one score
    ],
)
def test_no_finite_single_maximum_is_undefined_and_fitted_in_the_limit(score, label, fitted):
    found = recalibrate(np.array(score), np.array(label, dtype=float))
    assert np.isnan(found.slope)
    assert np.isnan(found.intercept)
    assert found.fitted_N == pytest.approx(fitted)


def test_scores_of_exactly_0_and_1_are_finite():
    found = recalibrate(np.array([0.0, 1.0] * 10), np.array([0, 1] * 8 + [1, 0] * 2, dtype=float))
    assert found.fitted_N == pytest.approx([0.2, 0.8] * 10)
