"""The optimiser of every training here."""

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
