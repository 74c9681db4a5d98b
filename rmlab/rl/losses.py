"""The loss of a policy on attempts with known advantages: GRPO and GSPO in one function.

    ratio      exp(log π - log π_old): of every token (GRPO), or exp of its mean over a sequence's own tokens (GSPO)
    surrogate  min(ratio · A, clipped ratio · A)
    loss       - mean of the surrogate + kl_weight · KL to the start - entropy_weight · entropy

Sums are divided by the count of the whole optimiser step, so that micro-batches add up: 8 × 1 = 2 × 4. Tokens that the
policy did not generate (issue, observations) are masked everywhere. Under GSPO every sequence has the same weight, whatever
its length (a token sum over a sequence's ratio would weight it by its length: trl #3823, #4557).
"""

from dataclasses import dataclass

import torch

from rmlab.errors import UsageError
from rmlab.rl.config import KL, Algorithm, AlgorithmConfig, Clipping, LossMean

WIDEST = 20.0  # of a log ratio: exp of more is no ratio any more


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
            "algorithm.kl_weight needs the start's log-probabilities, and algorithm.entropy_weight needs entropies: they are missing"
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
            "algorithm.name=gspo takes the mean over sequences: a token mean would weight a sequence's ratio by its length. "
            "Set algorithm.mean=sequence, or algorithm.name=grpo."
        )
    if not 0 <= config.clip_low < 1 or config.clip_high < 0:
        raise UsageError(
            f"algorithm.clip_low={config.clip_low}, clip_high={config.clip_high}: clip_low must be from 0 to below 1, clip_high at least 0"
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
