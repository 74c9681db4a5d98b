"""The loop of every training: a learning rate, a gradient, an optimiser step; and after each step the log, a checkpoint, a stop.

A `Recipe` says what a verifier, a policy or a base model learns from. How the loop is timed, what it keeps, how it goes on from
a checkpoint and how it ends is the same for all of them.

A training state as one file, so that a killed run goes on exactly where it was.

One safetensors file (weights, moments of the optimiser, the state of the random generators; step and history as JSON in
its header) is renamed into place whole: there is the last checkpoint or the one before, and nothing is unpickled.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from rmlab.errors import DataError
from rmlab.files import atomic_path
from rmlab.fingerprint import fingerprint, fingerprint_lines, hashed_fields
from rmlab.progress import progress
from rmlab.stopping import interrupt_asks_to_stop, stop_asked
from rmlab.training.config import OptimizerConfig, RuntimeConfig
from rmlab.training.optimizer import apply_gradient, check_finite, learning_rate, set_learning_rate

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
    values to log. restore: is called with the state that a training goes on from, a new one's too.
    """

    rate: Callable[[TrainingState], float | None]
    gradient: Callable[[TrainingState], tuple[torch.Tensor, int]]
    tokens: int
    title: str
    steps: int | None = None
    every: int = 1
    after: Callable[[TrainingState], dict[str, float]] | None = None
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


class _Rows:
    """The rows of the log. On a GPU each is told a step late: to read a loss is to wait for it, and the device must not wait meanwhile."""

    def __init__(self, state: TrainingState, recipe: Recipe, optimizer: OptimizerConfig, log: Log | None):
        self.state, self.recipe, self.optimizer, self.log = state, recipe, optimizer, log
        self.waiting: tuple[int, torch.Tensor | _Later, float, int] | None = None
        self.note = ""
        self.begin()

    def begin(self) -> None:
        """The next row's speed is counted from now on."""
        self.told, self.told_tokens = time.monotonic(), self.state.tokens

    def check(self, loss: torch.Tensor | _Later, step: int) -> float:
        """The loss of a step. Raises RmlabError where it is no number."""
        value = float(loss)
        where = f"step {step}" + (f" of {self.recipe.steps}" if self.recipe.steps else "")
        check_finite(value, f"the loss is {value} at {where}", self.optimizer)
        return value

    def tell(self) -> None:
        """Logs the row that waits, if one does. Raises RmlabError where its loss is no number."""
        if self.waiting is None:
            return
        (step, loss, rate, tokens), self.waiting = self.waiting, None
        value, now = self.check(loss, step), time.monotonic()
        self.state.history.append((step, value, rate, (tokens - self.told_tokens) / max(now - self.told, 1e-9)))
        self.told, self.told_tokens, self.note = now, tokens, f"loss {value:.3f}"
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
) -> tuple[Trained, TrainingState]:
    """Trains `model` in place, in training mode on the device where it lies.

    run: fingerprint of everything that decides what is learned (`run_identity`); a checkpoint of another run is refused.
    checkpoint: file for exact resume, written when `runtime.checkpoint_seconds` have gone by since the last, when the training
    is asked to stop, and at the end of one that took longer than that; its owner removes it. log, watch: are told what was
    before a resume first. Raises RmlabError where the loss is no longer finite, Stopped or KeyboardInterrupt (with a
    checkpoint) where it was asked to stop.
    """
    loaded = load_checkpoint(checkpoint, model, adam, run) if checkpoint else None
    state = _restored(loaded) if loaded else TrainingState()
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
    with (
        progress(recipe.title, recipe.tokens, "tokens", show=runtime.progress, already=state.tokens) as advance,
        interrupt_asks_to_stop(),
    ):
        while rate is not None:
            set_learning_rate(adam, rate)
            loss, tokens = recipe.gradient(state)
            kept = _Later(loss) if loss.is_cuda else loss
            rows.tell()  # of the step before, while the device works at this one
            due = (state.step + 1) % recipe.every == 0 or state.step + 1 == recipe.steps
            if due and not loss.is_cuda:
                rows.check(loss, state.step + 1)
            apply_gradient(adam, model.parameters(), optimizer.gradient_clip)
            state.step += 1
            state.tokens += tokens
            if due:
                rows.waiting = (state.step, kept, rate, state.tokens)
                if not loss.is_cuda:
                    rows.tell()
            if state.step == first + 1:
                float(loss)  # waits for the device
                steady = time.monotonic()
                steady_tokens = state.tokens
                rows.tell()
                rows.begin()
            advance(tokens, rows.note)
            aside = time.monotonic()
            if recipe.after and (values := recipe.after(state)):
                state.measured.append((state.step, values))
                if watch:
                    watch(*state.measured[-1])
            state.seconds = seconds_before + time.monotonic() - steady
            rate, stop = recipe.rate(state), stop_asked()
            if rate is None or stop:
                rows.tell()
            since = began if rate is None else saved
            if checkpoint and (stop or time.monotonic() - since >= runtime.checkpoint_seconds):
                rows.tell()
                if not due:  # weights that are no numbers must not be what the same command goes on from
                    rows.check(loss, state.step)
                save_checkpoint(checkpoint, model, adam, {"run": run, **vars(state)})
                saved = time.monotonic()
            if stop:
                raise stop
            rows.told += time.monotonic() - aside  # evaluations and checkpoints do not count for the speed
    model.eval()
    ended = time.monotonic()
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
    loaded.pop("run")
    state = TrainingState(**loaded)
    state.history = [(step, loss, rate, speed) for step, loss, rate, speed in state.history]
    state.measured = [(step, values) for step, values in state.measured]
    return state


