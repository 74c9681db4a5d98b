"""One batch of a step: fresh attempts, what they are paid, and how much better each is than the others at its task.

Groups without signal (all attempts paid alike) teach nothing. They stay in what is measured and are left out of the update;
where `resample` allows it, fresh tasks are tried in their place (dynamic sampling, DAPO).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rmlab.fingerprint import fingerprint
from rmlab.microswe.task import Task
from rmlab.policies.engine import Engine, EngineSeconds, Rollout, Sampling, seconds_of
from rmlab.rl.advantages import Codes, advantages, check_affine
from rmlab.rl.attempts import TaskSampler, make_attempts
from rmlab.rl.config import AlgorithmConfig, Floats, LoopConfig, RewardConfig
from rmlab.rl.outcome import behaviour, paid
from rmlab.rl.reward_model import RewardModel
from rmlab.rl.rewards import Rewards, rewards


@dataclass(frozen=True)
class Batch:
    """N attempts of one step. learned: indices of those with a signal. score_N: None without a verifier. metrics: by name."""

    rollouts: list[Rollout]
    rewards: Rewards
    score_N: Floats | None
    advantage_N: Floats
    learned: list[int]
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RolloutContext:
    """What batches are made with. tasks: all, by id. reward_model: None where no verifier is named; where the reward needs no score,
    its scores are tracked and pay nothing. config: of the steps. name: of the policy in its trajectories."""

    engine: Engine
    sampler: TaskSampler
    reward_model: RewardModel | None
    tasks: Mapping[str, Task]
    reward: RewardConfig
    algorithm: AlgorithmConfig
    config: LoopConfig
    name: str
    seed: int


def make_batch(context: RolloutContext, step: int) -> Batch:
    """The batch of a step (0-based). Raises what rollouts and rewards raise."""
    config, seconds = context.config, {"rollout": 0.0, "scoring": 0.0}
    spent = EngineSeconds()
    kept: list[tuple[Rollout, int]] = []  # with its group
    retried = lost = groups = resampled = 0
    wanted, batch = config.groups, None
    for round_ in range(1 + config.resample):
        started = time.monotonic()
        tasks = context.sampler.draw(wanted)
        made = make_attempts(
            context.engine,
            tasks,
            context.name,
            config.attempts,
            Sampling(config.temperature, config.max_action_tokens),
            step_seed(context.seed, step, round_),
            config.retries,
        )
        spent += made.seconds
        seconds["rollout"] += time.monotonic() - started
        code = {task.task_id: groups + i for i, task in enumerate(tasks)}
        kept += [(rollout, code[rollout.trajectory.task_id]) for rollout in made.rollouts]
        groups, retried, lost = groups + len(tasks), retried + made.retried, lost + made.lost
        started = time.monotonic()
        batch = _rewarded(context, [r for r, _ in kept], np.array([g for _, g in kept], dtype=np.intp))
        seconds["scoring"] += time.monotonic() - started
        wanted = min(int(batch.metrics["groups_without_signal"]), config.groups) - resampled
        if wanted <= 0 or round_ == config.resample:
            break
        resampled += wanted
    assert batch is not None
    batch.metrics.update(
        {f"seconds_{name}": value for name, value in seconds.items()} | seconds_of(spent),
        retried=float(retried),
        lost=float(lost),
        resampled_groups=float(resampled),
        own_tokens=float(spent.own_tokens),
    )
    return batch


def _rewarded(context: RolloutContext, rollouts: list[Rollout], group_N: Codes) -> Batch:
    own = [rollout.trajectory for rollout in rollouts]
    scores = context.reward_model.score(own) if context.reward_model is not None else None
    score_N = None if scores is None else scores.score_N
    reward = rewards(own, context.reward, context.tasks, score_N)
    _, code_N = np.unique(group_N, return_inverse=True)
    codes_N = code_N.astype(np.intp)
    gained = advantages(reward.total_N, codes_N, context.algorithm)
    if context.reward.is_affine:
        check_affine(gained, reward.plain_N, codes_N, context.algorithm, context.reward.factor)
    metrics = {
        **behaviour(rollouts),
        **paid(reward),
        "groups_without_signal": float(gained.without_signal),
        "signal_share": 1 - gained.without_signal / max(gained.groups, 1),
    }
    if scores is not None:
        mean = float(scores.score_N.mean())
        metrics |= {
            "verifier_cut_share": scores.cut_share,
            "mean_score": mean,
            "score_beyond_truth": mean - metrics["true_rate"],
        }
    return Batch(rollouts, reward, score_N, gained.advantage_N, np.flatnonzero(gained.signal_N).tolist(), metrics)


def step_seed(seed: int, step: int, round_: int = 0) -> int:
    """The seed of one step's attempts: another one each step and round."""
    return int(fingerprint([seed, "step", step, round_])[:8], 16)
