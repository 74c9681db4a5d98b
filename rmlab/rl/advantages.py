"""How much better is an attempt than the others at its task? Group-relative advantages (GRPO, arXiv 2402.03300).

Rewards are centred within a group. Dividing by the group's standard deviation gives every task the same weight and amplifies
groups that contain little but noise; a floor on the scale of the reward limits this, and omitting the division is
Dr. GRPO (arXiv 2503.20783).

Before that, a verifier's scores can be distorted on purpose (`transform`): each change moves one property that offline metrics measure
and keeps another. The changes apply to the logit, in this order: slope; the group's mean and the distance from it (`between`,
`spread`); shift and difficulty. A change that is the same for all attempts of a group, or increases with the score, keeps the order
within the group. `check_order` asserts this for every batch: an ablation of calibration at equal ranks is void if a rank has moved.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from rmlab.errors import DataError, UsageError
from rmlab.rl.config import AlgorithmConfig, Floats, Scale, TransformConfig

Codes = NDArray[np.intp]


@dataclass(frozen=True)
class Advantages:
    """advantage_N: of each attempt. signal_N: False where all rewards of its group are equal: such attempts teach nothing and
    are left out of every mean. groups, without_signal: how many groups there are, and how many of those have none."""

    advantage_N: Floats
    signal_N: NDArray[np.bool_]
    groups: int
    without_signal: int


def advantages(reward_N: Floats, group_N: Codes, config: AlgorithmConfig) -> Advantages:
    """Advantages of N attempts. group_N: codes 0, 1, ... of the attempt's task, each with at least one attempt.

    The standard deviation is that of the group itself (divisor: its size). Raises DataError for a reward that is missing or
    infinite, UsageError for a floor that is not above 0.
    """
    reward_N = np.asarray(reward_N, dtype=np.float64)
    if len(reward_N) and not np.isfinite(reward_N).all():
        row = int(np.flatnonzero(~np.isfinite(reward_N))[0])
        raise DataError(
            f"attempt {row + 1} of {len(reward_N)} has the reward {reward_N[row]}: every attempt that is trained on needs one"
        )
    if config.scale is Scale.std and config.std_floor <= 0:
        raise UsageError(f"algorithm.std_floor={config.std_floor}: must be above 0 (or use algorithm.scale=none)")
    groups = int(group_N.max(initial=-1)) + 1
    size_G = np.maximum(np.bincount(group_N, minlength=groups), 1)
    low_G, high_G = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(low_G, group_N, reward_N)
    np.maximum.at(high_G, group_N, reward_N)
    signal_G = high_G > low_G
    centred_N = reward_N - (np.bincount(group_N, reward_N, groups) / size_G)[group_N]
    if config.scale is Scale.std:
        std_G = np.sqrt(np.bincount(group_N, centred_N**2, groups) / size_G)
        centred_N = centred_N / np.maximum(std_G, config.std_floor)[group_N]
    signal_N = signal_G[group_N]
    # A mean of equal numbers may be off by a rounding error, which would pass for an advantage.
    return Advantages(np.where(signal_N, centred_N, 0.0), signal_N, groups, int((~signal_G).sum()))


AFFINE = 1e-6
"""By how much an advantage may be off by rounding; float32, in which it is trained on, is no finer."""


def check_affine(
    advantage: Advantages, reward_N: Floats, group_N: Codes, config: AlgorithmConfig, factor: float
) -> None:
    """Asserts what theory says of rewards offset + factor · r: divided by the group's standard deviation they have the advantages of
    r at a floor that is smaller by the factor; not divided, factor times them. advantage: of the former. reward_N: r.

    Raises DataError where they have not.
    """
    divided = config.scale is Scale.std
    plain = advantages(reward_N, group_N, replace(config, std_floor=config.std_floor / factor) if divided else config)
    expected_N = plain.advantage_N * (1.0 if divided else factor)
    apart = float(np.abs(advantage.advantage_N - expected_N).max(initial=0.0))
    if apart > AFFINE * max(1.0, factor):
        raise DataError(
            f"an advantage of reward.offset + reward.factor · r is off by {apart:.1e} from that of r: the offset is too large relative to "
            "the factor for float64"
        )


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
            raise DataError("reward.transform.difficulty is set, but the difficulty of the tasks is unknown")
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
            f"scores {before[i]:.9g} and {before[i + 1]:.9g} became {after[i]:.9g} and {after[i + 1]:.9g}. Use a slope closer to 1."
        )


def log_odds(resolved_N: Floats, group_N: Codes) -> Floats:
    """Log odds of each group's resolved rate, with half a success and half a failure added so that they are finite."""
    wins_G = np.bincount(group_N, resolved_N)
    all_G = np.bincount(group_N)
    return np.asarray(np.log((wins_G + 0.5) / (all_G - wins_G + 0.5)), dtype=np.float64)
