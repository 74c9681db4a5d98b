"""Updates a policy's weights from a batch of attempts: optimiser steps over micro-batches.

The tokens are the sampled ones; the text is never tokenised again. The sampling policy's log-probabilities come from the same
forward pass that is trained, at the weights before the first change (so the ratio of the first optimiser step is exactly 1):
attempts of the first step need no separate pass. Their distance from the engine's own log-probabilities is measured
(`rollout_gap`): it is the cost of lower precision in the engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from rmlab.models.attention import sent
from rmlab.models.packed import packed_rows
from rmlab.policies.engine import Rollout
from rmlab.rl.config import AlgorithmConfig, Floats, LoopConfig
from rmlab.rl.forward import Forward, forward, micro_batches_of
from rmlab.rl.learner import Learner
from rmlab.rl.losses import loss_count, policy_loss
from rmlab.training.optimizer import accumulate, apply_gradient, check_finite


@dataclass
class _Known:
    """What is known of a batch at the weights that sampled it, by attempt: log-probabilities of all tokens (0 where not own), and
    those of the start. with_start: the start's are wanted. sums: what metrics are made of, on the device."""

    learner: Learner
    rollouts: Sequence[Rollout]
    loop: LoopConfig
    with_start: bool
    old: dict[int, torch.Tensor] = field(default_factory=dict)
    start: dict[int, torch.Tensor] = field(default_factory=dict)
    sums: dict[str, torch.Tensor] = field(default_factory=dict)
    widest: list[torch.Tensor] = field(default_factory=list)

    def add(self, name: str, value: torch.Tensor) -> None:
        """Adds to a sum, without waiting for the device."""
        self.sums[name] = self.sums[name] + value if name in self.sums else value.double()

    @torch.no_grad()
    def take(self, rows: Sequence[int], read: Forward) -> None:
        """Keeps what a forward pass of the present weights found of attempts, where nothing is known of them yet."""
        if rows[0] in self.old:
            return
        logprob_BT = read.logprob_BT.detach()
        apart_BT = (logprob_BT - read.sampled_BT).abs() * read.own_BT
        self.add("own", read.own_BT.sum())
        self.add("gap", apart_BT.sum())
        self.widest.append(apart_BT.max())
        assert read.entropy_BT is not None
        self.add("entropy", read.entropy_BT.detach().sum())
        self.old.update(zip(rows, logprob_BT, strict=True))
        if self.with_start and self.learner.reference is not None:
            with self.learner.reference() as model, packed_rows(model, self.learner.packed):
                start = forward(model, [self.rollouts[i] for i in rows], self.learner, self.loop.temperature)
            self.add("kl_to_start", ((logprob_BT - start.logprob_BT) * read.own_BT).sum())
            self.start.update(zip(rows, start.logprob_BT, strict=True))

    def metrics(self) -> dict[str, float]:
        """Of the batch before the update."""
        own = max(float(self.sums["own"]), 1.0)
        metrics = {
            "entropy": float(self.sums["entropy"]) / own,
            "rollout_gap": float(self.sums["gap"]) / own,
            "rollout_gap_max": max(torch.stack(self.widest).tolist()),
        }
        return metrics | ({"kl_to_start": float(self.sums["kl_to_start"]) / own} if self.start else {})


