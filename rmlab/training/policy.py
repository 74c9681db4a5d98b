"""Imitation: how a policy learns from demonstrations, with the loss on the taught tokens alone.

Loss = mean of -log p over the taught tokens of an optimiser step. Micro-batches add up sums that are divided by the step's
count, so that how a batch is cut changes nothing. Conversations of like length go together, right-padded.
"""

import copy
import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy

from rmlab.errors import RmlabError, UsageError
from rmlab.files import atomic_path
from rmlab.fingerprint import fingerprint
from rmlab.models.heads import float_logits
from rmlab.progress import progress
from rmlab.training.batching import plan_batches
from rmlab.training.checkpoint import interrupt_after_step, load_checkpoint, save_checkpoint
from rmlab.training.config import Dtype, OptimizerConfig, RuntimeConfig, TrainingConfig
from rmlab.training.device import compiled_layers, resolve_device
from rmlab.training.optimizer import adamw, learning_rate

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
    resumed_at: step gone on from, 0 = none; seconds are those of all slices, the speed is this one's.

    history: (step, loss of that step, learning rate, tokens/s since the row before). snapshots: (share of training, model on the
    CPU as it was then).
    """

    steps: int
    tokens: int
    taught_tokens: int
    seconds: float
    tokens_per_second: float
    resumed_at: int
    history: tuple[tuple[int, float, float, float], ...]
    snapshots: tuple[tuple[float, Any], ...] = ()


def imitate(
    model: Any,
    lessons: Sequence[Taught],
    pad_id: int,
    *,
    optimizer: OptimizerConfig,
    training: TrainingConfig,
    runtime: RuntimeConfig,
    seed: int,
    snapshots: Sequence[float] = (),
    checkpoint: Path | None = None,
    log: Callable[[int, float, float, float], None] | None = None,
    title: str = "imitation",
) -> Imitated:
    """Trains `model` in place and leaves it on the CPU.

    log: (step from 1, loss of that step, learning rate, tokens/s since the last), those before a resume first. snapshots: shares of
    training (over 0, under 1) at which the model is copied. checkpoint: file for exact resume, written when
    `runtime.checkpoint_seconds` have gone by, on Ctrl-C, and at the end of a training that took longer than that; its owner removes
    its folder.
    Raises UsageError without lessons, RmlabError where the loss is no longer finite.
    """
    if wrong := [share for share in snapshots if not 0 < share < 1]:
        raise UsageError(f"snapshots={wrong[0]}: a share of training over 0 and under 1")
    if not lessons:
        raise UsageError(
            "there is no demonstration to learn from: name a trajectory set with resolved attempts of the supervised part"
        )
    device = resolve_device(runtime.device)
    torch.manual_seed(seed)
    torch.set_num_threads(training.threads)
    torch.set_float32_matmul_precision("high")
    model.to(device).train()
    adam = adamw(model, optimizer)
    plan = plan_batches([len(lesson.ids_T) for lesson in lessons], training, seed)
    run = _identity(model, lessons, optimizer, training, seed) if checkpoint else ""
    state = load_checkpoint(checkpoint, model, adam, run) if checkpoint else None
    first, before = (int(state["step"]), float(state["seconds"])) if state else (0, 0.0)
    read, taught = (int(state["read"]), int(state["taught"])) if state else (0, 0)
    history: list[tuple[int, float, float, float]] = [tuple(row) for row in state["history"]] if state else []
    copies = _Snapshots(
        model, {share: math.ceil(share * len(plan)) for share in snapshots}, checkpoint.parent if checkpoint else None
    )
    copies.read(first)
    for row in history:
        if log:
            log(*row)
    told_read = first_read = read
    began = saved = started = told = time.monotonic()
    total = sum(len(lessons[i].ids_T) for batch in plan[first:] for i in batch)
    with (
        compiled_layers(model, runtime.compiled),
        progress(title, total, "tokens", show=runtime.progress) as advance,
        interrupt_after_step() as interrupted,
    ):
        for step, batch in enumerate(plan[first:], first):
            rate = learning_rate(step, len(plan), optimizer)
            for group in adam.param_groups:
                group["lr"] = rate
            loss, asked = accumulate(model, [lessons[i] for i in batch], pad_id, training, device)
            torch.nn.utils.clip_grad_norm_(model.parameters(), optimizer.gradient_clip)
            adam.step()
            adam.zero_grad(set_to_none=True)
            read += (tokens := sum(len(lessons[i].ids_T) for i in batch))
            taught += asked
            if step == first:
                float(loss)
                started = told = time.monotonic()
                told_read = first_read = read
            if (step + 1) % TELL_EVERY == 0 or step + 1 == len(plan):
                value, now = float(loss), time.monotonic()
                if not math.isfinite(value):
                    raise RmlabError(
                        f"the loss is {value} at step {step + 1} of {len(plan)}: training diverged. "
                        f"Lower optimizer.learning_rate ({optimizer.learning_rate})."
                    )
                history.append((step + 1, value, rate, (read - told_read) / max(now - told, 1e-9)))
                told, told_read = now, read
                if log:
                    log(*history[-1])
                advance(0, f"loss {value:.3f}")
            advance(tokens, "")
            copies.take(step + 1)
            since = began if step + 1 == len(plan) else saved
            stop = interrupted()
            if checkpoint and (stop or time.monotonic() - since >= runtime.checkpoint_seconds):
                seconds = before + time.monotonic() - began
                save_checkpoint(
                    checkpoint,
                    model,
                    adam,
                    {
                        "run": run,
                        "step": step + 1,
                        "seconds": seconds,
                        "read": read,
                        "taught": taught,
                        "history": history,
                    },
                )
                saved = time.monotonic()
            if stop:
                raise KeyboardInterrupt
    seconds = time.monotonic() - started
    model.cpu().eval()
    speed = (read - first_read) / max(seconds, 1e-9)
    return Imitated(len(plan), read, taught, before + seconds, speed, first, tuple(history), copies.models())


class _Snapshots:
    """Copies of a model at steps by share of its training; beside a checkpoint they lie as files, so that a resume has them."""

    def __init__(self, model: Any, at: Mapping[float, int], folder: Path | None):
        self.model, self.at, self.folder = model, at, folder
        self.weights: dict[float, dict[str, torch.Tensor]] = {}

    def take(self, step: int) -> None:
        """Copies the weights that learn where a share of training ends with this step."""
        for share in [share for share, wanted in self.at.items() if wanted == step]:
            self.weights[share] = {name: p.detach().to("cpu", copy=True).contiguous() for name, p in self._learning()}
            if self.folder is not None:
                with atomic_path(self._file(share)) as temporary:
                    save_file(self.weights[share], temporary)

    def read(self, first: int) -> None:
        """The copies that were taken before a resume at step `first`."""
        for share in [share for share, wanted in self.at.items() if wanted <= first]:
            self.weights[share] = load_file(self._file(share))

    def models(self) -> tuple[tuple[float, Any], ...]:
        """(share, model on the CPU) in the order of shares."""
        found = []
        for share, weights in sorted(self.weights.items()):
            made = copy.deepcopy(self.model).cpu().eval()
            with torch.no_grad():
                for name, parameter in made.named_parameters():
                    if name in weights:
                        parameter.copy_(weights[name])
            found.append((share, made))
        return tuple(found)

    def _learning(self) -> list[tuple[str, torch.nn.Parameter]]:
        return [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]

    def _file(self, share: float) -> Path:
        assert self.folder is not None
        return self.folder / f"snapshot_{share}.safetensors"


def _identity(
    model: Any, lessons: Sequence[Taught], optimizer: OptimizerConfig, training: TrainingConfig, seed: int
) -> str:
    shapes = [[name, list(parameter.shape)] for name, parameter in model.named_parameters()]
    content = hashlib.sha256()
    for lesson in lessons:
        content.update(lesson.ids_T.tobytes() + lesson.taught_T.tobytes())
    return fingerprint([shapes, content.hexdigest(), asdict(optimizer), asdict(training), seed])


def accumulate(
    model: Any, batch: Sequence[Taught], pad_id: int, training: TrainingConfig, device: str
) -> tuple[torch.Tensor, int]:
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
    width = (
        -(-max(len(lesson.ids_T) for lesson in lessons) // WIDTH) * WIDTH
        if device != "cpu"
        else max(len(x.ids_T) for x in lessons)
    )
    ids_BT = np.full((max(rows, len(lessons)), width), pad_id, dtype=np.int64)
    taught_BT = np.zeros(ids_BT.shape, dtype=np.bool_)
    for ids_T, taught_T, lesson in zip(
        ids_BT, taught_BT, lessons, strict=False
    ):  # rows behind the last lesson are padding
        ids_T[: len(lesson.ids_T)] = lesson.ids_T
        taught_T[: len(lesson.ids_T)] = lesson.taught_T
    return torch.from_numpy(ids_BT).to(device), torch.from_numpy(taught_BT)


def autocast(device: str, dtype: Dtype) -> AbstractContextManager[Any]:
    """Arithmetic of a forward pass over float32 weights."""
    return torch.autocast(device, dtype=torch.bfloat16, enabled=dtype is Dtype.bfloat16)


def token_logprobs(
    model: Any,
    ids_BT: torch.Tensor,
    wanted_BT: torch.Tensor,
    temperature: float = 1.0,
    entropy: bool = False,
    entropy_gradient: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """logprob_BT (float32, natural logarithm): of the token at position t given those before it; 0 where it is not wanted.

    model: a transformers causal language model; gradients flow. ids_BT: right-padded, so causal attention needs no mask.
    wanted_BT: bool; its first column must be False (nothing comes before it); on the CPU it costs no wait for the device.
    temperature: as tokens were sampled; 0 counts
    as 1. entropy: the second value is entropy_BT in nats, 0 where not wanted; else None. entropy_gradient: it is differentiable.
    """
    hidden_BTH = model.get_decoder()(input_ids=ids_BT, use_cache=False).last_hidden_state
    row_N, column_N = (index_N.to(ids_BT.device) for index_N in wanted_BT.nonzero(as_tuple=True))
    logits_NV = float_logits(model, hidden_BTH[row_N, column_N - 1]) / (temperature or 1.0)
    logprob_N = -cross_entropy(logits_NV, ids_BT[row_N, column_N], reduction="none")
    logprob_BT = torch.zeros(ids_BT.shape, device=ids_BT.device).index_put((row_N, column_N), logprob_N)
    if not entropy:
        return logprob_BT, None
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        share_NV = torch.log_softmax(logits_NV, dim=-1)
        entropy_N = -(share_NV.exp() * share_NV).sum(-1)
        entropy_BT = torch.zeros(ids_BT.shape, device=ids_BT.device).index_put((row_N, column_N), entropy_N)
    return logprob_BT, entropy_BT
