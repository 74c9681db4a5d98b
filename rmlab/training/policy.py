"""Imitation: how a policy learns from demonstrations, with the loss on the taught tokens alone.

Loss = mean of -log p over the taught tokens of an optimiser step. Micro-batches add up sums that are divided by the step's
count, so that how a batch is cut changes nothing. Conversations of like length go together, right-padded.
"""

import copy
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from rmlab.errors import RmlabError, UsageError
from rmlab.progress import progress
from rmlab.training.batching import plan_batches
from rmlab.training.compiled import compiled_layers
from rmlab.training.config import Dtype, OptimizerConfig, RuntimeConfig, TrainingConfig
from rmlab.training.device import resolve_device
from rmlab.training.optimizer import adamw
from rmlab.training.policy_loss import token_logprobs
from rmlab.training.schedule import learning_rate

WIDTH = 64  # rows are padded to a multiple of this on a GPU
TELL_EVERY = 10  # steps: reading a loss makes the device wait


class Taught(Protocol):
    """What one conversation teaches: ids_T and taught_T of equal length, taught_T False at the first position."""

    @property
    def ids_T(self) -> NDArray[np.int32]: ...

    @property
    def taught_T(self) -> NDArray[np.bool_]: ...


@dataclass(frozen=True)
class Imitated:
    """What training took. tokens: read, padding aside. tokens_per_second and seconds: behind the first step, which compiles.

    history: (step, loss of that step, learning rate, tokens/s since the row before). snapshots: (share of training, model on the
    CPU as it was then).
    """

    steps: int
    tokens: int
    taught_tokens: int
    seconds: float
    tokens_per_second: float
    history: tuple[tuple[int, float, float, float], ...]
    snapshots: tuple[tuple[float, Any], ...] = ()


def imitate(model: Any, lessons: Sequence[Taught], pad_id: int, *, optimizer: OptimizerConfig, training: TrainingConfig,
            runtime: RuntimeConfig, seed: int, compiled: bool = False, snapshots: Sequence[float] = (),
            log: Callable[[int, float, float, float], None] | None = None, title: str = "imitation") -> Imitated:
    """Trains `model` in place and leaves it on the CPU.

    compiled: the layers by torch.compile. log: (step from 1, loss of that step,
    learning rate, tokens/s since the last). snapshots: shares of training (over 0, under 1) at which the model is copied.
    Raises UsageError without lessons, RmlabError where the loss is no longer finite.
    """
    if wrong := [share for share in snapshots if not 0 < share < 1]:
        raise UsageError(f"snapshots={wrong[0]}: a share of training over 0 and under 1")
    if not lessons:
        raise UsageError("there is no demonstration to learn from: name a trajectory set with resolved attempts of the supervised part")
    device = resolve_device(runtime.device)
    torch.manual_seed(seed)
    torch.set_num_threads(training.threads)
    torch.set_float32_matmul_precision("high")
    model.to(device).train()
    adam = adamw(model, optimizer)
    plan = plan_batches([len(lesson.ids_T) for lesson in lessons], training, seed)
    total = sum(len(lessons[i].ids_T) for batch in plan for i in batch)
    history: list[tuple[int, float, float, float]] = []
    taken: list[tuple[float, Any]] = []
    read, taught, told_read, first_read = 0, 0, 0, 0
    started = told = time.monotonic()
    with compiled_layers(model, compiled), progress(title, total, "tokens", show=runtime.progress) as advance:
        for step, batch in enumerate(plan):
            rate = learning_rate(step, len(plan), optimizer)
            for group in adam.param_groups:
                group["lr"] = rate
            loss, asked = accumulate(model, [lessons[i] for i in batch], pad_id, training, device)
            torch.nn.utils.clip_grad_norm_(model.parameters(), optimizer.gradient_clip)
            adam.step()
            adam.zero_grad(set_to_none=True)
            read += (tokens := sum(len(lessons[i].ids_T) for i in batch))
            taught += asked
            if step == 0:
                float(loss)
                started = told = time.monotonic()
                told_read = first_read = read
            if (step + 1) % TELL_EVERY == 0 or step + 1 == len(plan):
                value, now = float(loss), time.monotonic()
                if not math.isfinite(value):
                    raise RmlabError(f"the loss is {value} at step {step + 1} of {len(plan)}: training diverged. "
                                     f"Lower optimizer.learning_rate ({optimizer.learning_rate}).")
                history.append((step + 1, value, rate, (read - told_read) / max(now - told, 1e-9)))
                told, told_read = now, read
                if log:
                    log(*history[-1])
                advance(0, f"loss {value:.3f}")
            advance(tokens, "")
            taken += [(share, copy.deepcopy(model).cpu().eval()) for share in snapshots if math.ceil(share * len(plan)) == step + 1]
    seconds = time.monotonic() - started
    model.cpu().eval()
    return Imitated(len(plan), read, taught, seconds, (read - first_read) / max(seconds, 1e-9), tuple(history), tuple(taken))


def accumulate(model: Any, batch: Sequence[Taught], pad_id: int, training: TrainingConfig, device: str) -> tuple[torch.Tensor, int]:
    """Adds the gradient of the batch's mean loss to the parameters; returns that loss (on the device) and the tokens it is over."""
    asked = sum(int(lesson.taught_T.sum()) for lesson in batch)
    total = torch.zeros((), device=device)
    for start in range(0, len(batch), training.micro_batch_size):
        part = batch[start : start + training.micro_batch_size]
        ids_BT, taught_BT = padded(part, pad_id, min(training.micro_batch_size, len(batch)), device)
        with autocast(device, training.dtype):
            logprob_BT, _ = token_logprobs(model, ids_BT, taught_BT)
        loss = -logprob_BT.sum() / max(asked, 1)
        loss.backward()  # type: ignore[no-untyped-call]  # torch does not type it
        total += loss.detach()
    return total, asked


def padded(lessons: Sequence[Taught], pad_id: int, rows: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """ids_BT on the device and taught_BT on the CPU, right-padded to a multiple of WIDTH and to at least `rows` rows."""
    width = -(-max(len(lesson.ids_T) for lesson in lessons) // WIDTH) * WIDTH if device != "cpu" else max(len(x.ids_T) for x in lessons)
    ids_BT = np.full((max(rows, len(lessons)), width), pad_id, dtype=np.int64)
    taught_BT = np.zeros(ids_BT.shape, dtype=np.bool_)
    for ids_T, taught_T, lesson in zip(ids_BT, taught_BT, lessons, strict=False):  # rows behind the last lesson are padding
        ids_T[: len(lesson.ids_T)] = lesson.ids_T
        taught_T[: len(lesson.ids_T)] = lesson.taught_T
    return torch.from_numpy(ids_BT).to(device), torch.from_numpy(taught_BT)


def autocast(device: str, dtype: Dtype) -> AbstractContextManager[Any]:
    """Arithmetic of a forward pass over float32 weights."""
    return torch.autocast(device, dtype=torch.bfloat16, enabled=dtype is Dtype.bfloat16)
