import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmlab.metrics.discrimination import advantage
from rmlab.metrics.table import table
from rmlab.scores.scores import Scores

row = st.tuples(st.sampled_from("abc"), st.sampled_from([0.1, 0.3, 0.3, 0.7]), st.booleans())


def by_loops(rows):
    cosines, product, score_energy, label_energy, noise = [], 0.0, 0.0, 0.0, 0.0
    for name in {r[0] for r in rows}:
        s, y = (np.array([r[i] for r in rows if r[0] == name], dtype=float) for i in (1, 2))
        s, y = (np.zeros(len(v)) if v.max() == v.min() else v - v.mean() for v in (s, y))
        product, score_energy, label_energy = product + s @ y, score_energy + s @ s, label_energy + y @ y
        if y.any():
            cosines.append(s @ y / np.sqrt(s @ s * (y @ y)) if s.any() else 0.0)
        else:
            noise += s @ s
    nan = float("nan")
    return (
        np.mean(cosines) if cosines else nan,
        product / np.sqrt(score_energy * label_energy) if score_energy * label_energy > 0 else nan,
        noise / score_energy if score_energy > 0 else nan,
    )


@given(st.lists(row, min_size=1, max_size=20))
def test_equals_loops(rows):
    task, score, label = zip(*rows, strict=True)
    found = advantage(table(Scores.of(task, score, label)))
    assert (found.cosine, found.cosine_all, found.noise_share) == pytest.approx(by_loops(rows), abs=1e-9, nan_ok=True)


def test_by_hand():
    # t: ŝ = ±.4, ŷ = ±.5 in step: cosine 1. u: one label, ŝ = ±.3: noise. Energies: .32 and .18, labels .5, product .4.
    found = advantage(table(Scores.of(["t", "t", "u", "u"], [0.9, 0.1, 0.8, 0.2], [1, 0, 1, 1])))
    assert found.cosine == pytest.approx(1.0)
    assert found.cosine_all == pytest.approx(0.4 / np.sqrt(0.5 * 0.5))
    assert found.noise_share == pytest.approx(0.18 / 0.5)


def test_a_group_of_equal_scores_has_no_energy_at_all():
    # 0.1 thrice has a mean of 0.10000000000000002 in floats
    found = advantage(table(Scores.of(["t"] * 3, [0.1] * 3, [1, 0, 1])))
    assert found.cosine == 0.0
    assert np.isnan(found.cosine_all)
    assert np.isnan(found.noise_share)
