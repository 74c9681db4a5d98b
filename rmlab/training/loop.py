"""The loop of every training: a learning rate, a gradient, an optimiser step; and after each step the log, a checkpoint, a stop.

A `Recipe` defines what a verifier, a policy or a base model learns from. Timing, logging, checkpoints, resuming and stopping
are the same for all of them.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from rmlab.errors import DataError
from rmlab.fingerprint import fingerprint, fingerprint_lines, hashed_fields
from rmlab.progress import progress
from rmlab.stopping import interrupt_asks_to_stop, stop_asked
from rmlab.training.checkpoints import load_checkpoint, save_checkpoint
from rmlab.training.config import OptimizerConfig, RuntimeConfig
from rmlab.training.optimizer import apply_gradient, check_finite, learning_rate, set_learning_rate
from rmlab.training.ranks import ALONE, Ranks

LAYOUT = 2  # of the state beside a checkpoint's tensors

Row = tuple[int, float, float, float]
"""(step from 1, loss of that step, learning rate, tokens/s since the row before)."""
Log = Callable[[int, float, float, float], None]
"""Is told a `Row`."""
Watch = Callable[[int, dict[str, float]], None]
"""Is told (step from 1, values by name): what the routers did, losses of held-out text."""


def step_metrics(loss: float, rate: float, speed: float) -> dict[str, float]:
    """What is logged of a step, by metric name. rate: learning rate; speed: tokens a second."""
    return {"train/loss": loss, "train/learning_rate": rate, "train/tokens_per_second": speed}


@dataclass
class TrainingState:
    """How far a training is. step: finished ones. tokens: read in them, padding aside. seconds: of all processes that worked on it,
    in each from the end of its first step, which compiles. history: rows as they were logged. measured: (step, values by name).
    extra: JSON values of the recipe's own.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    history: list[Row] = field(default_factory=list)
    measured: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """What one kind of training adds to the loop.

    rate: learning rate of the next step, None = training is over. gradient: adds the next step's gradient to the parameters and
    returns its loss (on the device) and the tokens read. tokens: in all, for the progress bar. steps: in all, where that is known.
    every: steps between two rows of the log; reading a loss makes the device wait. after: is called after each step and returns
    values to log. after_is_cut: whether Ctrl-C and SIGTERM may cut it (`interrupt_stops_at_once`), because `restore` makes it again.
    restore: is called with the state that a training goes on from, a new one's too.
    """

    rate: Callable[[TrainingState], float | None]
    gradient: Callable[[TrainingState], tuple[torch.Tensor, int]]
    tokens: int
    title: str
    steps: int | None = None
    every: int = 1
    after: Callable[[TrainingState], dict[str, float]] | None = None
    after_is_cut: bool = False
    restore: Callable[[TrainingState], None] | None = None


@dataclass(frozen=True)
class Trained:
    """What training took. history: rows of the log, those before a resume included.

    tokens: read in all, padding aside. seconds: of training in this process, which read `tokens_here`. seconds_in_all: of all
    processes and tokens_per_second: of this one, both without the first step, which compiles. resumed_at: step that this process
    went on from, 0 = none.
    """

    steps: int
    tokens: int
    tokens_here: int
    seconds: float
    seconds_in_all: float
    tokens_per_second: float
    resumed_at: int
    history: tuple[Row, ...]


class _Later:
    """A number on its way from a GPU: to ask for it waits for what was asked of the device before, and for nothing behind."""

    def __init__(self, value: torch.Tensor):
        self.value = torch.empty((), dtype=value.dtype, pin_memory=True)
        self.value.copy_(value, non_blocking=True)
        self.there = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch does not type it
        self.there.record()

    def __float__(self) -> float:
        self.there.synchronize()
        return float(self.value)


SPAN = 2.0
"""Seconds that a row's speed is taken over, at least, or all since the start where fewer have gone by: the device works behind the
program, so single rows come unevenly."""


