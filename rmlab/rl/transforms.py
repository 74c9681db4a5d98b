"""Scores bent on purpose: what of a verifier does a policy notice?

Each transform leaves some offline metric as it was and moves another, so that runs which differ in one of them say which
metric foretells what RL does. All act on the logit and give scores in [0, 1] again.
"""

import numpy as np
from scipy.special import expit

from rmlab.errors import DataError
from rmlab.metrics.calibration import logit
from rmlab.rl.advantages import Codes, Floats
from rmlab.rl.config import TransformConfig


def transform(score_N: Floats, group_N: Codes, config: TransformConfig, difficulty_N: Floats | None = None) -> Floats:
    """The scores after the configured changes, in this order: slope and shift, spread within the group, difficulty.

    score_N: in [0, 1]; its logit is taken at a clip of 1e-6. group_N: codes of the attempts' tasks. difficulty_N: log odds that
    the start solves the attempt's task. With the default configuration the scores come back as they are.
    Raises DataError where a difficulty is asked for and not known.
    """
    if config == TransformConfig():
        return np.asarray(score_N, dtype=np.float64)
    logit_N = config.slope * logit(score_N) + config.shift
    if config.spread != 1.0:
        mean_G = np.bincount(group_N, logit_N) / np.maximum(np.bincount(group_N), 1)
        logit_N = mean_G[group_N] + config.spread * (logit_N - mean_G[group_N])
    if config.difficulty:
        if difficulty_N is None:
            raise DataError("reward.transform.difficulty is set and the tasks' difficulty is not known")
        logit_N = logit_N + config.difficulty * difficulty_N
    return np.asarray(expit(logit_N), dtype=np.float64)


def log_odds(resolved_N: Floats, group_N: Codes) -> Floats:
    """Log odds of each group's resolved rate, with half a success and half a failure added so that they are finite."""
    wins_G = np.bincount(group_N, resolved_N)
    all_G = np.bincount(group_N)
    return np.asarray(np.log((wins_G + 0.5) / (all_G - wins_G + 0.5)), dtype=np.float64)
