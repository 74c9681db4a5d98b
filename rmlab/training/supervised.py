"""Supervised training on one token: what should follow the prompt?

Loss = cross-entropy over the whole vocabulary at the last position of each prompt, averaged over the examples of an
optimiser step. Micro-batches add up sums that are divided by the step's example count, so that 8 × 1 = 2 × 4 (gradient
accumulation that averages averages is the bug of transformers #34191).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from rmlab.errors import RmlabError
from rmlab.fingerprint import fingerprint, fingerprint_lines
from rmlab.models.last_position import last_logits, pad_right
from rmlab.progress import progress
from rmlab.training.batching import plan_batches
from rmlab.training.checkpoint import load_checkpoint, save_checkpoint
from rmlab.training.config import SEMANTICS, OptimizerConfig, RuntimeConfig, TrainingConfig
from rmlab.training.optimizer import adamw
from rmlab.training.schedule import learning_rate

Log = Callable[[int, float, float, float], None]
"""(step from 1, loss, learning rate, tokens/s) of one optimiser step."""


@dataclass(frozen=True)
class Example:
    """A prompt's token ids and the one id that should follow."""

    ids: Sequence[int] | NDArray[np.int32]
    target: int


@dataclass(frozen=True)
class Trained:
    """What training took. history: (step, loss, learning rate, tokens/s) of every step, resumed ones included.

    tokens: real tokens read, padding aside. seconds: of training in this process. resumed_at: step gone on from, 0 = none.
    """

    steps: int
    tokens: int
    seconds: float
    resumed_at: int
    history: tuple[tuple[int, float, float, float], ...]


def train(model: Any, examples: Sequence[Example], pad_id: int, device: Any, *, optimizer: OptimizerConfig, training: TrainingConfig,
          runtime: RuntimeConfig, seed: int, checkpoint: Path | None = None, log: Log | None = None, title: str = "train") -> Trained:
    """Trains `model` in place (and leaves it on the device) and returns what it took.

    examples: at least one; every one is seen once an epoch. device: the run's Accelerator. checkpoint: file for exact resume,
    written when `runtime.checkpoint_seconds` have gone by since the last; it stays when training ends, its owner removes it. log: is told
    every step, those before a resume first.
    Raises RmlabError where the loss is no longer finite.
    """
    model, adam = device.prepare(model, adamw(model, optimizer))
    plan = plan_batches([len(e.ids) for e in examples], training, seed)
    run = _identity(model, examples, optimizer, training, seed)
    torch.manual_seed(seed)
    state = load_checkpoint(checkpoint, model, adam.optimizer, run) if checkpoint else None
    history = [tuple(row) for row in state["history"]] if state else []
    if log:
        for row in history:
            log(*row)
    first, tokens = (state["step"], state["tokens"]) if state else (0, 0)
    started = saved = time.monotonic()
    total = sum(len(examples[i].ids) for batch in plan[first:] for i in batch)
    model.train()
    with progress(title, total, "tokens", show=runtime.progress) as advance:
        for step in range(first, len(plan)):
            before = time.monotonic()
            rate = learning_rate(step, len(plan), optimizer)
            for group in adam.param_groups:
                group["lr"] = rate
            batch = [examples[i] for i in plan[step]]
            loss = accumulate(model, batch, pad_id, training.micro_batch_size, device)
            if not loss < float("inf"):
                raise RmlabError(f"the loss is {loss} at step {step + 1} of {len(plan)}: training diverged. "
                                 f"Lower optimizer.learning_rate ({optimizer.learning_rate}).")
            device.clip_grad_norm_(model.parameters(), optimizer.gradient_clip)
            adam.step()
            adam.zero_grad(set_to_none=True)
            read = sum(len(e.ids) for e in batch)
            tokens += read
            now = time.monotonic()
            history.append((step + 1, loss, rate, read / max(now - before, 1e-9)))
            if log:
                log(*history[-1])
            advance(read, f"loss {loss:.3f}")
            if checkpoint and now - saved >= runtime.checkpoint_seconds and step + 1 < len(plan):
                save_checkpoint(checkpoint, model, adam.optimizer,
                                {"run": run, "step": step + 1, "tokens": tokens, "history": history})
                saved = time.monotonic()
    model.eval()
    return Trained(len(plan), tokens, time.monotonic() - started, first, tuple(history))


def accumulate(model: Any, batch: Sequence[Example], pad_id: int, micro_batch_size: int, device: Any) -> float:
    """Adds the gradient of the batch's mean loss to the parameters, micro-batch by micro-batch; returns that loss.

    device: the Accelerator. Micro-batches are cut in the order given; the loss is divided by the size of the whole batch.
    """
    total = 0.0
    for start in range(0, len(batch), micro_batch_size):
        part = batch[start : start + micro_batch_size]
        ids_BT, length_B = pad_right([e.ids for e in part], pad_id)
        target_B = torch.tensor([e.target for e in part], device=device.device)
        with device.autocast():
            logits_BV = last_logits(model, ids_BT.to(device.device), length_B.to(device.device))
        loss = cross_entropy(logits_BV, target_B, reduction="sum") / len(batch)
        device.backward(loss)
        total += float(loss.detach())
    return total


def _identity(model: Any, examples: Sequence[Example], optimizer: OptimizerConfig, training: TrainingConfig, seed: int) -> str:
    shapes = [[name, list(parameter.shape)] for name, parameter in model.named_parameters()]
    content = fingerprint_lines(f"{e.target} {' '.join(map(str, e.ids))}" for e in examples)
    return fingerprint([SEMANTICS, shapes, content, asdict(optimizer), asdict(training), seed])
