"""How are a policy's weights changed by a batch of attempts? Optimiser steps over micro-batches of like length.

The tokens are those that were sampled, never the text again. Log-probabilities of the sampling policy are computed once by
the very forward pass that is trained (the ratio of the first optimiser step is then exactly 1); how far the engine's own
log-probabilities are from them is measured (`rollout_gap`): it is what lower arithmetic in the engine costs.

One batch of a step: fresh attempts, what they are paid, and how much better each is than the others at its task.

Groups without signal (all attempts paid alike) teach nothing. They stay in what is measured and are left out of the update;
where `resample` allows it, fresh tasks are tried in their place (dynamic sampling, DAPO).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from rmlab.fingerprint import fingerprint
from rmlab.microswe.task import Task
from rmlab.policies.engine import Engine, EngineSeconds, Rollout, Sampling, seconds_of
from rmlab.rl.attempts import TaskSampler, make_attempts
from rmlab.rl.config import AlgorithmConfig, Floats, LoopConfig, RewardConfig
from rmlab.rl.learner import Learner
from rmlab.rl.losses import Codes, advantages, loss_count, policy_loss
from rmlab.rl.outcome import behaviour, paid
from rmlab.rl.reward_model import RewardModel
from rmlab.rl.rewards import Rewards, rewards
from rmlab.training.batching import batches_by_tokens
from rmlab.training.optimizer import accumulate, apply_gradient, check_finite
from rmlab.training.policy import token_logprobs


@dataclass(frozen=True)
class BatchLogprobs:
    """The batch under the policy that sampled it, one entry an attempt: log-probabilities of all tokens (0 where not own), those
    of the start (None where not asked for), and metrics."""

    old: list[torch.Tensor]
    start: list[torch.Tensor] | None
    metrics: dict[str, float]


def batch_logprobs(learner: Learner, rollouts: Sequence[Rollout], loop: LoopConfig, with_start: bool) -> BatchLogprobs:
    """Computes what the update needs of the batch. with_start: also the start's log-probabilities, and with them the KL."""
    old: dict[int, torch.Tensor] = {}
    start: dict[int, torch.Tensor] = {}
    total, gap, widest, entropy_sum, kl = 0.0, 0.0, 0.0, 0.0, 0.0
    with torch.no_grad():
        for rows in _by_length(rollouts, loop.batch_tokens):
            ids_BT, own_BT, sampled_BT = _padded([rollouts[i] for i in rows], learner)
            with learner.device.autocast():
                logprob_BT, entropy_BT = token_logprobs(learner.model, ids_BT, own_BT, loop.temperature, entropy=True)
            apart_BT = (logprob_BT - sampled_BT).abs() * own_BT
            total += float(own_BT.sum())
            gap += float(apart_BT.sum())
            widest = max(widest, float(apart_BT.max()))
            entropy_sum += float(entropy_BT.sum()) if entropy_BT is not None else 0.0
            old.update(zip(rows, logprob_BT, strict=True))
            if with_start and learner.reference is not None:
                with learner.reference() as model, learner.device.autocast():
                    start_BT, _ = token_logprobs(model, ids_BT, own_BT, loop.temperature)
                kl += float(((logprob_BT - start_BT) * own_BT).sum())
                start.update(zip(rows, start_BT, strict=True))
    metrics = {"entropy": entropy_sum / max(total, 1), "rollout_gap": gap / max(total, 1), "rollout_gap_max": widest}
    if start:
        metrics["kl_to_start"] = kl / max(total, 1)
    order = range(len(rollouts))
    return BatchLogprobs([old[i] for i in order], [start[i] for i in order] if start else None, metrics)


