import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as sklearn_log_loss

from rmlab.metrics.calibration import (
    Bins,
    binned,
    brier,
    brier_decomposition,
    ece,
    ece_debiased,
    log_loss,
    logit,
    mass_bin,
    mce,
    prior_corrected,
    top_label,
    width_bin,
)

rows = st.lists(
    st.tuples(st.one_of(st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0]), st.floats(0, 1)), st.booleans()),
    min_size=1,
    max_size=40,
)


def columns(rows):
    score, label = zip(*rows, strict=True)
    return np.array(score), np.array(label, dtype=float)


def ece_by_loops(score, label, bins):
    """Over a dict of bins, row by row."""
    members = {}
    for s, y in zip(score, label, strict=True):
        members.setdefault(min(int(np.floor(s * bins + 1e-12)), bins - 1), []).append((s, y))
    gaps = {b: abs(np.mean([s for s, _ in m]) - np.mean([y for _, y in m])) for b, m in members.items()}
    return sum(len(members[b]) / len(score) * gap for b, gap in gaps.items()), max(gaps.values())


@given(rows, st.sampled_from([1, 10, 15]))
def test_ece_and_mce_equal_loops(rows, bins):
    score, label = columns(rows)
    found = binned(score, label, width_bin(score, bins), bins)
    assert (ece(found), mce(found)) == pytest.approx(ece_by_loops(score, label, bins), abs=1e-12)


@given(rows)
def test_bins_hold_every_row_once(rows):
    score, label = columns(rows)
    for bin_N in (width_bin(score, 10), mass_bin(score, 10)):
        assert bin_N.min() >= 0
        assert bin_N.max() <= 9
        assert binned(score, label, bin_N, 10).count.sum() == len(score)


def test_edges_of_equal_width_bins():
    # 0 and 1 have a place; 0.3 · 10 is below 3 in floats for 0.1 + 0.2 - eps, and 0.7 · 10 is 7
    assert width_bin(np.array([0.0, 0.1, 0.3, 0.7, 0.29, 1.0]), 10).tolist() == [0, 1, 3, 7, 2, 9]
    assert width_bin(np.array([0.58]), 100).tolist() == [58]  # 0.58 · 100 = 57.99999999999999


def test_ties_stay_in_one_equal_mass_bin():
    score = np.array([0.9, 0.5, 0.5, 0.5, 0.5, 0.1])
    # first positions 5, 1, 1, 1, 1, 0 of 6 rows in 3 bins
    assert mass_bin(score, 3).tolist() == [2, 0, 0, 0, 0, 0]
    assert mass_bin(np.linspace(0, 1, 100), 10).tolist() == np.repeat(np.arange(10), 10).tolist()


def test_ece_by_hand():
    # bin 2: scores .2 .25, labels 0 1: gap .275 of 2 rows; bin 9: .95 with 1: gap .05 of one row
    score, label = np.array([0.2, 0.25, 0.95]), np.array([0.0, 1.0, 1.0])
    found = binned(score, label, width_bin(score, 10), 10)
    assert ece(found) == pytest.approx((2 * 0.275 + 0.05) / 3)
    assert mce(found) == pytest.approx(0.275)


def test_the_two_readings_of_binary_ece_are_told_apart():
    # .2 unresolved and .9 unresolved: positive class |.2 - 0|, |.9 - 0|; top label: .8 right, .9 wrong
    score, label = np.array([0.2, 0.9]), np.array([0.0, 0.0])
    confidence, right = top_label(score, label)
    assert confidence == pytest.approx([0.8, 0.9])
    assert right.tolist() == [1.0, 0.0]
    assert ece(binned(score, label, width_bin(score, 10), 10)) == pytest.approx((0.2 + 0.9) / 2)
    assert ece(binned(confidence, right, width_bin(confidence, 10), 10)) == pytest.approx((0.2 + 0.9) / 2)
    score, label = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    assert ece(binned(*top_label(score, label), width_bin(score, 10), 10)) == 0.0
    assert top_label(score, label)[1].tolist() == [1.0, 0.0]
    score, label = np.array([0.2, 0.2, 0.8, 0.8]), np.array([0.0, 0.0, 1.0, 0.0])
    assert ece(binned(score, label, width_bin(score, 10), 10)) == pytest.approx((2 * 0.2 + 2 * 0.3) / 4)
    assert ece(binned(*top_label(score, label), width_bin(top_label(score, label)[0], 10), 10)) == pytest.approx(0.05)


