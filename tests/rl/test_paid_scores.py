"""A verifier's own table as a reward pays it."""

from pathlib import Path

import numpy as np
import pytest

from rmlab.errors import DataError
from rmlab.metrics.recalibration import CALIBRATORS
from rmlab.rl.config import Calibration, RewardConfig, TransformConfig
from rmlab.rl.paid_scores import as_paid, attempts_of, changes_scores, paid_scores, ranks_within
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.tracking.references import Reference

NAN = float("nan")
TASKS, POLICIES = ["b", "a", "b", "a", "b"], ["p", "p", "p", "q", "q"]


def scores_of(seed: int) -> Scores:
    rng = np.random.default_rng(seed)
    label_N = rng.random(60) < 0.4
    score_N = np.clip(0.3 + 0.3 * label_N + 0.2 * rng.normal(size=60), 0.01, 0.99)
    score_N[7] = np.nan
    return Scores.of([f"t{i % 10}" for i in range(60)], score_N, label_N.tolist())


@pytest.fixture
def trained(tmp_path: Path) -> Reference:
    write_score_table(tmp_path / "scores.parquet", scores_of(0))
    write_score_table(tmp_path / "validation_scores.parquet", scores_of(1))
    return Reference(tmp_path / "model")


def test_scores_are_paid_as_they_are_unless_the_reward_changes_them(trained: Reference) -> None:
    own = scores_of(0)
    assert not changes_scores(RewardConfig())
    plain = paid_scores(trained.beside, RewardConfig())
    assert plain is not None
    np.testing.assert_array_equal(plain.score, own.score)
    bent = paid_scores(trained.beside, RewardConfig(transform=TransformConfig(slope=2.0, shift=0.5)))
    assert bent is not None
    logit = np.log(own.score / (1 - own.score))
    assert bent.score == pytest.approx(1 / (1 + np.exp(-(2 * logit + 0.5))), nan_ok=True)
    assert bent.resolved.tolist() == own.resolved.tolist()


def test_calibration_is_that_of_the_validation_scores_and_comes_before_the_transform(trained: Reference) -> None:
    own, validation = scores_of(0), scores_of(1)
    known = ~np.isnan(validation.score)
    fitted = CALIBRATORS["platt"](validation.score[known], validation.resolved[known]).apply
    reward = RewardConfig(calibration=Calibration.platt, transform=TransformConfig(shift=1.0))
    assert changes_scores(reward)
    paid = paid_scores(trained.beside, reward)
    assert paid is not None
    scored = ~np.isnan(own.score)
    calibrated = fitted(own.score[scored])
    expected = 1 / (1 + np.exp(-1.0) * (1 - calibrated) / calibrated)
    assert paid.score[scored] == pytest.approx(expected)
    assert np.isnan(paid.score[7])
    (trained.folder.parent / "validation_scores.parquet").unlink()
    with pytest.raises(DataError, match=r"reward\.calibration=platt is fitted on validation scores, but "):
        paid_scores(trained.beside, reward)


@pytest.mark.parametrize(
    "reward", [RewardConfig(ensemble=["x"]), RewardConfig(transform=TransformConfig(difficulty=1))]
)
def test_what_hangs_on_more_than_the_verifiers_scores_is_not_known(trained: Reference, reward: RewardConfig) -> None:
    assert paid_scores(trained.beside, reward) is None


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
