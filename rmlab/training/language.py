"""Training on every next token: how a base model reads a corpus.

Rows are shuffled anew in every epoch; a step reads as many as make `batch_tokens`. The learning rate follows how much of
the budget is used up, of tokens or of time, whichever is further: a run that time ends has decayed all the same.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from rmlab.errors import RmlabError, UsageError
from rmlab.progress import progress
from rmlab.training.batching import IGNORED, Rows
from rmlab.training.config import Dtype, LanguageConfig, OptimizerConfig, RuntimeConfig
from rmlab.training.device import resolve_device
from rmlab.training.optimizer import adamw, learning_rate

EVALUATION_ROWS = 64
LOSS_EVERY = 10  # steps: reading a loss makes the device wait
SCHEDULE_POINTS = 100_000

Autocast = Callable[[], AbstractContextManager[Any]]
Log = Callable[[int, dict[str, float]], None]
"""(step from 1, values by name)."""


@dataclass
class Pretrained:
    """What training took. history: rows of step and values by name.

    loss, right: of the held-out rows by kind, in nats a token and as the share of tokens foretold.
    """

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    ended_by: str = "tokens"
    device: str = ""
    loss: dict[str, float] = field(default_factory=dict)
    right: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)


def train_language_model(
    model: Any,
    rows: Rows,
    held_out: Mapping[str, Rows],
    questions: Rows | None = None,
    *,
    config: LanguageConfig,
    optimizer: OptimizerConfig,
    runtime: RuntimeConfig,
    seed: int,
    log: Log | None = None,
) -> Pretrained:
    """Trains `model` in place (left on the CPU in the end) until the tokens or the minutes are used up.

    rows: what is read, again and again. held_out: rows that are not read, by kind; their loss is taken `evaluations` times.
    questions: rows of which only answers are asked for; `comparison_share` of every step's rows are drawn from them.
    Tokens are counted where a next token is asked for. Raises RmlabError where the loss is no longer finite.
    """
    device = resolve_device(runtime.device)
    batch_rows = config.batch_tokens // config.context
    if not 1 <= batch_rows <= len(rows):
        raise UsageError(
            f"batch_tokens={config.batch_tokens} at a context of {config.context} makes {batch_rows} rows a step; "
            f"the corpus has {len(rows)} rows. Choose between {config.context} and {len(rows) * config.context}."
        )
    torch.manual_seed(seed)
    torch.set_num_threads(config.threads)
    torch.set_float32_matmul_precision("high")
    model.to(device).train()
    adam = adamw(model, optimizer)
    loss_of: Any = torch.compile(_mean_loss) if config.compile else _mean_loss
    ids_RT, target_RT = _on(device, rows)
    asked_rows = round(config.comparison_share * batch_rows) if questions is not None else 0
    if questions is not None:
        asked_RT, answer_RT = _on(device, questions)
    found = Pretrained(device=torch.cuda.get_device_name() if device == "cuda" else "cpu")
    autocast = _autocast(device, config.dtype)
    started, told, told_tokens, evaluated = time.monotonic(), time.monotonic(), 0, 0
    read_rows = batch_rows - asked_rows
    per_step = round(rows.tokens / len(rows) * read_rows)
    draws = zip(_batches(len(rows), read_rows, seed), _batches(len(questions or rows), asked_rows, seed), strict=False)
    with progress("pretraining", config.tokens, "tokens", show=runtime.progress) as advance:
        for batch_B, asked_B in draws:
            minutes = (time.monotonic() - started) / 60 if found.steps else 0.0
            done = max(found.tokens / config.tokens, minutes / config.max_minutes)
            if done >= 1:
                break
            rate = learning_rate(int(done * SCHEDULE_POINTS), SCHEDULE_POINTS, optimizer)
            for group in adam.param_groups:
                group["lr"] = rate
            index_B = torch.from_numpy(batch_B).to(device)
            ids_BT, target_BT = ids_RT[index_B].long(), target_RT[index_B].long()
            if asked_rows:
                asked = torch.from_numpy(asked_B).to(device)
                ids_BT = torch.cat([ids_BT, asked_RT[asked].long()])
                target_BT = torch.cat([target_BT, answer_RT[asked].long()])
            with autocast():
                loss = loss_of(model, ids_BT, target_BT, asked_rows, config.comparison_weight)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), optimizer.gradient_clip)
            adam.step()
            adam.zero_grad(set_to_none=True)
            found.steps += 1
            if found.steps == 1:  # the first one compiles: time is taken from here
                float(loss.detach())
                started = told = time.monotonic()
            found.tokens += per_step
            advance(per_step, "")
            if found.steps % LOSS_EVERY == 0:
                value, now = float(loss.detach()), time.monotonic()
                if not math.isfinite(value):
                    raise RmlabError(
                        f"the loss is {value} at step {found.steps}: training diverged. "
                        f"Lower optimizer.learning_rate ({optimizer.learning_rate})."
                    )
                speed = (found.tokens - told_tokens) / max(now - told, 1e-9)
                _tell(found, log, {"train/loss": value, "train/learning_rate": rate, "train/tokens_per_second": speed})
                told, told_tokens = now, found.tokens
                advance(0, f"loss {value:.3f}")
            if done * config.evaluations >= evaluated + 1:
                evaluated = int(done * config.evaluations)
                _tell(found, log, evaluate(model, held_out, device, autocast))
                told, told_tokens = time.monotonic(), found.tokens
    found.seconds = time.monotonic() - started
    found.ended_by = "tokens" if found.tokens >= config.tokens else "minutes"
    last = evaluate(model, held_out, device, autocast)
    found.loss = {kind: last[f"held_out/loss_{kind}"] for kind in held_out}
    found.right = {kind: last[f"held_out/right_{kind}"] for kind in held_out}
    _tell(found, log, last)
    model.cpu().eval()
    return found


def evaluate(model: Any, held_out: Mapping[str, Rows], device: str, autocast: Autocast) -> dict[str, float]:
    """Mean loss of each kind's rows, nats a token, as `held_out/loss_KIND`, and the share of tokens foretold as `held_out/right_KIND`."""
    model.eval()
    values = {}
    with torch.inference_mode():
        for kind, rows in held_out.items():
            ids_RT, target_RT = _on(device, rows)
            total, right = 0.0, 0
            for start in range(0, len(rows), EVALUATION_ROWS):
                part = slice(start, start + EVALUATION_ROWS)
                target_BT = target_RT[part].long()
                with autocast():
                    logits_BTV = _logits(model, ids_RT[part].long())
                    loss = _cross_entropy(logits_BTV, target_BT)
                total += int((target_BT != IGNORED).sum()) * float(loss)
                right += int((logits_BTV.argmax(-1) == target_BT).sum())
            values[f"held_out/loss_{kind}"] = total / rows.tokens
            values[f"held_out/right_{kind}"] = right / rows.tokens
    model.train()
    return values


