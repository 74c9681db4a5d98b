"""The reward of an attempt: rewards and their ablations; each registers itself here.

    @reward("execution_free", needs_score=True)
    def execution_free(given: RewardInputs) -> dict[str, Floats]:
        return {"score": given.scores_N(), ...}

A registered reward is a choice on the command line (`rmlab rl reward=execution_free`) and a value of `reward.mode`. It returns its
summands by name, each of N attempts; the reward is their sum, and each is tracked as `rl/reward_NAME`.

s is a verifier's score (`rmlab.rl.reward_model`). A missing score is an error, never a 0. An attempt that failed because of the
environment has no label and no reward: it is repeated (`rmlab.rl.batch`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
from hydra.core.config_store import ConfigStore

from rmlab.errors import DataError, UsageError
from rmlab.microswe import actions as grammar
from rmlab.microswe.task import Task
from rmlab.rl.config import Floats, RewardConfig
from rmlab.trajectories.record import Trajectory
from rmlab.wording import near


@dataclass(frozen=True)
class RewardInputs:
    """N attempts, all with a label, and what a reward may be computed from. tasks: by id. score_N: what the verifier pays, transforms
    applied; None without a verifier."""

    trajectories: Sequence[Trajectory]
    config: RewardConfig
    tasks: Mapping[str, Task]
    score_N: Floats | None

    @property
    def resolved_N(self) -> Floats:
        """1 where the hidden tests pass, else 0."""
        return np.array([bool(t.resolved) for t in self.trajectories], dtype=np.float64)

    @property
    def penalty_N(self) -> Floats:
        """`reward.unfinished` where the attempt never submitted, else 0."""
        unfinished_N = np.array([t.exit_status == "unfinished" for t in self.trajectories], dtype=np.float64)
        return self.config.unfinished * unfinished_N

    def scores_N(self) -> Floats:
        """The verifier's scores. Raises DataError where one is missing."""
        score_N, count = self.score_N, len(self.trajectories)
        if score_N is None or len(score_N) != count:
            raise DataError(
                f"{count} attempts, but {0 if score_N is None else len(score_N)} scores: the reward needs one per attempt"
            )
        missing = np.flatnonzero(~np.isfinite(score_N))
        if len(missing):
            raise DataError(
                f"{len(missing)} of {count} attempts have no score, the first at {self.trajectories[missing[0]].task_id}: "
                "a missing score is not a reward. Use a verifier whose context holds whole episodes."
            )
        return score_N


Parts = dict[str, Floats]
Compute = Callable[[RewardInputs], Parts]


@dataclass(frozen=True)
class Reward:
    """name: of `reward.mode`. parts: the summands of N attempts' rewards. needs_score: whether a verifier pays."""

    name: str
    parts: Compute
    needs_score: bool


REWARDS: dict[str, Reward] = {}


def reward(name: str, needs_score: bool = False) -> Callable[[Compute], Compute]:
    """Registers a reward under its name, and makes it a choice of the configuration group `reward`."""

    def register(parts: Compute) -> Compute:
        REWARDS[name] = Reward(name, parts, needs_score)
        ConfigStore.instance().store(group="reward", name=name, node={"mode": name}, provider="rmlab.rl.rewards")
        return parts

    return register


@reward("execution")
def execution(given: RewardInputs) -> Parts:
    """1 resolved, -0.5 unfinished, else 0; an unfinished attempt that is resolved counts as resolved. A verifier pays nothing."""
    return {"execution": given.resolved_N, "unfinished": given.penalty_N * (1 - given.resolved_N)}


@reward("execution_free", needs_score=True)
def execution_free(given: RewardInputs) -> Parts:
    """s, and -0.5 + s where unfinished: all that is known without running the tests."""
    return {"score": given.scores_N(), "unfinished": given.penalty_N}


@reward("hybrid", needs_score=True)
def hybrid(given: RewardInputs) -> Parts:
    """execution + weight · s."""
    return {**execution(given), "score": given.config.weight * given.scores_N()}


@reward("similarity")
def similarity(given: RewardInputs) -> Parts:
    """Of the patch to the reference patch (SWE-RL, arXiv 2502.18449), -0.5 added where unfinished."""
    alike = [patch_similarity(t.patch or "", reference_patch(given.tasks[t.task_id])) for t in given.trajectories]
    return {"similarity": np.array(alike), "unfinished": given.penalty_N}


@reward("weak_tests")
def weak_tests(given: RewardInputs) -> Parts:
    """As execution, by the public call alone: a reward that a wrong program may earn."""
    passed_N = np.array([_passed(t) for t in given.trajectories], dtype=np.float64)
    return {"weak_tests": passed_N, "unfinished": given.penalty_N * (1 - passed_N)}


@dataclass(frozen=True)
class Rewards:
    """total_N: what is paid. parts: its summands by name, of the same length. plain_N: what offset and factor are applied to."""

    total_N: Floats
    parts: Parts
    plain_N: Floats


def rewards(
    trajectories: Sequence[Trajectory], config: RewardConfig, tasks: Mapping[str, Task], score_N: Floats | None = None
) -> Rewards:
    """The rewards of N attempts. tasks: by id. score_N: what the verifier pays, transforms applied; needed by the rewards that it pays.

    Raises DataError for an attempt without a label, and for a score that is missing.
    """
    for trajectory in trajectories:
        if trajectory.resolved is None:
            raise DataError(
                f"an attempt at {trajectory.task_id} has no label ({trajectory.exit_status}): "
                "an environment failure is never rewarded"
            )
    parts = REWARDS[config.mode].parts(RewardInputs(trajectories, config, tasks, score_N))
    plain_N = np.asarray(sum(parts.values()), dtype=np.float64)
    if not config.is_affine:
        return Rewards(plain_N, parts, plain_N)
    parts = {name: config.factor * part_N for name, part_N in parts.items()}
    return Rewards(
        config.offset + config.factor * plain_N, {**parts, "offset": np.full(len(plain_N), config.offset)}, plain_N
    )


def check_reward(config: RewardConfig, verifier: str) -> None:
    """Raises UsageError for a reward that is not there, or that needs a verifier where none is named (verifier: "")."""
    if config.mode not in REWARDS:
        raise UsageError(
            f"reward.mode={config.mode}: there is no such reward{near(config.mode, REWARDS)}; there are: {', '.join(REWARDS)}"
        )
    if REWARDS[config.mode].needs_score and not verifier:
        raise UsageError(f"reward={config.mode} needs a verifier: name one with verifier=RUN, CELL or FOLDER")
    if not config.factor > 0:
        raise UsageError(f"reward.factor={config.factor}: must be above 0, or better attempts would get lower rewards")
    if config.ensemble and not verifier:
        raise UsageError("reward.ensemble adds verifiers to `verifier`, which is empty: set verifier too")


def patch_similarity(patch: str, reference: str) -> float:
    """Ratio of matching characters of two patches, in [0, 1], by difflib as SWE-RL takes it; an empty patch is like nothing (0)."""
    return SequenceMatcher(None, patch, reference, autojunk=False).ratio() if patch else 0.0


def reference_patch(task: Task) -> str:
    """The lines that repair a task's program."""
    return grammar.patch(task.code, task.original)


def _passed(trajectory: Trajectory) -> bool:
    passed = trajectory.extra.get("public_passed")
    if passed is None:
        raise DataError(
            f"an attempt at {trajectory.task_id} does not say whether the public call passed, which is all that weak_tests rewards"
        )
    return bool(passed)
