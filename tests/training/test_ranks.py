"""Several processes that train one model: the same losses and weights as one, checkpoints for any number of them."""

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rmlab.errors import DataError, UsageError
from rmlab.launchers.rank_processes import run_ranks
from rmlab.models.config import LoraConfig
from rmlab.models.heads import ScalarModel, last_scalar, pad_right
from rmlab.models.load import scratch_model
from rmlab.models.lora import with_adapters
from rmlab.stopping import Stopped, ask_to_stop
from rmlab.training import replicas
from rmlab.training.batching import micro_batches
from rmlab.training.config import MicroBatchRuntimeConfig, OptimizerConfig, Parallel, TrainingConfig
from rmlab.training.device import accelerator, checkpointed_layers
from rmlab.training.ranks import Ranks, dealt, even, fits_whole
from rmlab.training.replicas import spread
from rmlab.training.sharding import gather, is_sharded, rows
from rmlab.training.supervised import train
from rmlab.verifiers.answer import AnswerTokens
from rmlab.verifiers.scoring import score_ids
from tests.training.test_supervised import NO, QUIET, SHAPE, YES, examples

EXPERTS = replace(SHAPE, experts=4, expert_size=8)
TRAINING = TrainingConfig(epochs=1, batch_size=10, micro_batch_size=3)
PRELOAD = ["torch", "transformers.models.qwen3.modeling_qwen3", "accelerate", "peft", __name__]


@dataclass(frozen=True)
class Case:
    """What is trained. stop_after: steps after which it is asked to stop; checkpoint: where it goes on from. parallel: how two processes
    hold the model. bucket: bytes of gradients that they send at once."""

    kind: str = "dense"
    parallel: Parallel = Parallel.fsdp
    bucket: int = replicas.BUCKET
    checkpointing: bool = False
    offload: bool = False
    checkpoint: Path | None = None
    stop_after: int = 0


@dataclass(frozen=True)
class Outcome:
    """losses: of every step. weights: whole, by name. scores: of the examples. first: rank 0's whole model stays."""

    losses: list[float]
    weights: dict[str, np.ndarray]
    scores: list[float]
    metrics: list[dict[str, float]]


def first_model(kind: str) -> Any:
    model = scratch_model(EXPERTS if kind == "experts" else replace(SHAPE, layers=3), 21, seed=0)
    if kind == "adapters":
        return with_adapters(model, LoraConfig(rank=2), seed=0)
    if kind == "scalar":  # its language model's own head, not tied here, learns nothing and must not decay
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        return ScalarModel(model)
    return model


def scalar_loss(model: Any, part: Any, pad_id: int, device: Any, routing: Any) -> torch.Tensor:
    ids_BT, length_B = pad_right([e.ids for e in part], pad_id)
    sign_B = torch.tensor([1.0 if e.target == YES else -1.0 for e in part])
    return -torch.nn.functional.logsigmoid(sign_B * last_scalar(model, ids_BT, length_B)).sum()


def learn(case: Case) -> Outcome | None:
    """What every rank does, and one process alone; None where it was asked to stop."""
    training = replace(TRAINING, checkpointing=case.checkpointing)
    device = accelerator(training, QUIET)
    ranks = Ranks.of(device)
    whole = first_model(case.kind) if ranks.is_first else None
    replicas.BUCKET = case.bucket
    model = spread(whole, training.dtype, ranks, case.parallel) if ranks.number > 1 else whole
    assert is_sharded(model) == (ranks.number > 1 and case.parallel is Parallel.fsdp)
    metrics: list[dict[str, float]] = []

    def log(step: int, *_: float) -> None:
        if step == case.stop_after and ranks.is_first:
            ask_to_stop("it is enough")

    options: dict[str, Any] = {"loss": scalar_loss} if case.kind == "scalar" else {}
    try:
        took = train(
            model,
            examples(36),
            0,
            device,
            optimizer=OptimizerConfig(learning_rate=1e-2),
            training=training,
            runtime=MicroBatchRuntimeConfig(progress=False, checkpoint_seconds=1e9, offload=case.offload),
            seed=0,
            checkpoint=case.checkpoint,
            log=log,
            watch=lambda step, values: metrics.append(values),
            **options,
        )
    except Stopped:
        return None
    finally:
        ask_to_stop(None)
    scores = score_ids(model, [e.ids for e in examples(36)], AnswerTokens(YES, NO), 0, batch_tokens=40)
    if ranks.number > 1:
        gather(model, whole)
    if whole is None:
        return None
    weights = {name: weight.detach().numpy().copy() for name, weight in whole.named_parameters()}
    return Outcome([row[1] for row in took.history], weights, scores.tolist(), metrics)


def several(cases: list[Case]) -> list[Outcome | None]:
    return [learn(case) for case in cases]


def on_two(cases: list[Case], folder: Path) -> list[Outcome | None]:
    found: list[Outcome | None] = run_ranks(partial(several, cases), 2, folder / "ranks.log", PRELOAD)
    return found


def assert_alike(two: Outcome | None, one: Outcome | None) -> None:
    assert two is not None
    assert one is not None
    assert len(one.losses) == 4
    assert two.losses == pytest.approx(one.losses, abs=1e-5)
    assert two.scores == pytest.approx(one.scores, abs=1e-5)
    assert two.weights.keys() == one.weights.keys()
    for name, weight in one.weights.items():
        assert np.allclose(two.weights[name], weight, atol=1e-4), name
    assert len(two.metrics) == len(one.metrics)
    for ours, theirs in zip(two.metrics, one.metrics, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)


