"""One loop for all: it takes the very steps of a loop written out, and Ctrl-C ends it at a step whose state is kept."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from rmlab.errors import RmlabError
from rmlab.models.load import scratch_model
from rmlab.stopping import Stopped, ask_to_stop, interrupt_asks_to_stop, stop_asked
from rmlab.training import supervised
from rmlab.training.batching import plan_batches
from rmlab.training.config import MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.training.device import accelerator
from rmlab.training.loop import Recipe, TrainingState, _Rows, train_loop
from rmlab.training.optimizer import adamw, apply_gradient, check_finite, learning_rate
from rmlab.training.policy import imitate, token_logprobs
from rmlab.training.supervised import train
from tests.training.test_policy import SHAPE as POLICY
from tests.training.test_policy import some_lessons
from tests.training.test_supervised import SHAPE, examples

QUIET = MicroBatchRuntimeConfig(progress=False)
OPTIMIZER = OptimizerConfig(learning_rate=1e-2, gradient_clip=0.5)


def by_hand(model: Any, plan: list[list[int]], losses: Any) -> list[float]:
    """Accumulate, clip, step: losses(indices) gives the losses of a step's micro-batches, whose sum is the step's loss."""
    adam, found = adamw(model, OPTIMIZER), []
    model.train()
    for step, batch in enumerate(plan):
        total = 0.0
        for loss in losses(batch):
            loss.backward()
            total += float(loss.detach())
        for group in adam.param_groups:
            group["lr"] = learning_rate(step, len(plan), OPTIMIZER)
        torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIMIZER.gradient_clip)
        adam.step()
        adam.zero_grad()
        found.append(total)
    return found


def test_a_training_that_has_ended_gives_its_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, training = examples(8), TrainingConfig(epochs=1, batch_size=8, micro_batch_size=8)
    model, made, left = scratch_model(SHAPE, 20, seed=0), list[torch.optim.Optimizer](), list[int]()

    def kept(*of: Any) -> torch.optim.Optimizer:
        made.append(adamw(*of))
        return made[-1]

    monkeypatch.setattr(supervised, "adamw", kept)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: left.append(len(made[0].state)))
    train(model, rows, 0, accelerator(training, QUIET), optimizer=OPTIMIZER, training=training, runtime=QUIET, seed=0)
    assert left == [0], "the optimiser's moments are gone when torch gives its memory back, once"
    assert all(parameter.grad is None for parameter in model.parameters())


def same(one: Any, two: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_a_verifier_is_trained_bit_for_bit_as_by_hand() -> None:
    rows, training = examples(24), TrainingConfig(epochs=2, batch_size=8, micro_batch_size=3)
    model, oracle = scratch_model(SHAPE, 20, seed=0), scratch_model(SHAPE, 20, seed=0)
    took = train(
        model, rows, 0, accelerator(training, QUIET), optimizer=OPTIMIZER, training=training, runtime=QUIET, seed=0
    )

    def losses(batch: list[int]) -> Any:
        from rmlab.models.heads import last_logits, pad_right

        for start in range(0, len(batch), 3):
            part = [rows[i] for i in batch[start : start + 3]]
            logits_BV = last_logits(oracle, *pad_right([e.ids for e in part], 0))
            target_B = torch.tensor([e.target for e in part])
            yield torch.nn.functional.cross_entropy(logits_BV, target_B, reduction="sum") / len(batch)

    found = by_hand(oracle, plan_batches([len(e.ids) for e in rows], training, 0), losses)
    assert [row[1] for row in took.history] == found
    assert same(model, oracle)


def test_a_policy_imitates_bit_for_bit_as_by_hand() -> None:
    rows, training = some_lessons(24), TrainingConfig(epochs=2, batch_size=8, micro_batch_size=4)
    model, oracle = scratch_model(POLICY, 64, 0), scratch_model(POLICY, 64, 0)
    took = imitate(model, rows, 63, optimizer=OPTIMIZER, training=training, runtime=QUIET, seed=0)

    def losses(batch: list[int]) -> Any:
        asked = sum(int(rows[i].loss_mask_T.sum()) for i in batch)
        for start in range(0, len(batch), 4):
            part = [rows[i] for i in batch[start : start + 4]]
            width = max(e.tokens for e in part)
            ids_BT, mask_BT = torch.full((4, width), 63), torch.zeros((4, width), dtype=torch.bool)
            for row, e in enumerate(part):
                ids_BT[row, : e.tokens] = torch.from_numpy(e.ids_T.astype("int64"))
                mask_BT[row, : e.tokens] = torch.from_numpy(e.loss_mask_T)
            yield -token_logprobs(oracle, ids_BT, mask_BT)[0].sum() / asked

    found = by_hand(oracle, plan_batches([e.tokens for e in rows], training, 0), losses)
    assert [row[:2] for row in took.history] == [(6, found[5])]
    assert took.taught_tokens == 2 * sum(int(e.loss_mask_T.sum()) for e in rows)
    assert same(model, oracle)


def test_ctrl_c_asks_a_training_to_stop_and_a_second_one_ends_it_at_once(tmp_path: Path, capfd: Any) -> None:
    training = TrainingConfig(epochs=2, batch_size=8)

    def learned(pressed: int) -> int:
        def log(step: int, *_: float) -> None:
            for _ in range(pressed if step == 3 else 0):
                os.kill(os.getpid(), signal.SIGINT)

        return train(
            scratch_model(SHAPE, 20, seed=0),
            examples(32),
            0,
            accelerator(training, QUIET),
            optimizer=OPTIMIZER,
            training=training,
            runtime=MicroBatchRuntimeConfig(progress=False, checkpoint_seconds=1e9),
            seed=0,
            checkpoint=tmp_path / "checkpoint.safetensors",
            log=log,
        ).resumed_at

    with pytest.raises(KeyboardInterrupt):
        learned(pressed=2)
    assert not list(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        learned(pressed=1)
    assert "Stopping after this step" in capfd.readouterr().err
    assert stop_asked() is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert learned(pressed=0) == 3


def test_a_measurement_that_is_cut_keeps_the_step_only_where_it_is_made_again(tmp_path: Path) -> None:
    """Elsewhere a checkpoint behind the step would lose it for good."""
    model = torch.nn.Linear(2, 1)

    def gradient(_: TrainingState) -> tuple[torch.Tensor, int]:
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        return loss.detach(), 1

    def after(_: TrainingState) -> dict[str, float]:
        raise KeyboardInterrupt

    for cut in (True, False):
        recipe = Recipe(lambda state: 0.1, gradient, 3, "training", after=after, after_is_cut=cut)
        path = tmp_path / f"cut_{cut}.safetensors"
        with pytest.raises(KeyboardInterrupt):
            train_loop(
                model, adamw(model, OPTIMIZER), recipe, optimizer=OPTIMIZER, runtime=QUIET, run="a", checkpoint=path
            )
    assert [path.name for path in tmp_path.iterdir()] == ["cut_True.safetensors"]


def test_a_beat_takes_back_its_own_request_and_not_that_of_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt), interrupt_asks_to_stop():
        ask_to_stop("the lease could not be renewed")
        assert isinstance(stop_asked(), Stopped)
        os.kill(os.getpid(), signal.SIGINT)
        ask_to_stop(None)
        assert isinstance(stop_asked(), KeyboardInterrupt)
    assert stop_asked() is None


def test_a_gradient_that_must_not_be_applied_changes_nothing() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    adam = torch.optim.AdamW([weight], lr=0.1)
    weight.grad = torch.tensor([float("inf"), 1.0])
    with pytest.raises(RmlabError, match=r"the norm is inf: training diverged. Lower optimizer.learning_rate, or x\.$"):
        apply_gradient(adam, [weight], 1.0, lambda norm: check_finite(float(norm), "the norm is inf", advice=", or x"))
    assert weight.tolist() == [1.0, 1.0]


def test_a_rows_speed_is_that_of_the_last_seconds_without_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("rmlab.training.loop.time.monotonic", lambda: clock[0])
    state = TrainingState()
    rows = _Rows(state, Recipe(lambda _: 0.1, lambda _: (torch.zeros(()), 0), 1000, "toy", 9), OptimizerConfig(), None)
    for at, left_out in ((0.1, 0.0), (1.0, 0.0), (1.9, 3.0), (5.5, 0.0), (6.0, 0.0)):  # rows come unevenly
        clock[0] = at
        state.step += 1
        state.tokens += 100
        rows.waiting = (state.step, torch.ones(()), 0.1, state.tokens)
        rows.log_waiting()
        rows.leave_out(left_out)
    speeds = [row[3] for row in state.history]
    assert speeds[:3] == pytest.approx([1000.0, 200.0, 300 / 1.9])
    assert speeds[3:] == pytest.approx(
        [300 / 2.4, 300 / 2.0]
    )  # from the rows at 0.1 and 1.0, which stand 3 seconds later now
