"""Training on every next token: how a base model reads a corpus.

Rows are reshuffled in every epoch; a step reads as many as make up `batch_tokens`. The learning rate follows the share of the
budget that is used, of tokens or of time, whichever is larger, so it has also decayed when a run ends by its time limit.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from rmlab.errors import UsageError
from rmlab.stopping import interrupt_stops_at_once
from rmlab.training.batching import IGNORED, Rows
from rmlab.training.config import LanguageConfig, OptimizerConfig, RuntimeConfig
from rmlab.training.device import accelerator, device_name
from rmlab.training.loop import Recipe, Trained, TrainingState, run_identity, step_metrics, train_loop
from rmlab.training.optimizer import accumulate, adamw, learning_rate

EVALUATION_ROWS = 64
LOG_EVERY = 10  # steps: reading a loss makes the device wait
SCHEDULE_POINTS = 100_000

Log = Callable[[int, dict[str, float]], None]
"""(step from 1, values by name)."""


@dataclass(frozen=True)
class Pretrained:
    """What training took. tokens: next tokens asked for. seconds: without the first step of a process, which compiles.

    loss, right: of the held-out rows by kind, in nats a token and as the share of tokens foretold. history: rows of step and values
    by name.
    """

    steps: int
    tokens: int
    seconds: float
    resumed_at: int
    ended_by: str
    device: str
    loss: dict[str, float]
    right: dict[str, float]
    history: list[dict[str, float]]


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
    checkpoint: Path | None = None,
    log: Log | None = None,
) -> Pretrained:
    """Trains `model` in place (left on the CPU in the end) until the tokens or the minutes are used up; see `train_loop`.

    rows: what is read, again and again. held_out: rows that are not read, by kind; their loss is taken `evaluations` times.
    questions: rows of which only answers are asked for; `comparison_share` of every step's rows are drawn from them.
    Tokens are counted where a next token is asked for. log: is told every LOG_EVERY steps, and of every evaluation.
    """
    batch_rows = config.batch_tokens // config.context
    if not 1 <= batch_rows <= len(rows):
        raise UsageError(
            f"batch_tokens={config.batch_tokens} at a context of {config.context} gives {batch_rows} rows per step; "
            f"the corpus has {len(rows)} rows. Choose between {config.context} and {len(rows) * config.context}."
        )
    device = accelerator(config, runtime)
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")
    model.to(device.device)
    adam = adamw(model, optimizer)
    logged: Log = log or (lambda step, values: None)
    recipe = _recipe(model, rows, held_out, questions, config, optimizer, runtime.compiled, seed, device)
    content = [part.content() for part in (rows, *([] if questions is None else [questions]))]
    took, state = train_loop(
        model,
        adam,
        recipe,
        optimizer=optimizer,
        runtime=runtime,
        run=run_identity(model, content, config, optimizer, seed) if checkpoint else "",
        checkpoint=checkpoint,
        log=lambda *row: logged(row[0], step_metrics(*row[1:])),
        watch=logged,
    )
    last = evaluate(model, held_out, device)
    logged(took.steps, last)
    model.cpu().eval()
    return Pretrained(
        steps=took.steps,
        tokens=took.tokens,
        seconds=took.seconds_in_all,
        resumed_at=took.resumed_at,
        ended_by="tokens" if took.tokens >= config.tokens else "minutes",
        device=device_name(device.device.type),
        loss={kind: last[f"held_out/loss_{kind}"] for kind in held_out},
        right={kind: last[f"held_out/right_{kind}"] for kind in held_out},
        history=_history(took, state, last),
    )


def _recipe(
    model: Any,
    rows: Rows,
    held_out: Mapping[str, Rows],
    questions: Rows | None,
    config: LanguageConfig,
    optimizer: OptimizerConfig,
    compiled: bool,
    seed: int,
    device: Any,
) -> Recipe:
    batch_rows = config.batch_tokens // config.context
    asked_rows = round(config.comparison_share * batch_rows) if questions is not None else 0
    read_rows = batch_rows - asked_rows
    loss_of: Any = torch.compile(_mean_loss) if compiled else _mean_loss
    ids_RT, target_RT = _on(device, rows)
    if questions is not None:
        asked_RT, answer_RT = _on(device, questions)
    per_step = round(rows.tokens / len(rows) * read_rows)
    draws: Iterator[tuple[np.ndarray, np.ndarray]] = iter(())

    def restore(state: TrainingState) -> None:
        nonlocal draws
        both = zip(
            _batches(len(rows), read_rows, seed), _batches(len(questions or rows), asked_rows, seed), strict=False
        )
        draws = islice(both, state.step, None)
        if "unmeasured" in state.extra:
            state.measured.append((state.step, measured(state)))

    def done(state: TrainingState) -> float:
        return max(state.tokens / config.tokens, state.seconds / 60 / config.max_minutes)

    def rate(state: TrainingState) -> float | None:
        share = state.extra["done"] = done(state)
        return learning_rate(int(share * SCHEDULE_POINTS), SCHEDULE_POINTS, optimizer) if share < 1 else None

    def gradient(_: TrainingState) -> tuple[torch.Tensor, int]:
        batch_B, asked_B = next(draws)
        index_B = torch.from_numpy(batch_B).to(device.device)
        ids_BT, target_BT = ids_RT[index_B].long(), target_RT[index_B].long()
        if asked_rows:
            asked = torch.from_numpy(asked_B).to(device.device)
            ids_BT = torch.cat([ids_BT, asked_RT[asked].long()])
            target_BT = torch.cat([target_BT, answer_RT[asked].long()])

        def loss(_: None) -> torch.Tensor:
            with device.autocast():
                value: torch.Tensor = loss_of(model, ids_BT, target_BT, asked_rows, config.comparison_weight)
            return value

        return accumulate([None], loss, device), per_step

    def after(state: TrainingState) -> dict[str, float]:
        due = int(state.extra["done"] * config.evaluations)  # done: before this step
        if due <= state.extra.get("evaluated", 0):
            return {}
        state.extra["evaluated"] = due
        return measured(state)

    def measured(state: TrainingState) -> dict[str, float]:
        """The losses of the held-out rows. Ctrl-C and SIGTERM cut this; the same training then measures them when it goes on."""
        state.extra["unmeasured"] = True
        with interrupt_stops_at_once():
            values = evaluate(model, held_out, device)
        del state.extra["unmeasured"]
        return values

    return Recipe(
        rate, gradient, config.tokens, "pretraining", every=LOG_EVERY, after=after, after_is_cut=True, restore=restore
    )


def _history(took: Trained, state: TrainingState, last: dict[str, float]) -> list[dict[str, float]]:
    """All rows by step, those of a step's loss before those of its evaluation. Every step reads as many tokens."""
    entries = [(row[0], step_metrics(*row[1:])) for row in took.history] + [*state.measured, (took.steps, last)]
    per_step = took.tokens // max(took.steps, 1)
    return [
        {"step": step, "tokens": step * per_step, **values} for step, values in sorted(entries, key=lambda one: one[0])
    ]


def evaluate(model: Any, held_out: Mapping[str, Rows], device: Any) -> dict[str, float]:
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
                with device.autocast():
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


def _on(device: Any, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(rows.ids_RT).to(device.device), torch.from_numpy(rows.target_RT).to(device.device)
