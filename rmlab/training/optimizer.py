"""The optimiser of every training here, and its step: gradient by micro-batches, clipping, the schedule of the learning rate."""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch

from rmlab.errors import RmlabError
from rmlab.training.config import OptimizerConfig

Part = TypeVar("Part")
"""What one forward and backward pass reads of a step."""


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


def set_learning_rate(adam: torch.optim.Optimizer, rate: float) -> None:
    """Of all weights, from the next step on."""
    for group in adam.param_groups:
        group["lr"] = rate


def accumulate(
    parts: Iterable[Part],
    loss: Callable[[Part], torch.Tensor],
    device: Any,
    added: Callable[[Part], torch.Tensor] | None = None,
    ranks: int = 1,
) -> torch.Tensor:
    """Adds the gradient of a step's loss to the parameters, micro-batch by micro-batch; returns that loss, on the device.

    loss: what a micro-batch contributes to the step's loss, so that the sum over them does not depend on how a step is cut.
    device: the run's Accelerator. added: of a micro-batch; goes into the gradient and not into what is returned. ranks: whose gradients
    will be averaged, though they are to be added up.
    """
    total = torch.zeros((), dtype=torch.float64, device=device.device)
    for part in parts:
        value = loss(part)
        total += value.detach()
        whole = value if added is None else value + added(part)
        device.backward(whole if ranks == 1 else whole * ranks)
        del value, whole  # what they were computed from may hold memory that the next micro-batch wants
    return total


def apply_gradient(
    adam: torch.optim.Optimizer,
    parameters: Iterable[torch.nn.Parameter],
    clip: float,
    check: Callable[[torch.Tensor], None] | None = None,
) -> torch.Tensor:
    """One optimiser step with the gradient clipped; returns its norm before that.

    check: is given the norm before the weights change, to raise where it must not be applied.
    """
    norm = torch.nn.utils.clip_grad_norm_(parameters, clip)
    if check:
        check(norm)
    adam.step()
    adam.zero_grad(set_to_none=True)
    return norm


def check_finite(value: float, what: str, config: OptimizerConfig | None = None, advice: str = "") -> None:
    """Raises RmlabError where `value` is not finite. what: it is, and where. advice: beside a lower learning rate."""
    if not math.isfinite(value):
        rate = f" ({config.learning_rate})" if config else ""
        raise RmlabError(f"{what}: training diverged. Lower optimizer.learning_rate{rate}{advice}.")
