"""How much better is an attempt than the others at its task? Group-relative advantages (GRPO, arXiv 2402.03300).

Rewards are centred within a group. Dividing by the group's standard deviation makes every task weigh alike and blows up
groups that hold little but noise; a floor on the reward's own scale bounds that, and leaving the division out is
Dr. GRPO (arXiv 2503.20783).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rmlab.errors import DataError, UsageError
from rmlab.rl.config import AlgorithmConfig, Floats, Scale

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
        raise UsageError(f"algorithm.std_floor={config.std_floor}: it must be above 0 (or take algorithm.scale=none)")
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
            f"an advantage of reward.offset + reward.factor · r is off by {apart:.1e} from that of r: the offset is too large beside "
            "the factor for float64"
        )
