"""A verifier's scores bent on purpose: each change moves one property that offline metrics see, and leaves another as it is.

Applied to the logit, in this order: slope; the group's mean and the distance from it (`between`, `spread`); shift and difficulty.
Whatever is the same for all attempts of a group, or rises with the score, keeps the order within the group. That is asserted for
every batch (`check_order`), not only said: an ablation of calibration at equal ranks is none if a rank has moved.
"""

import numpy as np
from scipy.special import expit

from rmlab.errors import DataError
from rmlab.rl.advantages import Codes
from rmlab.rl.config import Floats, TransformConfig

LOWEST, HIGHEST = 1e-45, 1 - 1e-8
"""Between these lie all scores in float32 but 0 and 1 themselves, so that no two of them share a logit."""
SATURATED = 1 - 6e-9
"""Above it float64 may not tell two scores apart that float32 did, if their logits were stretched."""


def transform(score_N: Floats, group_N: Codes, config: TransformConfig, difficulty_N: Floats | None = None) -> Floats:
    """The scores after the configured changes. With the default configuration they come back as they are.

    score_N: in [0, 1], in the arithmetic of float32. group_N: codes of the attempts' tasks. difficulty_N: log odds that the start
    solves the attempt's task.
    Raises DataError where a difficulty is asked for and not known, and where the order within a group did not stay.
    """
    if config == TransformConfig():
        return np.asarray(score_N, dtype=np.float64)
    held_V, place_N = np.unique(np.clip(score_N, LOWEST, HIGHEST), return_inverse=True)  # so that ties stay ties
    logit_N = config.slope * (np.log(held_V) - np.log1p(-held_V))[place_N]
    if config.spread != 1.0 or config.between != 1.0:
        mean_G = np.bincount(group_N, logit_N) / np.maximum(np.bincount(group_N), 1)
        logit_N = config.between * mean_G[group_N] + config.spread * (logit_N - mean_G[group_N])
    logit_N = logit_N + config.shift
    if config.difficulty:
        if difficulty_N is None:
            raise DataError("reward.transform.difficulty is set and the tasks' difficulty is not known")
        logit_N = logit_N + config.difficulty * difficulty_N
    bent_N = np.asarray(expit(logit_N), dtype=np.float64)
    if config.slope > 0 and config.spread > 0:
        check_order(np.asarray(score_N, dtype=np.float64), bent_N, group_N)
    return bent_N


def check_order(before_N: Floats, after_N: Floats, group_N: Codes) -> None:
    """Raises DataError unless attempts of one group are in the same order as before: none passed another, ties are ties, and what was
    apart is apart, but for pairs that are both driven into saturation."""
    order_N = np.lexsort((before_N, group_N))
    before, after, group = before_N[order_N], after_N[order_N], group_N[order_N]
    same, apart = group[1:] == group[:-1], before[1:] > before[:-1]
    wrong = np.where(
        apart, (after[1:] < after[:-1]) | ((after[1:] == after[:-1]) & (after[1:] < SATURATED)), after[1:] != after[:-1]
    )
    if (same & wrong).any():
        i = int(np.flatnonzero(same & wrong)[0])
        raise DataError(
            f"reward.transform changed the order within {len(np.unique(group[1:][same & wrong]))} of {len(np.unique(group_N))} groups: "
            f"scores {before[i]:.9g} and {before[i + 1]:.9g} became {after[i]:.9g} and {after[i + 1]:.9g}. Take a slope nearer to 1."
        )


def log_odds(resolved_N: Floats, group_N: Codes) -> Floats:
    """Log odds of each group's resolved rate, with half a success and half a failure added so that they are finite."""
    wins_G = np.bincount(group_N, resolved_N)
    all_G = np.bincount(group_N)
    return np.asarray(np.log((wins_G + 0.5) / (all_G - wins_G + 0.5)), dtype=np.float64)
