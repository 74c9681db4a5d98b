from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmlab.metrics.calibration import of_attempts, of_picks, risk_coverage
from rmlab.metrics.report import report
from rmlab.metrics.table import table
from rmlab.metrics.weighted_sorted import ConfidenceOrder
from rmlab.scores.scores import Scores

rows = st.lists(st.tuples(st.sampled_from([0.5, 0.7, 0.9]), st.booleans()), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(rows)
def test_ties_are_the_mean_over_all_orders(rows):
    curves = []
    for order in permutations(rows):
        error = [wrong for _, wrong in sorted(order, key=lambda row: -row[0])]
        curves.append(np.cumsum(error) / np.arange(1, len(error) + 1))
    found = risk_coverage(np.array([c for c, _ in rows]), np.array([float(e) for _, e in rows]))
    assert found.risk_N == pytest.approx(np.mean(curves, axis=0))
    assert found.aurc == pytest.approx(np.mean(curves))


def test_by_hand():
    # Confidence .9 right, .8 wrong, .6 right: risks 0, 1/2, 1/3.
    found = of_attempts(table(Scores.of(["a", "b", "c"], [0.9, 0.2, 0.6], [1, 1, 1])))
    assert found.risk_N == pytest.approx([0, 1 / 2, 1 / 3])
    assert found.aurc == pytest.approx(5 / 18)
    assert found.excess == pytest.approx(5 / 18 - 1 / 9)  # the one error last
    assert found.at([0.1, 0.34, 0.6667, 1.0]) == pytest.approx([0, 1 / 2, 1 / 3, 1 / 3])


def test_picks_by_hand():
    # t picks its .9 (unresolved), u its .4 (resolved): the surer pick is the wrong one.
    scores = Scores.of(["t", "t", "u", "u", "v"], [0.9, 0.1, 0.4, 0.3, np.nan], [0, 1, 1, 0, 1])
    assert of_picks(table(scores)).risk_N == pytest.approx([1, 1 / 2])


def test_no_scored_row_is_undefined():
    found = report(Scores.of(["t"], [np.nan], [1]), replicates=5)
    assert found["aurc"] is None
    assert found["aurc_picks_excess"] is None
    assert set(found["risk_coverage"].values()) == {None}


@pytest.mark.parametrize("ties", [True, False])
def test_weights_equal_the_table_that_is_really_resampled(make_scores, ties):
    scores = make_scores(5, tasks=8, ties=ties, cluster_size=2)
    rows = table(scores)
    drawn_RC = (
        np.random.default_rng(0)
        .multinomial(rows.clusters, np.full(rows.clusters, 1 / rows.clusters), size=5)
        .astype(float)
    )
    found = ConfidenceOrder(rows).values(drawn_RC)
    names = np.unique(scores.cluster)
    for r, weight_C in enumerate(drawn_RC):
        copies = [
            (scores.select(scores.cluster == name), copy)
            for name, weight in zip(names, weight_C, strict=True)
            for copy in range(int(weight))
        ]
        real = table(
            Scores.of(
                *(
                    np.concatenate(column)
                    for column in (
                        [[f"{t} {copy}" for t in part.task_id] for part, copy in copies],
                        [part.score for part, _ in copies],
                        [part.resolved for part, _ in copies],
                    )
                )
            )
        )
        assert found["aurc"][r] == pytest.approx(of_attempts(real).aurc)
        assert found["aurc_picks"][r] == pytest.approx(of_picks(real).aurc)
