"""A verifier's own score table as a reward would pay it: the same attempts, with their scores changed."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rmlab.rl.advantages import Codes, transform
from rmlab.rl.config import Floats, TransformConfig
from rmlab.scores.scores import Scores


def as_paid(
    scores: Scores, config: TransformConfig, calibrate: Callable[[Floats], Floats] = lambda score_N: score_N
) -> Scores:
    """The table with its scores calibrated and transformed. Attempts of one policy at one task are a group; an attempt without a score
    stays without one. calibrate: comes first.

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
