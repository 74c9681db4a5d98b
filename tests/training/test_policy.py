import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rmlab.errors import DataError, UsageError
from rmlab.models.config import ModelConfig
from rmlab.models.load import scratch_model
from rmlab.models.packed import packed_rows
from rmlab.training.batching import SFTExample
from rmlab.training.config import MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.training.device import accelerator
from rmlab.training.policy import Imitated, imitate, mean_gradient, token_logprobs

SHAPE = ModelConfig(hidden_size=32, layers=2, heads=2, kv_heads=1, head_dim=16, intermediate_size=64, max_positions=64)
QUIET = MicroBatchRuntimeConfig(device="cpu", progress=False)


def some_lessons(number: int) -> list[SFTExample]:
    """Sequences that count upwards from a random start; the second half is taught."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(number):
        length = int(rng.integers(6, 20))
        ids = (np.arange(length) + rng.integers(0, 20)).astype(np.int32)
        made.append(SFTExample(ids, np.arange(length) >= length // 2))
    return made


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_a_step_is_the_mean_over_taught_tokens_however_it_is_cut() -> None:
    lessons = some_lessons(6)
    by_cut = []
    for micro, tokens, joined in (
        (6, None, False),
        (2, None, False),
        (1, None, False),
        (6, 40, False),
        (4, None, True),
        (6, 40, True),
    ):
        model = scratch_model(SHAPE, 64, 0)
        training = TrainingConfig(micro_batch_size=micro)
        with packed_rows(model, joined):
            loss, asked = mean_gradient(model, lessons, 63, training, accelerator(training, QUIET), tokens)
        by_cut.append((float(loss), gradients(model)))
        assert asked == sum(int(x.loss_mask_T.sum()) for x in lessons)
    single = []
    model = scratch_model(SHAPE, 64, 0)
    for lesson in lessons:
        with torch.no_grad():
            logits = model(input_ids=torch.from_numpy(lesson.ids_T.astype(np.int64))[None]).logits[0]
        logprob = torch.log_softmax(logits, -1)
        single += [float(-logprob[t - 1, lesson.ids_T[t]]) for t in np.flatnonzero(lesson.loss_mask_T)]
    for loss, gradient in by_cut:
        assert loss == pytest.approx(np.mean(single), abs=1e-5)
        for name, value in gradient.items():
            torch.testing.assert_close(value, by_cut[0][1][name], atol=1e-5, rtol=1e-4)


def test_logprobs_by_hand_and_only_where_wanted() -> None:
    model = scratch_model(SHAPE, 64, 0).eval()
    ids_BT = torch.tensor([[5, 6, 7, 8], [9, 9, 0, 0]])
    wanted_BT = torch.tensor([[False, True, False, True], [False, True, False, False]])
    found, entropy = token_logprobs(model, ids_BT, wanted_BT, temperature=2.0, entropy=True)
    logits = model(input_ids=ids_BT).logits / 2.0
    share = torch.softmax(logits, -1)
    assert found[0, 1].item() == pytest.approx(torch.log(share[0, 0, 6]).item(), abs=1e-5)
    assert found[0, 3].item() == pytest.approx(torch.log(share[0, 2, 8]).item(), abs=1e-5)
    assert found[1, 1].item() == pytest.approx(torch.log(share[1, 0, 9]).item(), abs=1e-5)
    assert entropy is not None
    assert entropy[1, 1].item() == pytest.approx(-(share[1, 0] * share[1, 0].log()).sum().item(), abs=1e-4)
    assert not found[~wanted_BT].any()
    assert not entropy[~wanted_BT].any()


def test_it_learns_what_is_taught() -> None:
    model, lessons = scratch_model(SHAPE, 64, 0), some_lessons(64)
    training = TrainingConfig(epochs=12, batch_size=16, micro_batch_size=16, threads=1)
    took = imitate(
        model, lessons, 63, optimizer=OptimizerConfig(learning_rate=1e-2), training=training, runtime=QUIET, seed=0
    )
    assert took.steps == 48
    assert took.tokens == 12 * sum(len(x.ids_T) for x in lessons)
    assert took.history[-1][1] < 0.3 < took.history[0][1]
    again = scratch_model(SHAPE, 64, 0)
    imitate(again, lessons, 63, optimizer=OptimizerConfig(learning_rate=1e-2), training=training, runtime=QUIET, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


class Killed(Exception):
    pass


def test_a_killed_training_goes_on_and_ends_where_an_unbroken_one_ends(tmp_path: Path) -> None:
    lessons, runtime = some_lessons(64), MicroBatchRuntimeConfig(device="cpu", progress=False, checkpoint_seconds=0.0)
    training = TrainingConfig(epochs=12, batch_size=16, micro_batch_size=16, threads=1)

    def learned(folder: str, killed_at: int | None = None) -> tuple[Any, Imitated, list[int]]:
        model, told = scratch_model(SHAPE, 64, 0), list[int]()

        def log(step: int, *_: float) -> None:
            told.append(step)
            if step == killed_at:
                raise Killed

        return (
            model,
            imitate(
                model,
                lessons,
                63,
                optimizer=OptimizerConfig(learning_rate=1e-2),
                training=training,
                runtime=runtime,
                seed=0,
                snapshots=[0.2, 0.9],
                checkpoint=tmp_path / folder / "checkpoint.safetensors",
                log=log,
            ),
            told,
        )

    whole, took, steps = learned("whole")
    with pytest.raises(Killed):
        learned("killed", killed_at=30)
    again, rest, steps_again = learned("killed")
    assert (took.resumed_at, rest.resumed_at) == (0, 29), "the step that ended it was not written"
    assert (rest.steps, rest.tokens, rest.taught_tokens) == (took.steps, took.tokens, took.taught_tokens)
    assert steps_again == steps == [10, 20, 30, 40, 48]
    assert [row[:3] for row in rest.history] == [row[:3] for row in took.history]
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True))
    for (share, model), (share_again, model_again) in zip(took.snapshots, rest.snapshots, strict=True):
        assert share == share_again
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), model_again.parameters(), strict=True))
    _, measured_only, _ = learned("killed")
    assert measured_only.resumed_at == 48
    copy = tmp_path / "killed" / "snapshot_0.2.safetensors"
    copy.write_bytes(copy.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"snapshot_0\.2\.safetensors is not a readable file of weights"):
        learned("killed")
    lessons.pop()
    with pytest.raises(DataError, match="checkpoint of another run"):
        learned("killed")


def test_ctrl_c_waits_for_the_step_and_keeps_it(tmp_path: Path) -> None:
    lessons = some_lessons(64)
    runtime = MicroBatchRuntimeConfig(device="cpu", progress=False, checkpoint_seconds=1e9)

    def learned(interrupted_at: int) -> Imitated:
        def log(step: int, *_: float) -> None:
            if step == interrupted_at:
                os.kill(os.getpid(), signal.SIGINT)

        return imitate(
            scratch_model(SHAPE, 64, 0),
            lessons,
            63,
            optimizer=OptimizerConfig(),
            training=TrainingConfig(epochs=5, batch_size=16, micro_batch_size=16, threads=1),
            runtime=runtime,
            seed=0,
            checkpoint=tmp_path / "checkpoint.safetensors",
            log=log,
        )

    with pytest.raises(KeyboardInterrupt):
        learned(10)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert learned(0).resumed_at == 10


def test_nothing_to_learn_is_an_error() -> None:
    with pytest.raises(UsageError, match="no demonstrations"):
        imitate(
            scratch_model(SHAPE, 64, 0),
            [],
            63,
            optimizer=OptimizerConfig(),
            training=TrainingConfig(),
            runtime=QUIET,
            seed=0,
        )
