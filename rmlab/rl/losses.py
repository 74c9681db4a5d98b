"""What is the loss of a policy on attempts whose advantages are known? GRPO and GSPO, one function.

    ratio      exp(log π - log π_old): of every token (GRPO), or exp of its mean over a sequence's own tokens (GSPO)
    surrogate  min(ratio · A, clipped ratio · A)
    loss       - mean of the surrogate + kl_weight · KL to the start - entropy_weight · entropy

Sums are divided by the count of the whole optimiser step, so that micro-batches add up: 8 × 1 = 2 × 4. Tokens that the
policy did not say (issue, observations) are masked from everything. Under GSPO every sequence weighs the same, whatever
its length (a token sum over a sequence's ratio would weigh it by its length: trl #3823, #4557).

How much better is an attempt than the others at its task? Group-relative advantages (GRPO, arXiv 2402.03300).

Rewards are centred within a group. Dividing by the group's standard deviation makes every task weigh alike and blows up
groups that hold little but noise; a floor on the reward's own scale bounds that, and leaving the division out is
Dr. GRPO (arXiv 2503.20783).
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from rmlab.errors import DataError, UsageError
from rmlab.rl.config import KL, Algorithm, AlgorithmConfig, Clipping, Codes, Floats, LossMean, Scale

WIDEST = 20.0  # of a log ratio: exp of more is no ratio any more
AFFINE = 1e-6  # by which an advantage may be off by rounding; float32, which trains on it, is no finer


@dataclass(frozen=True)
class PolicyLoss:
    """loss: to be differentiated. sums: what metrics are made of, over this micro-batch: each the sum that its count divides,
    on the device, so that nothing waits for it.

    `sequences`, `tokens`: of what was read. `ratio`, `clipped`, `guarded`: over sequences (GSPO) or tokens (GRPO), `ratios` is
    their count. `kl`: over tokens.
    """

    loss: torch.Tensor
    sums: dict[str, torch.Tensor]


def policy_loss(
    logprob_BT: torch.Tensor,
    old_BT: torch.Tensor,
    own_BT: torch.Tensor,
    advantage_B: torch.Tensor,
    config: AlgorithmConfig,
    count: float,
    reference_BT: torch.Tensor | None = None,
    entropy_BT: torch.Tensor | None = None,
) -> PolicyLoss:
    """The loss of B sequences as their share of an optimiser step.

    logprob_BT: of each token under the policy, with gradient. old_BT: under the policy that sampled it. own_BT: True where the
    policy said the token; other positions are not read. count: what the whole optimiser step is divided by, see `loss_count`.
    reference_BT: log-probabilities under the start; entropy_BT: entropies in nats, with gradient; needed where their weight
    is not 0, else measured where given.
    Raises UsageError for GSPO with a token mean, and where what a weight asks for is missing.
    """
    check(config)
    if (config.kl_weight and reference_BT is None) or (config.entropy_weight and entropy_BT is None):
        raise UsageError(
            "algorithm.kl_weight needs the start's log-probabilities, algorithm.entropy_weight entropies: they were not given"
        )
    own = own_BT.to(logprob_BT.dtype)
    length_B = own.sum(-1).clamp(min=1.0)
    apart_BT = (logprob_BT - old_BT) * own
    if config.name is Algorithm.gspo:
        log_ratio, advantage, weight = (
            (apart_BT.sum(-1) / length_B)[:, None],
            advantage_B[:, None],
            torch.ones_like(length_B)[:, None],
        )
    else:
        log_ratio, advantage, weight = apart_BT, advantage_B[:, None], own
    kept = weight if config.ratio_guard is None else weight * (log_ratio.detach().abs() <= config.ratio_guard)
    ratio = torch.exp(log_ratio.clamp(-WIDEST, WIDEST))
    clipped = ratio.clamp(1 - config.clip_low, 1 + config.clip_high)
    if config.clipping is Clipping.preserve:
        clipped = clipped.detach() * ratio / ratio.detach()
    loss = -_total(torch.minimum(ratio * advantage, clipped * advantage) * kept, length_B, config) / count
    if reference_BT is not None:
        kl_BT = kl_estimate(logprob_BT, reference_BT, config.kl) * own
        if config.kl_weight:
            loss = loss + config.kl_weight * _token_total(kl_BT, length_B, config) / count
    if entropy_BT is not None and config.entropy_weight:
        loss = loss - config.entropy_weight * _token_total(entropy_BT * own, length_B, config) / count
    with torch.no_grad():
        beyond = ((ratio < 1 - config.clip_low) & (advantage < 0)) | ((ratio > 1 + config.clip_high) & (advantage > 0))
        sums = {
            "loss": loss.detach(),
            "sequences": torch.full_like(loss, len(length_B)),
            "tokens": own.sum(),
            "ratios": weight.sum(),
            "ratio": (ratio * weight).sum(),
            "clipped": (beyond * weight).sum(),
            "guarded": (weight - kept).sum(),
        }
        if reference_BT is not None:
            sums["kl"] = kl_BT.sum()
    return PolicyLoss(loss, sums)


def check(config: AlgorithmConfig) -> None:
    """Raises UsageError for options that contradict each other."""
    if config.name is Algorithm.gspo and config.mean is LossMean.token:
        raise UsageError(
            "algorithm.name=gspo takes the mean over sequences: a token mean would weigh a sequence's ratio by its length. "
            "Set algorithm.mean=sequence, or algorithm.name=grpo."
        )
    if not 0 <= config.clip_low < 1 or config.clip_high < 0:
        raise UsageError(
            f"algorithm.clip_low={config.clip_low}, clip_high={config.clip_high}: from 0 to below 1, and at least 0"
        )


def loss_count(own_tokens: int, sequences: int, config: AlgorithmConfig) -> float:
    """What the sums of one optimiser step are divided by: its sequences, or its tokens."""
    return float(max(own_tokens if config.mean is LossMean.token else sequences, 1))


def kl_estimate(logprob: torch.Tensor, reference: torch.Tensor, kind: KL) -> torch.Tensor:
    """An estimator of KL(policy, start) at each sampled token, any shape."""
    apart = logprob - reference
    if kind is KL.k1:
        return apart
    return 0.5 * apart**2 if kind is KL.k2 else torch.exp(-apart) - 1 + apart


def _total(value: torch.Tensor, length_B: torch.Tensor, config: AlgorithmConfig) -> torch.Tensor:
    """The sum whose quotient by the count is the mean: of values a sequence (B × 1) or a token."""
    return value.sum() if config.name is Algorithm.gspo else _token_total(value, length_B, config)


def _token_total(value_BT: torch.Tensor, length_B: torch.Tensor, config: AlgorithmConfig) -> torch.Tensor:
    return value_BT.sum() if config.mean is LossMean.token else (value_BT.sum(-1) / length_B).sum()


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


def check_affine(found: Advantages, reward_N: Floats, group_N: Codes, config: AlgorithmConfig, factor: float) -> None:
    """Asserts what theory says of rewards offset + factor · r: divided by the group's standard deviation they have the advantages of
    r at a floor that is smaller by the factor; not divided, factor times them. found: the advantages of the former. reward_N: r.

    Raises DataError where they have not.
    """
    divided = config.scale is Scale.std
    plain = advantages(reward_N, group_N, replace(config, std_floor=config.std_floor / factor) if divided else config)
    expected_N = plain.advantage_N * (1.0 if divided else factor)
    apart = float(np.abs(found.advantage_N - expected_N).max(initial=0.0))
    if apart > AFFINE * max(1.0, factor):
        raise DataError(
            f"an advantage of reward.offset + reward.factor · r is off by {apart:.1e} from that of r: the offset is too large beside "
            "the factor for float64"
        )
