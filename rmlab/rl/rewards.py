"""What is an attempt paid? Rewards of design.md section 5, and their ablations.

    execution       1 resolved, -0.5 unfinished, else 0; an unfinished attempt that is resolved counts as resolved
    execution_free  s, and -0.5 + s where unfinished: all that is known without running the tests
    hybrid          execution + weight · s
    similarity      of the patch to the reference patch (SWE-RL), -0.5 added where unfinished
    weak_tests      as execution, by the public call alone

s is a verifier's score (`rmlab.rl.reward_model`). A score that is missing is an error, never a 0. An attempt that the
environment failed on has no label and no reward: it is made again (`rmlab.rl.attempts`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
from scipy.special import expit

from rmlab.errors import DataError
from rmlab.metrics.calibration import logit
from rmlab.microswe import actions as grammar
from rmlab.microswe.task import Task
from rmlab.rl.advantages import Codes, Floats
from rmlab.rl.config import RewardConfig, RewardMode, TransformConfig
from rmlab.trajectories.record import Trajectory


@dataclass(frozen=True)
class Rewards:
    """total_N: what is paid. parts: the summands of it by name (`execution`, `score`, `similarity`, `weak_tests`, `unfinished`), of
    the same length."""

    total_N: Floats
    parts: dict[str, Floats]


def rewards(
    trajectories: Sequence[Trajectory], config: RewardConfig, tasks: Mapping[str, Task], score_N: Floats | None = None
) -> Rewards:
    """The rewards of N attempts. tasks: by id. score_N: what the verifier pays, transforms applied; needed by the modes that it pays in.

    Raises DataError for an attempt without a label, and for a score that is missing.
    """
    for trajectory in trajectories:
        if trajectory.resolved is None:
            raise DataError(
                f"an attempt at {trajectory.task_id} has no label ({trajectory.exit_status}): "
                "an environment failure is never rewarded"
            )
    resolved_N = np.array([bool(t.resolved) for t in trajectories], dtype=np.float64)
    unfinished_N = np.array([t.exit_status == "unfinished" for t in trajectories], dtype=np.float64)
    parts: dict[str, Floats] = {}
    if config.mode in (RewardMode.execution, RewardMode.hybrid):
        parts["execution"] = resolved_N
        parts["unfinished"] = config.unfinished * unfinished_N * (1 - resolved_N)
    if config.mode is RewardMode.weak_tests:
        parts["weak_tests"] = np.array([_passed(t) for t in trajectories], dtype=np.float64)
        parts["unfinished"] = config.unfinished * unfinished_N * (1 - parts["weak_tests"])
    if config.mode is RewardMode.similarity:
        parts["similarity"] = np.array(
            [similarity(t.patch or "", reference_patch(tasks[t.task_id])) for t in trajectories]
        )
        parts["unfinished"] = config.unfinished * unfinished_N
    if config.needs_score:
        weight = config.weight if config.mode is RewardMode.hybrid else 1.0
        parts["score"] = weight * _all_there(score_N, trajectories)
        if config.mode is RewardMode.execution_free:
            parts["unfinished"] = config.unfinished * unfinished_N
    return Rewards(np.asarray(sum(parts.values()), dtype=np.float64), parts)


def similarity(patch: str, reference: str) -> float:
    """Ratio of matching characters of two patches, in [0, 1], by difflib as SWE-RL takes it; an empty patch is like nothing (0)."""
    return SequenceMatcher(None, patch, reference, autojunk=False).ratio() if patch else 0.0


def reference_patch(task: Task) -> str:
    """The lines that repair a task's program."""
    return grammar.patch(task.code, task.original)


def _passed(trajectory: Trajectory) -> bool:
    passed = trajectory.extra.get("public_passed")
    if passed is None:
        raise DataError(
            f"an attempt at {trajectory.task_id} does not say whether the public call passed: weak_tests pays for that alone"
        )
    return bool(passed)


def _all_there(score_N: Floats | None, trajectories: Sequence[Trajectory]) -> Floats:
    if score_N is None or len(score_N) != len(trajectories):
        raise DataError(
            f"{len(trajectories)} attempts and {0 if score_N is None else len(score_N)} scores: the reward needs one each"
        )
    missing = np.flatnonzero(~np.isfinite(score_N))
    if len(missing):
        raise DataError(
            f"{len(missing)} of {len(score_N)} attempts have no score, the first at {trajectories[missing[0]].task_id}: "
            "a missing score is not a reward. Take a verifier whose context holds whole episodes."
        )
    return score_N


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
