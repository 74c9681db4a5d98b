"""Training: accumulation by label count, learning, exact resume after SIGKILL."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.models.config import ModelConfig
from rmlab.models.heads import last_logits, pad_right
from rmlab.models.load import scratch_model
from rmlab.models.packed import packed_rows
from rmlab.stopping import Stopped, ask_to_stop
from rmlab.training import loop
from rmlab.training.batching import micro_batches
from rmlab.training.config import Dtype, MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.training.device import accelerator, resolve_device
from rmlab.training.loop import Log, Trained
from rmlab.training.supervised import Example, mean_gradient, train
from tests.forked import exit_code

SHAPE = ModelConfig(hidden_size=16, layers=2, heads=2, kv_heads=2, head_dim=8, intermediate_size=24, max_positions=32)
YES, NO = 1, 2
QUIET = MicroBatchRuntimeConfig(progress=False)


def examples(n: int) -> list[Example]:
    """Is the token 5 among 4 to 12 tokens?"""
    rng = np.random.default_rng(0)
    made = []
    for i in range(n):
        ids = rng.integers(6, 20, size=int(rng.integers(4, 13)))
        if i % 2:
            ids[rng.integers(len(ids))] = 5
        made.append(Example(ids.astype(np.int32), YES if i % 2 else NO))
    return made


def trained(
    checkpoint: Path | None = None,
    runtime: MicroBatchRuntimeConfig = QUIET,
    seed: int = 0,
    training: TrainingConfig | None = None,
    n: int = 64,
    log: Log | None = None,
) -> tuple[torch.nn.Module, Trained]:
    model = scratch_model(SHAPE, 20, seed=0)
    training = training or TrainingConfig(epochs=3, batch_size=8, micro_batch_size=4)
    took = train(
        model,
        examples(n),
        0,
        accelerator(training, runtime),
        optimizer=OptimizerConfig(learning_rate=1e-2),
        training=training,
        runtime=runtime,
        seed=seed,
        checkpoint=checkpoint,
        log=log,
    )
    return model, took


def test_eight_by_one_is_two_by_four_is_one_by_eight() -> None:
    batch = examples(8)
    gradients = []
    for micro, tokens in ((1, None), (4, None), (8, None), (3, None), (1, 24), (1, 5)):
        model = scratch_model(SHAPE, 20, seed=0)
        device = accelerator(TrainingConfig(), QUIET)
        parts = micro_batches(batch, micro, tokens)
        assert tokens is None or all(
            len(part) == 1 or len(part) * max(e.tokens for e in part) <= tokens for part in parts
        )
        loss = float(mean_gradient(model, parts, 0, device))
        gradients.append((loss, [p.grad.clone() for p in model.parameters()]))
    for loss, gradient in gradients[1:]:
        assert loss == pytest.approx(gradients[0][0], abs=1e-6)
        for a, b in zip(gradient, gradients[0][1], strict=True):
            assert torch.allclose(a, b, atol=1e-6)


def test_side_by_side_a_batch_has_the_gradient_of_its_padded_rows_however_it_is_cut() -> None:
    batch, device = examples(8), accelerator(TrainingConfig(), QUIET)
    gradients = []
    for rows_packed, tokens in ((False, None), (True, None), (True, 40), (True, 24), (True, 5)):
        model = scratch_model(SHAPE, 20, seed=0)
        parts = micro_batches(batch, 8, tokens, rows_packed)
        with packed_rows(model, rows_packed):
            loss = float(mean_gradient(model, parts, 0, device))
        gradients.append((loss, [p.grad.clone() for p in model.parameters()]))
    for loss, gradient in gradients[1:]:
        assert loss == pytest.approx(gradients[0][0], abs=1e-5)
        for a, b in zip(gradient, gradients[0][1], strict=True):
            assert torch.allclose(a, b, atol=1e-5)


@pytest.mark.gpu
def test_on_a_gpu_packed_examples_teach_what_padded_ones_do_and_every_row_is_logged() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    training = TrainingConfig(epochs=3, batch_size=8, micro_batch_size=4, dtype=Dtype.bfloat16)
    losses = []
    for packed in (True, False):
        logged: list[int] = []
        runtime = replace(QUIET, device="cuda", packed=packed)
        _, took = trained(runtime=runtime, training=training, log=lambda step, *_, logged=logged: logged.append(step))
        assert logged == [row[0] for row in took.history] == list(range(1, took.steps + 1))
        losses.append([row[1] for row in took.history])
    assert losses[0] == pytest.approx(losses[1], abs=0.05)


def test_experts_are_not_balanced_over_micro_batches_that_no_hash_knows_of() -> None:
    runtime, training = (
        MicroBatchRuntimeConfig(progress=False, micro_batch_tokens=40),
        TrainingConfig(epochs=1, batch_size=8),
    )
    for balance in (0.01, 0.0):
        experts = replace(SHAPE, experts=2, experts_per_token=1, expert_size=8, balance=balance)
        device, model = accelerator(training, runtime), scratch_model(experts, 20, seed=0)
        if balance:
            with pytest.raises(UsageError, match=r"runtime\.micro_batch_tokens=40: the balance loss"):
                train(
                    model,
                    examples(8),
                    0,
                    device,
                    optimizer=OptimizerConfig(),
                    training=training,
                    runtime=runtime,
                    seed=0,
                )
        else:
            took = train(
                model, examples(8), 0, device, optimizer=OptimizerConfig(), training=training, runtime=runtime, seed=0
            )
            assert took.steps == 1


def test_loss_is_the_mean_cross_entropy_over_the_vocabulary_at_the_last_token() -> None:
    model, batch = scratch_model(SHAPE, 20, seed=0), examples(3)
    device = accelerator(TrainingConfig(), QUIET)
    by_hand = np.mean(
        [
            -torch.log_softmax(model(input_ids=torch.tensor([e.ids.tolist()])).logits[0, -1], -1)[e.target].item()
            for e in batch
        ]
    )
    assert float(mean_gradient(model, micro_batches(batch, 2), 0, device)) == pytest.approx(by_hand, abs=1e-5)


def test_learns_and_reports_every_step() -> None:
    model, took = trained(training=TrainingConfig(epochs=12, batch_size=8), n=128)
    held_out = examples(200)[128:]
    ids_BT, length_B = pad_right([e.ids for e in held_out], 0)
    with torch.inference_mode():
        said = last_logits(model, ids_BT, length_B).argmax(-1)
    assert (said == torch.tensor([e.target for e in held_out])).float().mean() > 0.9
    assert [row[0] for row in took.history] == list(range(1, 12 * 16 + 1))
    assert took.tokens == 12 * sum(len(e.ids) for e in examples(128))
    assert took.history[-1][1] < 0.3 < took.history[0][1]
    assert not model.training


def test_same_seed_same_weights_other_seed_other_weights() -> None:
    first, second, other = (trained(seed=s)[0].state_dict() for s in (0, 0, 1))
    assert all(torch.equal(first[k], second[k]) for k in first)
    assert not all(torch.equal(first[k], other[k]) for k in first)


def test_bfloat16_is_another_arithmetic_and_still_learns() -> None:
    _, took = trained(training=TrainingConfig(epochs=3, batch_size=8, dtype=Dtype.bfloat16))
    _, exact = trained(training=TrainingConfig(epochs=3, batch_size=8))
    assert took.history[0][1] == pytest.approx(exact.history[0][1], abs=0.05)
    assert took.history != exact.history


def trained_and_killed(checkpoint: Path) -> None:
    """Writes a checkpoint after each step, and is killed when the seventh is there; for a process of its own."""
    save = loop.save_checkpoint

    def killed(path: Path, model: Any, optimizer: Any, state: dict[str, Any], ranks: Any) -> None:
        save(path, model, optimizer, state, ranks)
        if state["step"] >= 7:
            os.kill(os.getpid(), signal.SIGKILL)

    loop.save_checkpoint = killed
    trained(checkpoint, MicroBatchRuntimeConfig(progress=False, checkpoint_seconds=0.0))


@pytest.mark.slow
def test_killed_and_resumed_is_bit_for_bit_the_unbroken_run(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    assert exit_code(trained_and_killed, checkpoint) == -signal.SIGKILL
    logged: list[int] = []
    resumed, took = trained(checkpoint, log=lambda step, loss, rate, speed: logged.append(step))
    unbroken, whole = trained()
    assert took.resumed_at >= 7
    assert took.steps == whole.steps == 24
    assert took.tokens == whole.tokens
    assert logged == list(range(1, 25))
    assert [row[:3] for row in took.history] == [row[:3] for row in whole.history]
    for (name, a), b in zip(resumed.named_parameters(), unbroken.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_asked_to_stop_it_leaves_a_checkpoint_that_the_same_training_goes_on_from(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"

    def log(step: int, loss: float, rate: float, speed: float) -> None:
        if step == 5:
            ask_to_stop("the lease could not be renewed")

    rarely = MicroBatchRuntimeConfig(progress=False, checkpoint_seconds=1e9)
    try:
        with pytest.raises(Stopped, match="the lease could not be renewed"):
            trained(checkpoint, rarely, log=log)
    finally:
        ask_to_stop(None)
    with safe_open(checkpoint, "pt") as opened:
        said = json.loads(opened.metadata()["state"])
    assert (said["step"], said["steps"]) == (5, 24), "how far it is can be said"
    resumed, took = trained(checkpoint, rarely)
    unbroken, whole = trained()
    assert took.resumed_at == 5
    assert [row[:3] for row in took.history] == [row[:3] for row in whole.history]
    for (name, a), b in zip(resumed.named_parameters(), unbroken.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_a_checkpoint_of_another_run_or_a_broken_one_is_refused(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    trained(checkpoint, MicroBatchRuntimeConfig(progress=False, checkpoint_seconds=0.0))
    with pytest.raises(DataError, match="checkpoint of another run"):
        trained(checkpoint, seed=1)
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(DataError, match="not a readable checkpoint"):
        trained(checkpoint)


def test_divergence_and_missing_devices_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    model = scratch_model(SHAPE, 20, seed=0)
    with torch.no_grad():
        model.get_input_embeddings().weight.fill_(float("nan"))
    with pytest.raises(RmlabError, match=r"diverged.*Lower optimizer\.learning_rate"):
        train(
            model,
            examples(8),
            0,
            accelerator(TrainingConfig(), QUIET),
            optimizer=OptimizerConfig(),
            training=TrainingConfig(),
            runtime=QUIET,
            seed=0,
        )
    with pytest.raises(RmlabError, match=r"runtime\.device=tpu"):
        resolve_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(RmlabError, match="no CUDA device"):
            resolve_device("cuda")
        assert resolve_device("auto") == "cpu"
