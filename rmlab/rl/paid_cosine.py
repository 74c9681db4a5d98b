"""How near would the advantages of a reward come to those of the labels? Known before RL, from a verifier's own score table.

A metric of the verifier alone says little of a reward that execution pays too: scores that hardly differ within a task leave such a reward
nearly as it is, whatever their order. So the reward is asked as it is paid, with advantages as RL computes them.
"""

from collections.abc import Callable

import numpy as np

from rmlab.metrics.discrimination import cosine_all
from rmlab.rl.advantages import advantages
from rmlab.rl.config import AlgorithmConfig, Floats, RewardConfig
from rmlab.rl.paid_scores import attempts_of
from rmlab.scores.scores import Scores

REWARD: dict[str, Callable[[Floats, Floats, RewardConfig], Floats]] = {
    "execution_free": lambda score_N, label_N, config: score_N,
    "hybrid": lambda score_N, label_N, config: label_N + config.weight * score_N,
}
"""Rewards from scores and labels, without the penalty for unfinished attempts, which a score table does not name."""


def paid_cosine(paid: Scores, reward: RewardConfig, algorithm: AlgorithmConfig) -> float:
    """Cosine of the advantages of the reward and those of the labels at its offset and factor, over all groups together, in [-1, 1].

    paid: scores as they are paid (`rmlab.rl.paid_scores`); attempts of one policy at one task are a group, and those without a score or
    label are left out. NaN for a reward without a verifier, and where all advantages of a side are 0.
    """
    pay = REWARD.get(reward.mode)
    known_N = ~np.isnan(paid.score) & ~np.isnan(paid.resolved)
    if pay is None or not known_N.any():
        return np.nan
    group_N = np.unique(attempts_of(paid)[known_N], return_inverse=True)[1].astype(np.intp)
    label_N = paid.resolved[known_N]
    sides = (pay(paid.score[known_N], label_N, reward), label_N)
    paid_N, right_N = (
        advantages(reward.offset + reward.factor * side_N, group_N, algorithm).advantage_N for side_N in sides
    )
    product, *energies = (
        np.array([a_N @ b_N]) for a_N, b_N in ((paid_N, right_N), (paid_N, paid_N), (right_N, right_N))
    )
    return float(cosine_all(product, *energies)[0])
