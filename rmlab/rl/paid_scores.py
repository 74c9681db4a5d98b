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
from rmlab.rl.advantages import Codes, transform
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
    (other verifiers, the difficulty of tasks)."""
    if reward.ensemble or reward.transform.difficulty:
        return None
    scores = read_score_table(file_of(SCORES))
    if not changes_scores(reward):
        return scores
    return as_paid(scores, reward.transform, calibrator(file_of, reward.calibration))


def as_paid(
    scores: Scores, config: TransformConfig, calibrate: Callable[[Floats], Floats] = lambda score_N: score_N
) -> Scores:
    """A table with its scores calibrated, then transformed. Attempts of one policy at one task are a group; an attempt without a score
    stays without one.

    Raises DataError as `rmlab.rl.advantages.transform`.
    """
    known_N = ~np.isnan(scores.score)
    paid_N = scores.score.copy()
    paid_N[known_N] = transform(calibrate(scores.score[known_N]), attempts_of(scores)[known_N], config)
    return replace(scores, score=paid_N)


def attempts_of(scores: Scores) -> Codes:
    """The group of each of N attempts: codes of its task and policy."""
    names = [f"{task} {policy}" for task, policy in zip(scores.task_id, scores.policy, strict=True)]
    return np.unique(names, return_inverse=True)[1].astype(np.intp)


def ranks_within(scores: Scores) -> Codes:
    """Of each of N attempts, in the order of group and score, how many distinct scores of groups come before it: two tables of the same
    attempts have equal values where all ranks within groups are equal, and ties are ties. Attempts without a score come last, as ties."""
    group_N, score_N = attempts_of(scores), np.where(np.isnan(scores.score), np.inf, scores.score)
    order_N = np.lexsort((score_N, group_N))
    group, score = group_N[order_N], score_N[order_N]
    rank_N = np.zeros(len(scores), np.intp)
    rank_N[order_N[1:]] = np.cumsum((group[1:] != group[:-1]) | (score[1:] != score[:-1]))
    return rank_N
