"""How are a policy's weights changed by a batch of attempts? Optimiser steps over micro-batches of like length.

The tokens are those that were sampled, never the text again. Log-probabilities of the sampling policy are computed once by
the very forward pass that is trained (the ratio of the first optimiser step is then exactly 1); how far the engine's own
log-probabilities are from them is measured (`rollout_gap`): it is what lower arithmetic in the engine costs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rmlab.policies.engine import Rollout
from rmlab.rl.config import AlgorithmConfig, LoopConfig
from rmlab.rl.learner import Learner
from rmlab.rl.losses import loss_count, policy_loss
from rmlab.training.batching import batches_by_tokens
from rmlab.training.optimizer import accumulate, apply_gradient, check_finite
from rmlab.training.policy import token_logprobs

Floats = NDArray[np.float64]


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