class _Rows:
    """The rows of the log. On a GPU each is told a step late: to read a loss is to wait for it, and the device must not wait meanwhile."""

    def __init__(self, state: TrainingState, recipe: Recipe, optimizer: OptimizerConfig, log: Log | None):
        self.state, self.recipe, self.optimizer, self.log = state, recipe, optimizer, log
        self.waiting: tuple[int, torch.Tensor | _Later, float, int] | None = None
        self.note = ""
        self.begin()

    def begin(self) -> None:
        """The next rows' speed is counted from now on."""
        self.marks = deque([(time.monotonic(), self.state.tokens)])

    def leave_out(self, seconds: float) -> None:
        """Evaluations and checkpoints do not count for the speed."""
        self.marks = deque((at + seconds, tokens) for at, tokens in self.marks)

    def check(self, loss: torch.Tensor | _Later, step: int) -> float:
        """The loss of a step. Raises RmlabError where it is no number."""
        value = float(loss)
        where = f"step {step}" + (f" of {self.recipe.steps}" if self.recipe.steps else "")
        check_finite(value, f"the loss is {value} at {where}", self.optimizer)
        return value

    def log_waiting(self) -> None:
        """Logs the row that waits, if one does. Raises RmlabError where its loss is no number."""
        if self.waiting is None:
            return
        (step, loss, rate, tokens), self.waiting = self.waiting, None
        value, now = self.check(loss, step), time.monotonic()
        while len(self.marks) > 1 and now - self.marks[1][0] >= SPAN:
            self.marks.popleft()
        since, tokens_then = self.marks[0]
        self.state.history.append((step, value, rate, (tokens - tokens_then) / max(now - since, 1e-9)))
        self.marks.append((now, tokens))
        self.note = f"loss {value:.3f}"
        if self.log:
            self.log(*self.state.history[-1])


def train_loop(
    model: Any,
    adam: torch.optim.Optimizer,
    recipe: Recipe,
    *,
    optimizer: OptimizerConfig,
    runtime: RuntimeConfig,
    run: str,
    checkpoint: Path | None = None,
    log: Log | None = None,
    watch: Watch | None = None,
    ranks: Ranks = ALONE,
) -> tuple[Trained, TrainingState]:
    """Trains `model` in place, in training mode on the device where it lies.

    run: fingerprint of everything that decides what is learned (`run_identity`); a checkpoint of another run is refused.
    checkpoint: file for exact resume, written when `runtime.checkpoint_seconds` have gone by since the last, when the training
    is asked to stop, and at the end of one that took longer than that; its owner removes it. log, watch: are told what was
    before a resume first. ranks: that train it together. Raises RmlabError where the loss is no longer finite, DataError where
    ranks find different checkpoints, Stopped or KeyboardInterrupt (with a checkpoint) where it was asked to stop.
    """
    loaded = load_checkpoint(checkpoint, model, adam, run, ranks) if checkpoint else None
    state = _restored(loaded) if loaded else TrainingState()
    if not ranks.all_say(state.step):
        raise DataError(
            f"{checkpoint}: not all processes of this run find the same checkpoint. The runs folder ($RMLAB_RUNS) must be one folder that "
            "all its machines reach."
        )
    if recipe.restore:
        recipe.restore(state)
    for row in state.history if log else ():
        log(*row)  # type: ignore[misc]  # it is there
    for step, values in state.measured if watch else ():
        watch(step, values)  # type: ignore[misc]  # it is there
    first, tokens_before, seconds_before = state.step, state.tokens, state.seconds
    began = saved = steady = time.monotonic()
    steady_tokens = state.tokens
    rows, rate = _Rows(state, recipe, optimizer, log), recipe.rate(state)
    model.train()
    show = runtime.progress and ranks.is_first
    with (
        progress(recipe.title, recipe.tokens, "tokens", show=show, already=state.tokens) as advance,
        interrupt_asks_to_stop(),
    ):
        while rate is not None:
            set_learning_rate(adam, rate)
            loss, tokens = recipe.gradient(state)
            kept = _Later(loss) if loss.is_cuda else loss
            rows.log_waiting()  # of the step before, while the device works at this one
            due = (state.step + 1) % recipe.every == 0 or state.step + 1 == recipe.steps
            if due and not loss.is_cuda:
                rows.check(loss, state.step + 1)
            apply_gradient(adam, model.parameters(), optimizer.gradient_clip)
            state.step += 1
            state.tokens += tokens
            if due:
                rows.waiting = (state.step, kept, rate, state.tokens)
                if not loss.is_cuda:
                    rows.log_waiting()
            if state.step == first + 1:
                float(loss)  # waits for the device
                steady = time.monotonic()
                steady_tokens = state.tokens
                rows.log_waiting()
                rows.begin()
            advance(tokens, rows.note)
            aside = time.monotonic()
            values, cut = _after(recipe, state)
            if values:
                state.measured.append((state.step, values))
                if watch:
                    watch(*state.measured[-1])
            state.seconds = seconds_before + time.monotonic() - steady
            rate, stop = recipe.rate(state), cut or stop_asked()
            since = began if rate is None else saved
            stop, save = ranks.agree(stop, time.monotonic() - since >= runtime.checkpoint_seconds)
            if rate is None or stop:
                rows.log_waiting()
            if checkpoint and (stop or save):
                rows.log_waiting()
                if not due:  # weights that are no numbers must not be what the same command goes on from
                    rows.check(loss, state.step)
                save_checkpoint(checkpoint, model, adam, {"run": run, "steps": recipe.steps, **vars(state)}, ranks)
                saved = time.monotonic()
            if stop:
                raise stop
            rows.leave_out(time.monotonic() - aside)
    model.eval()
    ended = time.monotonic()
    adam.state.clear()
    torch.cuda.empty_cache()  # other cells may share the GPU while this one is scored
    speed = (state.tokens - steady_tokens) / max(ended - steady, 1e-9)
    return (
        Trained(
            state.step,
            state.tokens,
            state.tokens - tokens_before,
            ended - began,
            state.seconds,
            speed,
            first,
            tuple(state.history),
        ),
        state,
    )