def test_debiased_by_hand():
    # 30 rows, 15 bins of two: scores .5 each pair distinct; one bin with labels 1, 0 and fourteen with 0, 0
    score = np.linspace(0.4, 0.6, 30)
    label = np.zeros(30)
    label[0] = 1
    found = ece_debiased(binned(score, label, mass_bin(score, 15), 15))
    pairs = score.reshape(15, 2).mean(axis=1)
    rates = label.reshape(15, 2).mean(axis=1)
    assert found == pytest.approx(np.mean((pairs - rates) ** 2 - rates * (1 - rates) / 1))


@pytest.mark.parametrize(
    ("count", "merged"),
    [
        ([2, 1, 3], [3, 0, 3]),  # into the bin before
        ([1, 2, 3], [0, 3, 3]),  # the first: into the one after
        ([1, 1, 3], [2, 0, 3]),
        ([1, 0, 1], [2, 0, 0]),  # empty bins are no neighbours
        ([0, 1, 0], [0, 1, 0]),  # nowhere to go
    ],
)
def test_bins_of_one_row_are_merged(count, merged):
    from rmlab.metrics.calibration import _without_single_rows

    count = np.array(count, dtype=float)
    found = _without_single_rows(
        Bins(np.stack([count, count[::-1] * 0 + 5]), np.stack([count / 2] * 2), np.stack([count / 4] * 2))
    )
    assert found.count[0].tolist() == merged
    assert found.score[0].tolist() == [n / 2 for n in merged]
    assert found.count[1].tolist() == [5, 5, 5]  # resamples do not touch each other


def test_debiased_is_unbiased_where_ece_is_not():
    rng = np.random.default_rng(0)
    score = rng.random((400, 60))
    label = (rng.random((400, 60)) < score).astype(float)
    found = [ece_debiased(binned(s, y, mass_bin(s, 15), 15)) for s, y in zip(score, label, strict=True)]
    assert np.mean(found) == pytest.approx(0.0, abs=3 * np.std(found) / 20)
    assert np.isnan(ece_debiased(binned(np.array([0.5]), np.array([1.0]), np.array([0]), 15)))


@given(rows)
def test_brier_and_log_loss_are_scikit_learn(rows):
    score, label = columns(rows)
    assert brier(score, label) == pytest.approx(brier_score_loss(label, score, labels=[0, 1], pos_label=1))
    assert log_loss(score, label) == pytest.approx(sklearn_log_loss(label, score, labels=[0, 1]))


def test_certain_and_wrong_costs_what_float64_allows():
    assert log_loss(np.array([0.0]), np.array([1.0])) == pytest.approx(-np.log(2.220446049250313e-16))


@given(rows)
def test_decomposition_adds_up_with_parts_of_right_sign(rows):
    score, label = columns(rows)
    parts = brier_decomposition(score, label)
    assert parts.miscalibration - parts.discrimination + parts.uncertainty == pytest.approx(
        brier(score, label), abs=1e-12
    )
    assert parts.miscalibration >= -1e-12
    assert parts.discrimination >= -1e-12
    assert parts.uncertainty == pytest.approx(label.var(), abs=1e-12)


def test_decomposition_of_right_frequencies_is_calibrated():
    score = np.repeat([0.25, 0.75], 4)
    parts = brier_decomposition(score, np.array([1, 0, 0, 0, 1, 1, 1, 0], dtype=float))
    assert parts.miscalibration == pytest.approx(0.0, abs=1e-15)
    assert parts.discrimination == pytest.approx(0.0625)  # variance of the calibrated forecasts


def test_decomposition_survives_scores_a_rounding_error_apart():
    parts = brier_decomposition(np.array([0.0, 1.0, 0.9999999999999999]), np.array([0.0, 1.0, 1.0]))
    assert parts.miscalibration == pytest.approx(0.0, abs=1e-12)


def test_prior_correction_moves_the_odds():
    # odds 1 at training prior 1/2 become odds 1/3 at validation prior 1/4
    assert prior_corrected(np.array([0.5]), 0.5, 0.25) == pytest.approx([0.25])
    assert prior_corrected(np.array([0.2, 0.9]), 0.4, 0.4) == pytest.approx([0.2, 0.9])
    assert logit(np.array([0.0, 1.0])) == pytest.approx([-13.815509557963774, 13.815509557963774])
