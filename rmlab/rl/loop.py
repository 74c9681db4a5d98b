"""The loop of RL: attempts, rewards, update, and every few steps an evaluation of the policy.

    evaluate (validation, held-out) → [ batch → optimiser steps → engine takes the weights → evaluate ]* → held-out

A loop continues exactly from its saved state: give the same command again after a kill, or for the next slice of time. What is asked
to stop ends within seconds: attempts and evaluations are cut and made again, an update is finished first.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rmlab.gpu_memory import most_held, most_in_tensors
from rmlab.microswe.task import Task, tasks_fingerprint
from rmlab.progress import progress
from rmlab.rl.artifacts import ArtifactBuffer, episodes_page, spread_over
from rmlab.rl.batch import RolloutContext, make_batch, step_seed
from rmlab.rl.before import once
from rmlab.rl.config import WatchConfig
from rmlab.rl.evaluation import evaluate, evaluate_held_out, levelled, start_difficulty
from rmlab.rl.learner import BestWeights, Learner, Rates, RLState, load_state, save_state
from rmlab.rl.update import update
from rmlab.stopping import interrupt_asks_to_stop, interrupt_stops_at_once, stop_asked
from rmlab.training.config import OptimizerConfig
from rmlab.training.optimizer import learning_rate, set_learning_rate

Log = Callable[[dict[str, float], int], None]
"""(metrics by full name, step) as they come."""


@dataclass
class Loop:
    """One training. validation: tasks of the evaluations; held_out: tasks by benchmark. run: fingerprint that its state belongs to.

    beginning: all but tasks that decides what the start's attempts are (`rmlab.rl.before`).
    artifacts: pages of episodes, and the score table of every evaluation. checkpoint_seconds: between two of them.
    show: draw a progress bar.
    """

    learner: Learner
    context: RolloutContext
    optimizer: OptimizerConfig
    watch: WatchConfig
    validation: Sequence[Task]
    held_out: dict[str, list[Task]]
    run: str
    checkpoint: Path
    log: Log
    artifacts: ArtifactBuffer
    beginning: list[Any]
    checkpoint_seconds: float = 60.0
    show: bool = True
    held_out_after: Rates = field(default_factory=dict)
    held_out_best: Rates = field(default_factory=dict)
    _counted: float = field(default=0.0, init=False)  # up to when the state's seconds are counted
    _saved: float = field(default=0.0, init=False)
    _saved_rows: int = field(default=0, init=False)  # of the state's history, as it was saved last

    @property
    def best_weights(self) -> BestWeights:
        """The weights of the best evaluation."""
        return BestWeights(self.checkpoint.parent, self.learner.model)

    def start(self) -> RLState:
        """The state to go on from: weights and moments are put back. Raises DataError where it is damaged, or the best weights are, which
        are read only behind the last step."""
        state = load_state(self.checkpoint, self.learner.model, self.learner.adam, self.run)
        if self.watch.choose and state.best_step not in (-1, 0, state.step):
            self.best_weights.check(state.best_step)
        self.context.sampler.drawn = state.drawn
        if self.context.reward_model is not None:
            self.context.reward_model.difficulty = state.difficulty
        self.context.engine.refresh()
        return state

    def train(self, state: RLState, deadline: float | None = None) -> bool:
        """Trains on until all steps are done (True) or time.monotonic() is past `deadline` between two steps (False; saved).

        At least one step is made, or what follows the last, so that slices of any length come to an end.
        """
        config, first = self.context.config, state.step
        self._counted = self._saved = time.monotonic()
        self._saved_rows = len(state.history)
        with (
            progress(self.context.name, config.steps, "steps", show=self.show, already=state.step) as advance,
            interrupt_asks_to_stop(),
        ):
            while True:
                if state.evaluated < state.step and self._evaluation_is_due(state.step):
                    self._evaluate(state)
                # after validation: a verifier that cannot read attempts stops the run before this takes its time
                if state.step == 0 and state.held_out_before.keys() != self.held_out.keys():
                    state.held_out_before = self._evaluate_start(state)
                done = state.step >= config.steps
                late = deadline is not None and state.step > first and time.monotonic() >= deadline
                stop = stop_asked()
                if done or late or stop or time.monotonic() - self._saved >= self.checkpoint_seconds:
                    self._save(state)
                if stop:
                    raise stop
                if done or late:
                    break
                note = self._step(state)
                advance(1, note)
        if late:  # what is left, be it the held-out benchmarks alone, is for the next slice
            return False
        if state.held_out_after.keys() != self.held_out.keys():
            state.held_out_after = self._evaluate_held_out(state)
        self.held_out_after = state.held_out_after
        if self.watch.choose:
            self._evaluate_best(state)
        return True

    def _save(self, state: RLState) -> None:
        now = time.monotonic()
        state.seconds += now - self._counted
        save_state(self.checkpoint, self.learner.model, self.learner.adam, state, self.run)
        if self.watch.choose:
            self.best_weights.forget_all_but(state.best_step)
        self._counted, self._saved, self._saved_rows = now, time.monotonic(), len(state.history)

    @contextmanager
    def _made_again(self, state: RLState) -> Iterator[None]:
        """A block that changes neither the state nor the weights: Ctrl-C and SIGTERM cut it, and what was finished before is saved."""
        try:
            with interrupt_stops_at_once():
                yield
        except KeyboardInterrupt:
            lost = stop_asked() is not None  # another process may be at work on this state
            if not lost and len(state.history) > self._saved_rows:
                self._save(state)
            raise

    def _step(self, state: RLState) -> str:
        """One batch and the optimiser steps over it; returns a note for the progress bar."""
        started = time.monotonic()
        context, config, algorithm = self.context, self.context.config, self.context.algorithm
        with self._made_again(state):
            batch = make_batch(context, state.step)
        state.drawn = context.sampler.drawn
        metrics = dict(batch.metrics)
        before_update = time.monotonic()
        if batch.learned:
            rate = learning_rate(state.step, config.steps, self.optimizer)
            set_learning_rate(self.learner.adam, rate)
            rollouts = [batch.rollouts[i] for i in batch.learned]
            start_too = self._evaluation_is_due(state.step + 1)
            rng = np.random.default_rng(step_seed(context.seed, state.step, -1))
            advantage_N = batch.advantage_N[batch.learned]
            metrics |= update(self.learner, rollouts, advantage_N, algorithm, config, rng, start_too)
            metrics["learning_rate"] = rate
            context.engine.refresh()
        now = time.monotonic()
        metrics |= {"seconds_update": now - before_update, "seconds_step": now - started}
        for name, most in (("gpu_gib", most_held()), ("gpu_tensors_gib", most_in_tensors())):
            if most is not None:
                metrics[name] = most
        state.step += 1
        self._log(state, "rl", metrics, state.step)
        if self.watch.episodes and self._evaluation_is_due(state.step):
            page = episodes_page(f"{context.name}, step {state.step}", spread_over(batch, self.watch.episodes))
            self.artifacts.text(f"episodes/step_{state.step:05d}.html", page)
        return f"reward {metrics['reward']:.3f}, resolved {metrics['true_rate']:.3f}"

    def _evaluation_is_due(self, step: int) -> bool:
        every = self.watch.every
        return step == 0 or step == self.context.config.steps or (every > 0 and step % every == 0)

    def _evaluate(self, state: RLState) -> None:
        """Validation; at step 0 the difficulty of tasks too, where a reward needs it."""
        started = time.monotonic()
        with self._made_again(state):
            if state.step == 0:
                self._measure_difficulty(state)
            context = self.context
            result = evaluate(
                context.engine,
                self.validation,
                context.name,
                self.watch.attempts,
                context.reward_model,
                context.config,
                self._seed,
                state.curve[0] if state.curve else None,
            )
        took = time.monotonic() - started
        state.curve.append({"step": float(state.step), **result.metrics})
        state.evaluated = state.step
        if result.metrics["pass_at_1"] > state.best:
            state.best_step, state.best = state.step, result.metrics["pass_at_1"]
            if self.watch.choose and state.step:
                self.best_weights.keep(state.step)
        self._log(state, "rl", {**result.metrics, "seconds_look": took}, state.step)
        if result.scores is not None:  # what offline metrics on shifted attempts are computed from
            self.artifacts.scores(f"attempts/look_{state.step:05d}.parquet", result.scores)

    def _measure_difficulty(self, state: RLState) -> None:
        """Log odds of each task under the start, where the reward has a term of difficulty."""
        context, model = self.context, self.context.reward_model
        if model is None or not context.reward.transform.difficulty:
            return
        tasks = [*self.validation, *context.sampler.tasks]
        attempts = self.watch.difficulty_attempts
        odds, _ = once(
            [*self.beginning, "difficulty", tasks_fingerprint(tasks), attempts],
            lambda: start_difficulty(context.engine, tasks, context.name, attempts, context.config, self._seed),
        )
        if context.reward.transform.same_difficulty:
            odds = levelled(odds, context.sampler.tasks)
        state.difficulty = model.difficulty = odds

    def _evaluate_start(self, state: RLState) -> Rates:
        """Rates on the held-out benchmarks at step 0: measured once for all runs that begin alike, timed in the run that measured."""
        started, tasks = time.monotonic(), [task for own in self.held_out.values() for task in own]
        attempts = self.watch.held_out_attempts
        places = {name: sorted(task.task_id for task in own) for name, own in self.held_out.items()}
        with self._made_again(state):
            (rates, metrics), was_kept = once(
                [*self.beginning, "held_out", places, tasks_fingerprint(tasks), attempts], self._held_out_rates
            )
        if was_kept:
            metrics = {name: value for name, value in metrics.items() if not name.startswith("seconds")}
        else:
            metrics = metrics | {"seconds": time.monotonic() - started}
        self._log(state, "held_out", metrics, state.step)
        return rates

    def _held_out_rates(self) -> tuple[Rates, dict[str, float]]:
        context = self.context
        return evaluate_held_out(context.engine, self.held_out, context.name, context.config, self.watch, self._seed)

    def _evaluate_held_out(self, state: RLState, group: str = "held_out", step: int | None = None) -> Rates:
        """Rates on the held-out benchmarks of the weights as they are, logged at a step (None = the present one)."""
        started = time.monotonic()
        with self._made_again(state):
            rates, metrics = self._held_out_rates()
        self._log(state, group, metrics | {"seconds": time.monotonic() - started}, state.step if step is None else step)
        return rates

    def _evaluate_best(self, state: RLState) -> None:
        """Held-out benchmarks of the weights that were best on validation; the last ones act again afterwards."""
        if state.best_step in (0, state.step):
            self.held_out_best = self.held_out_after if state.best_step else state.held_out_before
            return
        self._counted = time.monotonic()  # the seconds of a run are those until its last step is evaluated
        self._save(state)  # now: the weights of the state are not in the model while the benchmarks are measured
        last = [parameter.detach().clone() for parameter in self.learner.trainable]
        self.best_weights.put_back(state.best_step)
        self.context.engine.refresh()
        self.held_out_best = self._evaluate_held_out(state, "held_out_best", state.best_step)
        with torch.no_grad():
            for parameter, weight in zip(self.learner.trainable, last, strict=True):
                parameter.copy_(weight)
        self.context.engine.refresh()

    def _log(self, state: RLState, group: str, metrics: dict[str, float], step: int) -> None:
        named = {f"{group}/{name}": value for name, value in metrics.items()}
        state.history += [[name, value, step, int(time.time() * 1000)] for name, value in named.items()]
        self.log(named, step)

    @property
    def _seed(self) -> int:
        """The seed of every evaluation: the same attempts' streams each time."""
        return step_seed(self.context.seed, -1)
