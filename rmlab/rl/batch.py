"""One batch of a step: new attempts, their rewards, and the advantage of each over the others at its task.

Attempts that failed because of the environment are repeated. Groups without signal (all attempts with the same reward) teach nothing:
they count in what is measured but not in the update; if `resample` allows it, new tasks replace them (dynamic sampling, DAPO).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rmlab.errors import RmlabError, UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.task import Task
from rmlab.policies.engine import Engine, EngineSeconds, Rollout, Sampling, seconds_of
from rmlab.policies.rollout import Planned, plan
from rmlab.rl.advantages import Codes, advantages, check_affine
from rmlab.rl.config import AlgorithmConfig, Floats, LoopConfig, RewardConfig
from rmlab.rl.outcome import behaviour, paid
from rmlab.rl.reward_model import RewardModel
from rmlab.rl.rewards import Rewards, rewards

BROKEN_SHARE = 0.1  # more attempts than this that stay without a label are not an accident


class TaskSampler:
    """Tasks in an order drawn anew each epoch by seed; `drawn` is its whole state."""

    def __init__(self, tasks: Sequence[Task], seed: int, drawn: int = 0):
        if not tasks:
            raise RmlabError("no task of the RL part holds on this machine: `rmlab doctor` shows what works")
        self.tasks, self.seed, self.drawn = sorted(tasks, key=lambda task: task.task_id), seed, drawn
        self._epoch, self._order = -1, list[int]()

    def draw(self, number: int) -> list[Task]:
        """The next tasks, all different (where an epoch ends within them, what was drawn already is passed over).

        Raises UsageError where there are not as many.
        """
        if number > len(self.tasks):
            raise UsageError(f"{number} different tasks are needed, but only {len(self.tasks)} exist: lower rl.groups")
        drawn: dict[str, Task] = {}
        while len(drawn) < number:
            task = self._next()
            drawn.setdefault(task.task_id, task)
        return list(drawn.values())

    def _next(self) -> Task:
        epoch, place = divmod(self.drawn, len(self.tasks))
        if epoch != self._epoch:
            keys = [fingerprint([self.seed, epoch, task.task_id]) for task in self.tasks]
            self._epoch, self._order = epoch, sorted(range(len(keys)), key=keys.__getitem__)
        self.drawn += 1
        return self.tasks[self._order[place]]


@dataclass(frozen=True)
class LabelledAttempts:
    """rollouts: with a label, in the order of the plan. retried: made again. lost: still without a label, left out. seconds: where
    the time of all of them went."""

    rollouts: list[Rollout]
    retried: int
    lost: int
    seconds: EngineSeconds


class SampledAndGreedy(NamedTuple):
    """Attempts with a label, in the order of tasks, and where the time of making them went."""

    sampled: list[Rollout]
    greedy: list[Rollout]
    seconds: EngineSeconds


def make_attempts(
    engine: Engine, tasks: Sequence[Task], name: str, attempts: int, sampling: Sampling, seed: int, retries: int
) -> LabelledAttempts:
    """`attempts` attempts at each task. An attempt that ended as an error of the environment is made again, up to `retries` times.

    name: of the policy in the trajectories. Raises RmlabError where over a tenth stays without a label.
    """
    wanted = [(planned, sampling) for planned in plan(tasks, [name], attempts)]
    rollouts, retried, seconds = _made(engine, wanted, seed, retries)
    kept = labelled(rollouts, retries)
    return LabelledAttempts(kept, retried, len(rollouts) - len(kept), seconds)


def sampled_and_greedy(
    engine: Engine, tasks: Sequence[Task], name: str, attempts: int, sampling: Sampling, seed: int, retries: int
) -> SampledAndGreedy:
    """`attempts` sampled attempts at each task and the greedy one, through the engine at once; in the order of tasks, with labels."""
    likeliest = Sampling(0.0, sampling.max_action_tokens)
    number = len(tasks) * attempts
    wanted = [
        *((p, sampling) for p in plan(tasks, [name], attempts)),
        *((p, likeliest) for p in plan(tasks, [name], 1)),
    ]
    rollouts, _, seconds = _made(engine, wanted, seed, retries)
    return SampledAndGreedy(labelled(rollouts[:number], retries), labelled(rollouts[number:], retries), seconds)


def labelled(rollouts: Sequence[Rollout], retries: int) -> list[Rollout]:
    """Those with a label. Raises RmlabError where over a tenth has none."""
    kept = [rollout for rollout in rollouts if rollout.trajectory.resolved is not None]
    if len(rollouts) - len(kept) > BROKEN_SHARE * len(rollouts):
        raise RmlabError(
            f"{len(rollouts) - len(kept)} of {len(rollouts)} attempts have no label after {retries} retries: the sandbox fails on "
            "this machine (`rmlab doctor`); nothing is learned from attempts that nobody could test"
        )
    return kept


def _made(
    engine: Engine, wanted: Sequence[tuple[Planned, Sampling]], seed: int, retries: int
) -> tuple[list[Rollout], int, EngineSeconds]:
    """One rollout for each that is wanted, in order, how many were made again, and where the time went."""
    rollouts, seconds = engine.rollout([planned for planned, _ in wanted], [sampling for _, sampling in wanted], seed)
    retried = 0
    for again in range(1, retries + 1):
        failed = [i for i, rollout in enumerate(rollouts) if rollout.trajectory.resolved is None]
        if not failed:
            break
        retried += len(failed)
        made, more = engine.rollout(
            [wanted[i][0] for i in failed],
            [wanted[i][1] for i in failed],
            int(fingerprint([seed, "again", again])[:8], 16),
        )
        seconds += more
        for i, rollout in zip(failed, made, strict=True):
            rollouts[i] = rollout
    return rollouts, retried, seconds


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
