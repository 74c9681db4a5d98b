"""Supervised training on prompts: what should follow, or any other loss that is a sum over examples.

As it stands the loss is cross-entropy over the whole vocabulary at the last position of each prompt, averaged over the
examples of an optimiser step. Micro-batches add up sums that are divided by the step's example count, so that 8 × 1 = 2 × 4
(gradient accumulation that averages averages is the bug of transformers #34191). The balance loss of a mixture of experts is
no sum over examples: each micro-batch's counts by its share of the step.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from rmlab.errors import RmlabError, UsageError
from rmlab.fingerprint import fingerprint, fingerprint_lines
from rmlab.models.heads import last_logits, pad_right
from rmlab.models.moe import Routing, experts_of
from rmlab.progress import progress
from rmlab.stopping import Stopped, stop_asked
from rmlab.training.batching import batches_by_tokens, plan_batches
from rmlab.training.checkpoint import interrupt_after_step, load_checkpoint, save_checkpoint
from rmlab.training.config import SEMANTICS, OptimizerConfig, RuntimeConfig, TrainingConfig
from rmlab.training.device import compiled_layers
from rmlab.training.optimizer import adamw, learning_rate

Log = Callable[[int, float, float, float], None]
"""(step from 1, loss, learning rate, tokens/s) of one optimiser step."""


Watch = Callable[[int, dict[str, float]], None]
"""(step from 1, what the routers of a mixture of experts did in it)."""


class Item(Protocol):
    """What a loss is summed over. tokens: that are read for it. content: everything that decides what it teaches."""

    @property
    def tokens(self) -> int: ...
    def content(self) -> str: ...


@dataclass(frozen=True)
class Example:
    """A prompt's token ids and the one id that should follow."""

    ids: Sequence[int] | NDArray[np.int32]
    target: int

    @property
    def tokens(self) -> int:
        """Of the prompt."""
        return len(self.ids)

    def content(self) -> str:
        """Target and ids as text."""
        return f"{self.target} {' '.join(map(str, self.ids))}"


class Loss(Protocol):
    """The sum of a loss over examples, with its gradient; pad_id fills up what is read together, routing goes to the model."""

    def __call__(
        self, model: Any, part: Sequence[Any], pad_id: int, device: Any, routing: Routing | None
    ) -> torch.Tensor: ...


def answer_loss(
    model: Any, part: Sequence[Example], pad_id: int, device: Any, routing: Routing | None = None
) -> torch.Tensor:
    """Cross-entropy over the whole vocabulary behind each prompt, summed."""
    target_B = torch.tensor([e.target for e in part], device=device.device)
    logits_BV = read(last_logits, model, [e.ids for e in part], pad_id, device, routing)
    return cross_entropy(logits_BV, target_B, reduction="sum")


def read(
    reader: Callable[..., torch.Tensor],
    model: Any,
    sequences: Sequence[Any],
    pad_id: int,
    device: Any,
    routing: Routing | None,
) -> torch.Tensor:
    """What `last_logits` or `last_hidden` makes of B sequences of ids, in the run's arithmetic on its device."""
    ids_BT, length_B = pad_right(sequences, pad_id)
    with device.autocast():
        return reader(
            model, ids_BT.to(device.device), length_B.to(device.device), *([] if routing is None else [routing])
        )


@dataclass(frozen=True)
class Trained:
    """What training took. history: (step, loss, learning rate, tokens/s) of every step, resumed ones included.

    tokens: real tokens read, padding aside. seconds: of training in this process, which read `tokens_here`. resumed_at: step
    gone on from, 0 = none.
    """

    steps: int
    tokens: int
    tokens_here: int
    seconds: float
    resumed_at: int
    history: tuple[tuple[int, float, float, float], ...]


