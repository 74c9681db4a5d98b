"""How near would the advantages of a reward come to those of the labels? Known before RL, from a verifier's own score table.

A metric of the verifier alone says little of a reward that execution pays too: scores that hardly differ within a task leave such a reward
nearly as it is, whatever their order. So the reward is asked as it is paid, with advantages as RL computes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmlab.errors import DataError
from rmlab.metrics.discrimination import cosine_all
from rmlab.rl.advantages import advantages
from rmlab.rl.config import AlgorithmConfig, Floats, RewardConfig
from rmlab.rl.paid_scores import attempts_of
from rmlab.rl.rewards import REWARDS, RewardInputs
from rmlab.scores.scores import Scores
from rmlab.trajectories.record import Trajectory


class NoTrajectories(Sequence[Trajectory]):
    """In place of the attempts of a score table, which has none: whatever asks for them gets a DataError."""

    def __len__(self) -> int:
        raise DataError("a score table has no attempts, only their scores and labels")

    def __getitem__(self, index: Any) -> Any:
        return len(self)


@dataclass(frozen=True)
class TableInputs(RewardInputs):
    """N attempts of a score table: their scores and labels. It does not say which of them were never submitted, so the penalty for these
    is 0."""

    label_N: Floats

    @property
    def resolved_N(self) -> Floats:
        return self.label_N

    @property
    def penalty_N(self) -> Floats:
        return np.zeros_like(self.label_N)

    def scores_N(self) -> Floats:
        assert self.score_N is not None
        return self.score_N


def paid_cosine(paid: Scores, reward: RewardConfig, algorithm: AlgorithmConfig) -> float:
    """Cosine of the advantages of the reward and those of the labels at its offset and factor, over all groups together, in [-1, 1].

    paid: scores as they are paid (`rmlab.rl.paid_scores`); attempts of one policy at one task are a group, and those without a score or
    label are left out. NaN for a reward without a verifier or of more than scores and labels, and where all advantages of a side are 0.
    """
    known_N = ~np.isnan(paid.score) & ~np.isnan(paid.resolved)
    if not REWARDS[reward.mode].needs_score or not known_N.any():
        return np.nan
    group_N = np.unique(attempts_of(paid)[known_N], return_inverse=True)[1].astype(np.intp)
    given = TableInputs(NoTrajectories(), reward, {}, paid.score[known_N], paid.resolved[known_N])
    try:
        sides = (sum(REWARDS[reward.mode].parts(given).values()), given.label_N)
    except DataError:
        return np.nan
    paid_N, right_N = (
        advantages(reward.offset + reward.factor * np.asarray(side_N), group_N, algorithm).advantage_N
        for side_N in sides
    )
    product, *energies = (
        np.array([a_N @ b_N]) for a_N, b_N in ((paid_N, right_N), (paid_N, paid_N), (right_N, right_N))
    )
    return float(cosine_all(product, *energies)[0])