@pytest.mark.slow
def test_two_processes_train_what_one_does_and_resume_one_another(tmp_path: Path) -> None:
    kinds = [
        Case("dense"),
        Case("dense", checkpointing=True, offload=True),
        Case("experts"),
        Case("scalar"),
        Case("adapters"),
    ]
    cases = [
        *kinds,
        *(replace(case, parallel=Parallel.ddp) for case in kinds),
        Case("dense", parallel=Parallel.auto, bucket=1),
    ]
    here, there, copied = (tmp_path / name / "checkpoint.safetensors" for name in ("here", "there", "copied"))
    assert learn(Case(checkpoint=here, stop_after=2)) is None
    assert here.is_file()
    alone = [learn(case) for case in cases]
    *together, stopped, resumed, copies_stopped, copies_resumed = on_two(
        [
            *cases,
            Case(checkpoint=there, stop_after=2),
            Case(checkpoint=here),
            Case(checkpoint=copied, stop_after=2, parallel=Parallel.ddp),
            Case(checkpoint=there, parallel=Parallel.ddp),
        ],
        tmp_path,
    )
    for two, one in zip(together, alone, strict=True):
        assert_alike(two, one)
    assert_alike(resumed, alone[0])  # 1 -> 2
    assert_alike(copies_resumed, alone[0])  # 2 that share it out -> 2 that have all of it
    assert stopped is None
    assert copies_stopped is None
    assert copied.is_file(), "as one process writes it"
    assert_alike(learn(Case(checkpoint=copied)), alone[0])  # 2 -> 1
    assert not there.exists()
    (folder,) = there.parent.iterdir()
    parts = [load_file(file) for file in sorted(folder.iterdir())]
    name = "weight/model.embed_tokens.weight"
    assert [len(part[name]) for part in parts] == [11, 10]  # each rank's rows alone
    assert_alike(learn(Case(checkpoint=there)), alone[0])  # 2 -> 1
    with pytest.raises(DataError, match="another run"):
        learn(Case("experts", checkpoint=there))


def learn_with_own_folders(checkpoint: Path) -> None:
    """As on two machines whose runs folders are not one."""
    number = os.environ["RANK"]
    learn(Case(checkpoint=checkpoint.with_name(number) / checkpoint.name, parallel=Parallel.ddp))


@pytest.mark.slow
def test_ranks_that_find_different_checkpoints_are_refused(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    assert learn(Case(checkpoint=tmp_path / "0" / checkpoint.name, stop_after=2)) is None
    with pytest.raises(DataError, match="not all processes of this run find the same checkpoint"):
        run_ranks(partial(learn_with_own_folders, checkpoint), 2, tmp_path / "ranks.log", PRELOAD)


def test_every_micro_batch_counts_on_one_rank_and_all_ranks_take_as_many() -> None:
    for number in (1, 2, 3, 4):
        for count in range(1, 10):
            shares = [dealt(list(range(count)), Ranks(number, index)) for index in range(number)]
            assert len({len(share) for share in shares}) == 1
            assert sorted(part for share in shares for part, counts in share if counts) == list(range(count))


def test_parts_are_halved_until_no_rank_is_idle() -> None:
    batch = examples(8)
    assert [len(part) for part in even(micro_batches(batch, 8), 2)] == [4, 4]
    assert [len(part) for part in even(micro_batches(batch, 3), 2)] == [2, 1, 3, 2] or len(
        even(micro_batches(batch, 3), 2)
    ) == 4
    assert even(micro_batches(batch, 4), 2) == micro_batches(batch, 4)
    assert [len(part) for part in even([batch[:1]], 2)] == [1]  # nothing to halve
    assert [e for part in even(micro_batches(batch, 3), 4) for e in part] == batch


def test_a_gpu_holds_the_whole_model_where_that_leaves_room_for_activations() -> None:
    gib = 2**30
    assert fits_whole(2.2 * gib, 0, 80 * gib)  # Qwen3-0.6B
    assert not fits_whole(15 * gib, 0, 80 * gib)  # Qwen3-4B
    assert fits_whole(0.1 * gib, 7.5 * gib, 80 * gib)  # its adapters


def test_rows_are_cut_as_torch_cuts_them() -> None:
    for size in (1, 2, 7, 8, 21):
        for number in (1, 2, 3, 8):
            cut = [len(part) for part in torch.arange(size).chunk(number)]
            ours = [last - first for first, last in (rows(size, Ranks(number, index)) for index in range(number))]
            assert ours == cut + [0] * (number - len(cut))


class OlderModel(torch.nn.Linear):
    """As transformers 5.17 names it."""

    kept = False

    def gradient_checkpointing_enable(self, options: dict[str, bool], offload: bool = False) -> None:
        assert not options["use_reentrant"]
        self.kept = True

    def gradient_checkpointing_disable(self) -> None:
        self.kept = False


def test_activations_are_made_again_by_the_older_name_of_transformers_too() -> None:
    model = OlderModel(2, 2)
    with checkpointed_layers(model, wanted=True, offload=True):
        assert model.kept
    assert not model.kept
    with (
        pytest.raises(UsageError, match=r"needs training\.checkpointing=true"),
        checkpointed_layers(model, False, True),
    ):
        pass
