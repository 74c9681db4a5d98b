"""What would a reward pay for the attempts of a verifier's own table? Its scores, calibrated and transformed as in RL, without the model.

Where other verifiers or the difficulty of tasks have a say in what is paid, the table alone does not tell it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from rmlab.errors import DataError, StoreError
from rmlab.metrics.recalibration import CALIBRATORS
from rmlab.metrics.table import table
from rmlab.rl.advantages import transform
from rmlab.rl.config import Calibration, Floats, RewardConfig, TransformConfig
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table
from rmlab.tracking.references import VALIDATION_SCORES

SCORES = "scores.parquet"
"""The evaluation table that the training of a verifier leaves."""
FileOf = Callable[[str], Path]
"""Where a file lies that the training of a verifier left, by its name: `Reference.beside`, or `artifact` of its run."""


def changes_scores(reward: RewardConfig) -> bool:
    """Whether scores are calibrated or bent before they are paid."""
    return reward.calibration is not Calibration.none or reward.transform != TransformConfig()


def calibrator(file_of: FileOf, kind: Calibration) -> Callable[[Floats], Floats]:
    """The map of a verifier's scores that its validation scores ask for. Raises DataError where it needs them and they are missing."""
    if kind is Calibration.none:
        return lambda score_N: score_N
    try:
        path = file_of(VALIDATION_SCORES)
    except (DataError, StoreError) as error:
        raise DataError(
            f"reward.calibration={kind.value} is fitted on validation scores, but {error}. Name a verifier by its run, train it "
            "with evaluation.validation_tasks above 0, or set reward.calibration=none."
        ) from error
    rows = table(read_score_table(path)).scored
    return CALIBRATORS[kind.value](rows.score_N, rows.label_N).apply


def paid_scores(file_of: FileOf, reward: RewardConfig) -> Scores | None:
    """The verifier's own evaluation table as the reward would pay it; None where what is paid hangs on more than this verifier's scores
    (other verifiers, the difficulty of tasks). Attempts of one policy at one task are a group."""
    if reward.ensemble or reward.transform.difficulty:
        return None
    scores = read_score_table(file_of(SCORES))
    if not changes_scores(reward):
        return scores
    known_N = ~np.isnan(scores.score)
    group = [f"{task} {policy}" for task, policy in zip(scores.task_id[known_N], scores.policy[known_N], strict=True)]
    _, group_N = np.unique(group, return_inverse=True)
    calibrated_N = calibrator(file_of, reward.calibration)(scores.score[known_N])
    paid_N = scores.score.copy()
    paid_N[known_N] = transform(calibrated_N, group_N.astype(np.intp), reward.transform)
    return replace(scores, score=paid_N)
