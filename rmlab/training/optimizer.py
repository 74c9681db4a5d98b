"""The optimiser of every training here."""

import math
from typing import Any

import torch

from rmlab.training.config import OptimizerConfig


def adamw(model: Any, config: OptimizerConfig) -> torch.optim.Optimizer:
    """AdamW; norms (one-dimensional weights) do not decay."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    norms = [p for p in model.parameters() if p.ndim <= 1]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": config.weight_decay}, {"params": norms, "weight_decay": 0.0}],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,
    )


def learning_rate(step: int, steps: int, config: OptimizerConfig) -> float:
    """The rate of optimiser step `step` (0-based) of `steps`.

    The first ceil(warmup_fraction · steps) steps rise linearly and end at the peak; the last step is at
    `final_fraction` of it.
    """
    warmup = math.ceil(config.warmup_fraction * steps)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    done = (step - warmup) / max(steps - 1 - warmup, 1)
    cosine = 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return config.learning_rate * (config.final_fraction + (1 - config.final_fraction) * cosine)