def _mean_loss(
    model: Any, ids_BT: torch.Tensor, target_BT: torch.Tensor, asked_rows: int = 0, weight: float = 1.0
) -> torch.Tensor:
    """Mean over the positions that ask; of the last `asked_rows` rows a mean of its own, which is added `weight` times.

    No mask is made: attention is causal, and documents of a row see those before them.
    """
    logits_BTV = _logits(model, ids_BT)
    rows = len(ids_BT) - asked_rows
    text = _cross_entropy(logits_BTV[:rows], target_BT[:rows])
    if not asked_rows:
        return text
    return text + weight * _cross_entropy(logits_BTV[rows:], target_BT[rows:])


def _logits(model: Any, ids_BT: torch.Tensor) -> torch.Tensor:
    hidden_BTH = model.get_decoder()(
        input_ids=ids_BT, attention_mask={"full_attention": None}, use_cache=False
    ).last_hidden_state
    logits_BTV: torch.Tensor = model.get_output_embeddings()(hidden_BTH)
    return logits_BTV


def _cross_entropy(logits_BTV: torch.Tensor, target_BT: torch.Tensor) -> torch.Tensor:
    return cross_entropy(logits_BTV.float().flatten(0, 1), target_BT.flatten(), ignore_index=IGNORED)


def _batches(rows: int, batch_rows: int, seed: int) -> Iterator[np.ndarray]:
    """Row numbers of each step, for ever: every row once an epoch but for the few that do not fill a batch."""
    epoch = 0
    while not batch_rows:
        yield np.empty(0, dtype=np.int64)
    while True:
        order = np.random.default_rng([seed, epoch]).permutation(rows)
        for start in range(0, rows - batch_rows + 1, batch_rows):
            yield order[start : start + batch_rows]
        epoch += 1


def _on(device: str, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(rows.ids_RT).to(device), torch.from_numpy(rows.target_RT).to(device)


def _autocast(device: str, dtype: Dtype) -> Autocast:
    return lambda: torch.autocast(device, dtype=torch.bfloat16, enabled=dtype is Dtype.bfloat16)


def _tell(found: Pretrained, log: Log | None, values: dict[str, float]) -> None:
    found.history.append({"step": found.steps, "tokens": found.tokens, **values})
    if log:
        log(found.steps, values)
