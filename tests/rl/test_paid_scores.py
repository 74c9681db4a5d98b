"""A verifier's own table as a reward pays it."""

from pathlib import Path

import numpy as np
import pytest

from rmlab.errors import DataError
from rmlab.metrics.recalibration import CALIBRATORS
from rmlab.rl.config import Calibration, RewardConfig, TransformConfig
from rmlab.rl.paid_scores import changes_scores, paid_scores
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.tracking.references import Reference


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