def update(
    learner: Learner,
    rollouts: Sequence[Rollout],
    advantage_N: Floats,
    algorithm: AlgorithmConfig,
    loop: LoopConfig,
    rng: np.random.Generator,
    with_start: bool = False,
) -> dict[str, float]:
    """Changes the weights by the attempts that have a signal, at least one; returns metrics, averaged over what they count.

    rng: deals the attempts to optimiser steps. with_start: also measures the KL to the start. Raises RmlabError where the loss or a
    gradient is no longer finite.
    """
    norms: list[float] = []
    known = _Known(learner, rollouts, loop, with_start or bool(algorithm.kl_weight))
    sums: dict[str, torch.Tensor] = {}
    learner.prepare_rows(loop.batch_tokens)
    with packed_rows(learner.model, learner.packed):
        for _ in range(loop.passes):
            order = rng.permutation(len(rollouts))
            parts = [[int(i) for i in part] for part in np.array_split(order, min(loop.updates, len(rollouts)))]
            if not known.old:
                _read(known, [i for part in parts[1:] for i in part])
            for part in parts:
                norms.append(_step(known, part, advantage_N, algorithm, sums))
    steps, mean = len(norms), {name: float(value) for name, value in sums.items()}
    metrics = known.metrics() | {
        "gradient_norm": sum(norms) / steps,
        "gradient_norm_max": max(norms),
        "optimizer_steps": float(steps),
        "loss": mean["loss"] / steps,
        "ratio": mean["ratio"] / mean["ratios"],
        "clip_share": mean["clipped"] / mean["ratios"],
        "guarded_share": mean["guarded"] / mean["ratios"],
    }
    return metrics | ({"kl_estimate": mean["kl"] / mean["tokens"]} if "kl" in mean else {})


@torch.no_grad()
def _read(known: _Known, rows: Sequence[int]) -> None:
    """What the update needs of attempts that are learned from behind a first change of the weights."""
    learner, loop = known.learner, known.loop
    for part in micro_batches_of([known.rollouts[i] for i in rows], learner, loop.batch_tokens):
        chosen = [rows[row] for row in part]
        attempts = [known.rollouts[i] for i in chosen]
        known.take(chosen, forward(learner.model, attempts, learner, loop.temperature, entropy=True))


def _step(
    known: _Known, part: Sequence[int], advantage_N: Floats, algorithm: AlgorithmConfig, sums: dict[str, torch.Tensor]
) -> float:
    """One optimiser step over the attempts of `part`; adds to `sums` and returns the gradient's norm before clipping."""
    learner, rollouts, loop = known.learner, known.rollouts, known.loop
    count = loss_count(sum(rollouts[i].own_tokens for i in part), len(part), algorithm)
    weighed = bool(algorithm.entropy_weight)

    def loss(rows: Sequence[int]) -> torch.Tensor:
        chosen = [part[row] for row in rows]
        new = chosen[0] not in known.old
        attempts = [rollouts[i] for i in chosen]
        read = forward(learner.model, attempts, learner, loop.temperature, entropy=weighed or new, gradient=weighed)
        known.take(chosen, read)
        width = read.logprob_BT.shape[1]
        old_BT = torch.stack([_widened(known.old[i], width) for i in chosen])
        start_BT = (
            torch.stack([_widened(known.start[i], width) for i in chosen])
            if known.start and algorithm.kl_weight
            else None
        )
        advantage_B = sent(torch.tensor(advantage_N[chosen], dtype=torch.float32), old_BT.device)
        entropy_BT = read.entropy_BT if weighed else None
        made = policy_loss(read.logprob_BT, old_BT, read.own_BT, advantage_B, algorithm, count, start_BT, entropy_BT)
        for name, value in made.sums.items():
            sums[name] = sums[name] + value if name in sums else value.double()
        return made.loss

    def check(norm: torch.Tensor) -> None:
        guard = algorithm.ratio_guard
        beside = "set algorithm.ratio_guard" if guard is None else f"lower algorithm.ratio_guard ({guard})"
        check_finite(float(norm), f"the gradient's norm is {float(norm)}", advice=f", or {beside}")

    accumulate(micro_batches_of([rollouts[i] for i in part], learner, loop.batch_tokens), loss, learner.device)
    return float(apply_gradient(learner.adam, learner.trainable, learner.gradient_clip, check))


def _widened(row_T: torch.Tensor, width: int) -> torch.Tensor:
    """A row cut or padded to a width; what is cut off was padding."""
    return row_T[:width] if len(row_T) >= width else torch.nn.functional.pad(row_T, (0, width - len(row_T)))