def _after(recipe: Recipe, state: TrainingState) -> tuple[dict[str, float], KeyboardInterrupt | None]:
    """What is measured after a step, and what cut it where `restore` makes it again: the step itself is finished, and is kept."""
    if recipe.after is None:
        return {}, None
    try:
        return recipe.after(state), None
    except KeyboardInterrupt as cut:
        if not recipe.after_is_cut:
            raise
        return {}, cut


def planned(
    plan: Sequence[Sequence[int]],
    tokens_N: Sequence[int],
    optimizer: OptimizerConfig,
    gradient: Callable[[Sequence[int], TrainingState], torch.Tensor],
    title: str,
    **more: Any,
) -> Recipe:
    """A recipe whose steps are known before it begins. plan: indices of the examples of each step. tokens_N: of each example.

    gradient: adds that of a step's examples and returns their mean loss. more: fields of Recipe.
    """

    def rate(state: TrainingState) -> float | None:
        return learning_rate(state.step, len(plan), optimizer) if state.step < len(plan) else None

    def of_step(state: TrainingState) -> tuple[torch.Tensor, int]:
        batch = plan[state.step]
        return gradient(batch, state), sum(tokens_N[i] for i in batch)

    return Recipe(rate, of_step, sum(tokens_N[i] for batch in plan for i in batch), title, len(plan), **more)


def run_identity(model: Any, content: Iterable[str], *settings: Any) -> str:
    """Fingerprint of a training. content: of what is learned from, in order. settings: configurations, seed."""
    shapes = [[name, list(parameter.shape)] for name, parameter in model.named_parameters()]
    plain = [one if isinstance(one, int | str) else hashed_fields(one) for one in settings]
    return fingerprint([LAYOUT, shapes, fingerprint_lines(content), *plain])


def _restored(loaded: dict[str, Any]) -> TrainingState:
    for name in ("run", "steps"):  # said to those that look at the file
        loaded.pop(name, None)
    state = TrainingState(**loaded)
    state.history = [(step, loss, rate, speed) for step, loss, rate, speed in state.history]
    state.measured = [(step, values) for step, values in state.measured]
    return state