def train(
    model: Any,
    examples: Sequence[Item],
    pad_id: int,
    device: Any,
    *,
    optimizer: OptimizerConfig,
    training: TrainingConfig,
    runtime: RuntimeConfig,
    seed: int,
    checkpoint: Path | None = None,
    log: Log | None = None,
    watch: Watch | None = None,
    loss: Loss = answer_loss,
    title: str = "train",
) -> Trained:
    """Trains `model` in place (and leaves it on the device) and returns what it took.

    examples: at least one; every one is seen once an epoch. device: the run's Accelerator. checkpoint: file for exact resume,
    written when `runtime.checkpoint_seconds` have gone by since the last; it stays when training ends, its owner removes it. log: is told
    every step, those before a resume first; watch likewise, for a mixture of experts. loss: of a few examples, summed.
    Raises RmlabError where the loss is no longer finite, Stopped (with a checkpoint) where it was asked to stop,
    UsageError where `runtime` would change what is learned.
    """
    model, adam = device.prepare(model, adamw(model, optimizer))
    plan = plan_batches([e.tokens for e in examples], training, seed)
    routing = (
        Routing(model.config.num_experts_per_tok, model.config.router_aux_loss_coef) if experts_of(model) else None
    )
    if routing is not None and model.config.router_aux_loss_coef and runtime.micro_batch_tokens is not None:
        raise UsageError(
            f"runtime.micro_batch_tokens={runtime.micro_batch_tokens}: the balance loss of a mixture of experts is taken over "
            "a micro-batch, so that how a batch is cut would change the model, and no hash would say so. Leave it out."
        )
    run = _identity(model, examples, optimizer, training, seed)
    torch.manual_seed(seed)
    state = load_checkpoint(checkpoint, model, adam.optimizer, run) if checkpoint else None
    history = [tuple(row) for row in state["history"]] if state else []
    watched = [(step, values) for step, values in state["watched"]] if state else []
    for row in history:
        if log:
            log(*row)
    for step, values in watched:
        if watch:
            watch(step, values)
    first, tokens = (state["step"], state["tokens"]) if state else (0, 0)
    before_tokens = tokens
    started = saved = time.monotonic()
    total = sum(examples[i].tokens for batch in plan[first:] for i in batch)
    model.train()
    with (
        compiled_layers(model, runtime.compiled),
        progress(title, total, "tokens", show=runtime.progress) as advance,
        interrupt_after_step() as interrupted,
    ):
        for step in range(first, len(plan)):
            before = time.monotonic()
            rate = learning_rate(step, len(plan), optimizer)
            for group in adam.param_groups:
                group["lr"] = rate
            batch = [examples[i] for i in plan[step]]
            parts = micro_batches(batch, training.micro_batch_size, runtime.micro_batch_tokens)
            value = accumulate(model, parts, pad_id, device, loss, routing)
            if not value < float("inf"):
                raise RmlabError(
                    f"the loss is {value} at step {step + 1} of {len(plan)}: training diverged. "
                    f"Lower optimizer.learning_rate ({optimizer.learning_rate})."
                )
            device.clip_grad_norm_(model.parameters(), optimizer.gradient_clip)
            adam.step()
            adam.zero_grad(set_to_none=True)
            seen = sum(e.tokens for e in batch)
            tokens += seen
            now = time.monotonic()
            history.append((step + 1, value, rate, seen / max(now - before, 1e-9)))
            if log:
                log(*history[-1])
            if routing is not None:
                watched.append((step + 1, routing.take_metrics()))
                if watch:
                    watch(*watched[-1])
            advance(seen, f"loss {value:.3f}")
            stop, by_hand = stop_asked(), interrupted()
            if checkpoint and (stop or by_hand or now - saved >= runtime.checkpoint_seconds) and step + 1 < len(plan):
                save_checkpoint(
                    checkpoint,
                    model,
                    adam.optimizer,
                    {"run": run, "step": step + 1, "tokens": tokens, "history": history, "watched": watched},
                )
                saved = time.monotonic()
            if by_hand:
                raise KeyboardInterrupt
            if stop and step + 1 < len(plan):
                raise Stopped(stop)
    model.eval()
    return Trained(len(plan), tokens, tokens - before_tokens, time.monotonic() - started, first, tuple(history))


def micro_batches(batch: Sequence[Item], size: int, tokens: int | None = None) -> list[list[Item]]:
    """A batch in the parts that are read at once: `size` examples each, or as many of like length as make `tokens` padded tokens."""
    if tokens is None:
        return [list(batch[start : start + size]) for start in range(0, len(batch), size)]
    return [[batch[row] for row in rows] for rows in batches_by_tokens([item.tokens for item in batch], tokens)]


def accumulate(
    model: Any,
    parts: Sequence[Sequence[Item]],
    pad_id: int,
    device: Any,
    loss: Loss = answer_loss,
    routing: Routing | None = None,
) -> float:
    """Adds the gradient of a batch's mean loss to the parameters, micro-batch by micro-batch; returns that loss.

    parts: see `micro_batches`. device: the Accelerator. The loss is divided by the size of the whole batch. The balance loss adds to the
    gradient, not to what is returned.
    """
    examples = sum(map(len, parts))
    told = []
    for part in parts:
        mean = loss(model, part, pad_id, device, routing) / examples
        told.append(mean.detach())
        if routing is not None:
            mean = mean + routing.take_loss() * (len(part) / examples)
        device.backward(mean)
    return sum(map(float, told))  # read in the end: every reading waits for the device


def _identity(
    model: Any, examples: Sequence[Item], optimizer: OptimizerConfig, training: TrainingConfig, seed: int
) -> str:
    shapes = [[name, list(parameter.shape)] for name, parameter in model.named_parameters()]
    content = fingerprint_lines(e.content() for e in examples)
    return fingerprint([SEMANTICS, shapes, content, asdict(optimizer), asdict(training), seed])