FORMAT = 1
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def save_checkpoint(path: Path, model: Any, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Writes weights that learn, their moments, random state and `state` (JSON values: step, history, what the run is)."""
    tensors = {"rng": torch.get_rng_state()}
    if _on_cuda(model):
        tensors["rng_cuda"] = torch.cuda.get_rng_state()
    for name, parameter in _learning(model):
        tensors[f"weight/{name}"] = parameter.detach().cpu().contiguous()
        for moment in MOMENTS:
            if moment in (kept := optimizer.state.get(parameter, {})):
                tensors[f"{moment}/{name}"] = kept[moment].detach().cpu().contiguous()
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata={"format": str(FORMAT), "state": json.dumps(state)})


def load_checkpoint(path: Path, model: Any, optimizer: torch.optim.Optimizer, run: str) -> dict[str, Any] | None:
    """Puts a checkpoint's tensors into model and optimizer and returns its `state`; None where there is none.

    run: fingerprint of the run that asks; a checkpoint of another run (its data or settings changed) raises DataError,
    and so does a file that cannot be read.
    """
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no iterator)
        state: dict[str, Any] = json.loads(metadata["state"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise DataError(
            f"{path} is not a readable checkpoint ({error}). Delete it; the run then starts anew."
        ) from error
    if metadata.get("format") != str(FORMAT) or state.get("run") != run:
        raise DataError(
            f"{path} is the checkpoint of another run (its data, settings or format differ). Delete it; the run "
            "then starts anew."
        )
    with torch.no_grad():
        for name, parameter in _learning(model):
            parameter.copy_(tensors[f"weight/{name}"])
            kept = {m: tensors[f"{m}/{name}"] for m in MOMENTS if f"{m}/{name}" in tensors}
            if kept:
                optimizer.state[parameter] = {
                    m: t.to(parameter.device) for m, t in kept.items()
                }  # the fused step is there too
    torch.set_rng_state(tensors["rng"])
    if "rng_cuda" in tensors and _on_cuda(model):
        torch.cuda.set_rng_state(tensors["rng_cuda"])
    return state


def _learning(model: Any) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """What is frozen is not stored: under adapters it is nearly everything."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def _on_cuda(model: Any) -> bool:
    return any(parameter.is_cuda for _, parameter in model.named_parameters())