def update(
    learner: Learner,
    rollouts: Sequence[Rollout],
    advantage_N: Floats,
    before: BatchLogprobs,
    algorithm: AlgorithmConfig,
    loop: LoopConfig,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Changes the weights by the attempts that have a signal; returns metrics, averaged over what they count.

    rng: deals the attempts to optimiser steps. Raises RmlabError where the loss or a gradient is no longer finite.
    """
    norms: list[float] = []
    sums: dict[str, float] = {}
    for _ in range(loop.passes):
        order = rng.permutation(len(rollouts))
        for part in np.array_split(order, min(loop.updates, len(rollouts))):
            norms.append(_step(learner, [int(i) for i in part], rollouts, advantage_N, before, algorithm, loop, sums))
    steps = max(len(norms), 1)
    metrics = {
        "gradient_norm": sum(norms) / steps,
        "gradient_norm_max": max(norms, default=0.0),
        "optimizer_steps": float(len(norms)),
    }
    if sums:
        metrics |= {
            "loss": sums["loss"] / steps,
            "ratio": sums["ratio"] / sums["ratios"],
            "clip_share": sums["clipped"] / sums["ratios"],
            "guarded_share": sums["guarded"] / sums["ratios"],
        }
        if "kl" in sums:
            metrics["kl_estimate"] = sums["kl"] / sums["tokens"]
    return metrics


def _step(
    learner: Learner,
    part: Sequence[int],
    rollouts: Sequence[Rollout],
    advantage_N: Floats,
    before: BatchLogprobs,
    algorithm: AlgorithmConfig,
    loop: LoopConfig,
    sums: dict[str, float],
) -> float:
    """One optimiser step over the attempts of `part`; adds to `sums` and returns the gradient's norm before clipping."""
    count = loss_count(sum(rollouts[i].own_tokens for i in part), len(part), algorithm)

    def loss(rows: Sequence[int]) -> torch.Tensor:
        chosen = [part[row] for row in rows]
        ids_BT, own_BT, _ = _padded([rollouts[i] for i in chosen], learner)
        width = ids_BT.shape[1]
        with learner.device.autocast():
            logprob_BT, entropy_BT = token_logprobs(
                learner.model,
                ids_BT,
                own_BT,
                loop.temperature,
                entropy=bool(algorithm.entropy_weight),
                entropy_gradient=True,
            )
        old_BT = torch.stack([_widened(before.old[i], width) for i in chosen])
        start_BT = (
            torch.stack([_widened(before.start[i], width) for i in chosen])
            if before.start and algorithm.kl_weight
            else None
        )
        advantage_B = torch.tensor(advantage_N[chosen], dtype=torch.float32, device=ids_BT.device)
        found = policy_loss(logprob_BT, old_BT, own_BT, advantage_B, algorithm, count, start_BT, entropy_BT)
        for name, value in found.sums.items():
            sums[name] = sums.get(name, 0.0) + value
        return found.loss

    def check(norm: torch.Tensor) -> None:
        guard = algorithm.ratio_guard
        beside = "set algorithm.ratio_guard" if guard is None else f"lower algorithm.ratio_guard ({guard})"
        check_finite(float(norm), f"the gradient's norm is {float(norm)}", advice=f", or {beside}")

    accumulate(_by_length([rollouts[i] for i in part], loop.batch_tokens), loss, learner.device)
    return float(apply_gradient(learner.adam, learner.trainable, learner.gradient_clip, check))


def _by_length(rollouts: Sequence[Rollout], batch_tokens: int) -> Iterator[list[int]]:
    yield from batches_by_tokens([len(r.ids_T) for r in rollouts], batch_tokens)


def _padded(rollouts: Sequence[Rollout], learner: Learner) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """ids_BT, own_BT and the engine's logprob_BT on the learner's device, right-padded."""
    width = max(len(r.ids_T) for r in rollouts)
    ids_BT = np.full((len(rollouts), width), learner.pad_id, dtype=np.int64)
    own_BT = np.zeros((len(rollouts), width), dtype=np.bool_)
    sampled_BT = np.zeros((len(rollouts), width), dtype=np.float32)
    for row, r in enumerate(rollouts):
        ids_BT[row, : len(r.ids_T)], own_BT[row, : len(r.ids_T)], sampled_BT[row, : len(r.ids_T)] = (
            r.ids_T,
            r.own_T,
            r.logprob_T,
        )
    device = learner.device.device
    return (
        torch.from_numpy(ids_BT).to(device),
        torch.from_numpy(own_BT).to(device),
        torch.from_numpy(sampled_BT).to(device),
    )


def _widened(row_T: torch.Tensor, width: int) -> torch.Tensor:
    """A row cut or padded to a width; what is cut off was padding."""
    return row_T[:width] if len(row_T) >= width else torch.nn.functional.pad(row_T, (0, width - len(row_T)))


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
    found = rewards(own, context.reward, context.tasks, score_N)
    _, code_N = np.unique(group_N, return_inverse=True)
    gained = advantages(found.total_N, code_N.astype(np.intp), context.algorithm)
    metrics = {
        **behaviour(rollouts),
        **paid(found),
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
    return Batch(rollouts, found, score_N, gained.advantage_N, np.flatnonzero(gained.signal_N).tolist(), metrics)


def step_seed(seed: int, step: int, round_: int = 0) -> int:
    """The seed of one step's attempts: another one each step and round."""
    return int(fingerprint([seed, "step", step, round_])[:8], 16)
