"""A score table as a reward would pay it."""

import numpy as np
import pytest

from rmlab.errors import DataError
from rmlab.rl.config import TransformConfig
from rmlab.rl.paid_table import as_paid, attempts_of, ranks_within
from rmlab.scores.scores import Scores

NAN = float("nan")
TASKS, POLICIES = ["b", "a", "b", "a", "b"], ["p", "p", "p", "q", "q"]


def table(*score: float) -> Scores:
    return Scores.of(TASKS, score, [1, 0, 1, 0, 1], policy=POLICIES)


def test_attempts_of_one_policy_at_one_task_are_a_group() -> None:
    assert attempts_of(table(0.1, 0.2, 0.3, 0.4, 0.5)).tolist() == [2, 0, 2, 1, 3]


def test_scores_are_calibrated_then_transformed_and_missing_ones_stay_missing() -> None:
    paid = as_paid(
        table(0.5, NAN, 0.25, 0.5, 0.5), TransformConfig(shift=float(np.log(3))), lambda score_N: score_N / 2
    )
    assert paid.score[[0, 2, 3]] == pytest.approx([0.5, 0.3, 0.5])  # odds of 1/3, 1/7 and 1/3, times 3
    assert np.isnan(paid.score[1])
    with pytest.raises(DataError, match="difficulty"):
        as_paid(table(0.5, 0.5, 0.5, 0.5, 0.5), TransformConfig(difficulty=1.0))


def test_ranks_are_those_within_a_group() -> None:
    one = table(0.5, 0.9, 0.2, 0.1, 0.3)
    assert ranks_within(one).tolist() == [3, 0, 2, 1, 4]
    assert np.array_equal(ranks_within(one), ranks_within(table(0.7, 0.1, 0.6, 0.9, 0.1))), "other groups may pass it"
    for other in (table(0.2, 0.9, 0.5, 0.1, 0.3), table(0.5, 0.9, 0.5, 0.1, 0.3), table(0.5, 0.9, NAN, 0.1, 0.3)):
        assert not np.array_equal(ranks_within(one), ranks_within(other)), "changed places, a tie, a missing score"
