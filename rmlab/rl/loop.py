"""The loop: attempts, rewards, update, and every few steps a look at what became of the policy.

    look (validation, held-out) → [ batch → log-probabilities → optimiser steps → engine takes the weights → look ]* → held-out

A loop goes on from its saved state exactly where it was: the same command again after a kill, or at the next slice of time.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from rmlab.microswe.task import Task
from rmlab.policies.engine import EngineSeconds
from rmlab.progress import progress
from rmlab.rl.artifacts import Attachments, Shown, episodes_page
from rmlab.rl.batches import Batch, Supplies, make_batch, step_seed
from rmlab.rl.config import WatchConfig
from rmlab.rl.evaluation import attempt_tasks, gap, held_out, look
from rmlab.rl.learner import Kept, Learner, State, load_state, save_state
from rmlab.rl.reward_model import log_odds
from rmlab.rl.update import look_before, update
from rmlab.stopping import Stopped, stop_asked
from rmlab.training.config import OptimizerConfig
from rmlab.training.optimizer import learning_rate

Log = Callable[[dict[str, float], int], None]
"""(metrics by full name, step) as they come."""


@dataclass
class Loop:
    """One training. validation: tasks of the looks; held_out: tasks by benchmark. run: fingerprint that its state belongs to.

    attachments: pages of episodes, and the score table of every look. show: draw a progress bar.
    """

    learner: Learner
    supplies: Supplies
    optimizer: OptimizerConfig
    watch: WatchConfig
    validation: Sequence[Task]
    held_out: dict[str, list[Task]]
    run: str
    checkpoint: Path
    log: Log
    attachments: Attachments
    show: bool = True
    held_out_after: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    held_out_best: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)

    @property
    def kept(self) -> Kept:
        """The weights of the best look."""
        return Kept(self.checkpoint.parent, self.learner.model)

    def start(self) -> State:
        """The state to go on from: weights and moments are put back."""
        state = load_state(self.checkpoint, self.learner.model, self.learner.adam, self.run)
        self.supplies.sampler.drawn = state.drawn
        if self.supplies.judge is not None:
            self.supplies.judge.difficulty = state.difficulty
        self.supplies.engine.refresh()
        return state

    def go(self, state: State, deadline: float | None = None) -> bool:
        """Trains on until all steps are done (True) or time.monotonic() is past `deadline` between two steps (False; saved).

        At least one step is made, or what follows the last, so that slices of any length come to an end.
        """
        loop, first = self.supplies.loop, state.step
        saved = slice_started = time.monotonic()
        spent = state.seconds
        with progress(self.supplies.name, loop.steps, "steps", show=self.show, already=state.step) as advance:
            while True:
                if state.looked < state.step and self._look_is_due(state.step):
                    self._look(state)
                state.seconds = spent + time.monotonic() - slice_started
                done = state.step >= loop.steps
                late = deadline is not None and state.step > first and time.monotonic() >= deadline
                stop = stop_asked()
                if done or late or stop or time.monotonic() - saved >= loop.checkpoint_seconds:
                    save_state(self.checkpoint, self.learner.model, self.learner.adam, state, self.run)
                    if self.watch.choose:
                        self.kept.forget_all_but(state.best_step)
                    saved = time.monotonic()
                if stop and not done:
                    raise Stopped(stop)
                if done or late:
                    break
                note = self._step(state)
                advance(1, note)
        if late:  # what is left, be it the held-out benchmarks alone, is for the next slice
            return False
        self.held_out_after = self._held_out(state)
        if self.watch.choose:
            self._judge_best(state)
        return True

    def _judge_best(self, state: State) -> None:
        """Held-out benchmarks of the best look's weights; the last ones act again afterwards."""
        if state.best_step in (0, state.step):
            self.held_out_best = self.held_out_after if state.best_step else state.held_out_before
            return
        last = [parameter.detach().clone() for parameter in self.learner.trainable]
        self.kept.put_back(state.best_step)
        self.supplies.engine.refresh()
        self.held_out_best = self._held_out(state, "held_out_best", state.best_step)
        with torch.no_grad():
            for parameter, weight in zip(self.learner.trainable, last, strict=True):
                parameter.copy_(weight)
        self.supplies.engine.refresh()

    def _step(self, state: State) -> str:
        started = time.monotonic()
        supplies, loop, algorithm = self.supplies, self.supplies.loop, self.supplies.algorithm
        batch = make_batch(supplies, state.step)
        state.drawn = supplies.sampler.drawn
        metrics = dict(batch.metrics)
        before_update = time.monotonic()
        if batch.learned:
            rate = learning_rate(state.step, loop.steps, self.optimizer)
            for group in self.learner.adam.param_groups:
                group["lr"] = rate
            rollouts = [batch.rollouts[i] for i in batch.learned]
            start_too = bool(algorithm.kl_weight) or self._look_is_due(state.step + 1)
            before = look_before(self.learner, rollouts, loop, start_too)
            rng = np.random.default_rng(step_seed(supplies.seed, state.step, -1))
            metrics |= before.metrics | {"learning_rate": rate}
            metrics |= update(self.learner, rollouts, batch.advantage_N[batch.learned], before, algorithm, loop, rng)
            supplies.engine.refresh()
        now = time.monotonic()
        metrics |= {"seconds_update": now - before_update, "seconds_step": now - started}
        state.step += 1
        self._log(state, "rl", metrics, state.step)
        if self._look_is_due(state.step):
            self._show_episodes(batch, state.step)
        return f"reward {metrics['reward']:.3f}, resolved {metrics['true_rate']:.3f}"

    def _look_is_due(self, step: int) -> bool:
        every = self.watch.every
        return step == 0 or step == self.supplies.loop.steps or (every > 0 and step % every == 0)

    def _look(self, state: State) -> None:
        """Validation; at the first look the held-out benchmarks too, and the difficulty of tasks where a reward needs it."""
        started = time.monotonic()
        supplies, seed = self.supplies, self._look_seed()
        if state.step == 0:
            self._know_difficulty(state)
        found = look(
            supplies.engine,
            self.validation,
            supplies.name,
            self.watch.attempts,
            supplies.judge,
            supplies.loop,
            seed,
            state.gap_before,
        )
        took = time.monotonic() - started
        if (
            state.step == 0
        ):  # behind the look: a verifier that cannot read attempts stops the run before this takes its time
            state.held_out_before = self._held_out(state)
        if state.gap_before is None and found.scores is not None:
            state.gap_before = gap(found.metrics)
        state.curve.append({"step": float(state.step), **found.metrics})
        state.looked = state.step
        if found.metrics["pass_at_1"] > state.best:
            state.best_step, state.best = state.step, found.metrics["pass_at_1"]
            if self.watch.choose and state.step:
                self.kept.keep(state.step)
        self._log(state, "rl", {**found.metrics, "seconds_look": took}, state.step)
        if found.scores is not None:  # what offline metrics on shifted attempts are computed from
            self.attachments.scores(f"attempts/look_{state.step:05d}.parquet", found.scores)

    def _held_out(
        self, state: State, group: str = "held_out", step: int | None = None
    ) -> dict[str, dict[str, dict[str, float]]]:
        """Rates on the held-out benchmarks of the weights as they are, logged at a step (None = the present one)."""
        started, supplies = time.monotonic(), self.supplies
        supplies.engine.seconds = EngineSeconds()
        rates, metrics = held_out(
            supplies.engine, self.held_out, supplies.name, supplies.loop, self.watch, self._look_seed()
        )
        spent = supplies.engine.seconds
        metrics |= {
            "seconds": time.monotonic() - started,
            "seconds_prefill": spent.prefill,
            "seconds_decoding": spent.decoding,
            "seconds_execution": spent.execution,
        }
        self._log(state, group, metrics, state.step if step is None else step)
        return rates

    def _know_difficulty(self, state: State) -> None:
        """Measures once how often the start solves each task that is scored, and freezes it."""
        supplies = self.supplies
        if supplies.judge is None or not supplies.reward.transform.difficulty:
            return
        tasks = [*self.validation, *supplies.sampler.tasks]
        made = attempt_tasks(
            supplies.engine, tasks, supplies.name, self.watch.difficulty_attempts, supplies.loop, self._look_seed()
        )
        rows = [(r.trajectory.task_id, bool(r.trajectory.resolved)) for r in made]
        names = sorted({name for name, _ in rows})
        code = {name: i for i, name in enumerate(names)}
        odds = log_odds(
            np.array([float(won) for _, won in rows]), np.array([code[name] for name, _ in rows], dtype=np.intp)
        )
        state.difficulty = dict(zip(names, odds.tolist(), strict=True))
        supplies.judge.difficulty = state.difficulty

    def _show_episodes(self, batch: Batch, step: int) -> None:
        if not self.watch.episodes:
            return
        chosen = (
            np.linspace(0, len(batch.rollouts) - 1, min(self.watch.episodes, len(batch.rollouts))).round().astype(int)
        )
        shown = [
            Shown(
                batch.rollouts[i].trajectory,
                {name: float(part_N[i]) for name, part_N in batch.rewards.parts.items()},
                None if batch.score_N is None else float(batch.score_N[i]),
            )
            for i in chosen
        ]
        self.attachments.text(
            f"episodes/step_{step:05d}.html", episodes_page(f"{self.supplies.name}, step {step}", shown)
        )

    def _log(self, state: State, group: str, metrics: dict[str, float], step: int) -> None:
        named = {f"{group}/{name}": value for name, value in metrics.items()}
        state.history += [[name, value, step, int(time.time() * 1000)] for name, value in named.items()]
        self.log(named, step)

    def _look_seed(self) -> int:
        return step_seed(self.supplies.seed, -1)
