"""Objectives by hand, and each of them learns; a verifier with a scalar head is the same one when it is loaded."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from rmlab.errors import DataError, UsageError
from rmlab.models.config import ModelConfig
from rmlab.models.heads import FILE, ScalarModel, last_logits, last_scalar, pad_right
from rmlab.models.load import scratch_model
from rmlab.training.config import Dtype, MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.training.device import accelerator
from rmlab.training.supervised import Example, answer_loss, train
from rmlab.verifiers.answer import prove_answers, verifier_tokenizer
from rmlab.verifiers.config import Objective, ObjectiveConfig, PromptConfig
from rmlab.verifiers.objective import TrainingSet, lesson, paired, task_weights
from rmlab.verifiers.prompt import render
from rmlab.verifiers.scoring import score_ids
from rmlab.verifiers.verifier import Verifier, load_verifier, save_verifier
from tests.verifiers.examples import episode, episodes

SHAPE = ModelConfig(hidden_size=32, layers=2, heads=2, kv_heads=2, head_dim=16, intermediate_size=48)
QUIET = MicroBatchRuntimeConfig(progress=False)
POOL = episodes(24, attempts=3)  # of each task: resolved, unresolved, resolved


@pytest.fixture(scope="module")
def tokenizer():
    from rmlab.models.config import TokenizerConfig

    return verifier_tokenizer(episodes(40, "supervised"), TokenizerConfig(400))


@pytest.fixture(scope="module")
def answer(tokenizer):
    return prove_answers(tokenizer, [render(t) for t in POOL])


def ids_of(tokenizer, pool=POOL):
    return dict(
        zip(
            [t.trajectory_id for t in pool],
            [np.array(i, np.int32) for i in tokenizer.encode([render(t) for t in pool])],
            strict=True,
        )
    )


def made(tokenizer, answer, **changes) -> TrainingSet:
    return lesson(
        POOL,
        ids_of(tokenizer),
        POOL,
        ObjectiveConfig(**changes),
        TrainingConfig(batch_size=8, micro_batch_size=4),
        answer,
    )


def value(found: TrainingSet, model, items) -> float:
    device = accelerator(TrainingConfig(), QUIET)
    return float(found.loss(model, items, 0, device, None).detach())


def test_the_default_is_the_loss_as_it_was(tokenizer, answer) -> None:
    found = made(tokenizer, answer)
    assert found.loss is answer_loss
    assert all(isinstance(item, Example) for item in found.items)
    assert [item.target for item in found.items] == [answer.target(bool(t.resolved)) for t in POOL]
    assert found.training == TrainingConfig(batch_size=8, micro_batch_size=4)
    assert not found.scalar


def test_smoothing_by_hand(tokenizer, answer) -> None:
    model = scratch_model(SHAPE, tokenizer.size, 0)
    found = made(tokenizer, answer, smoothing=0.1)
    items = found.items[:2]
    said = torch.log_softmax(last_logits(model, *pad_right([i.ids for i in items], 0)), -1)
    by_hand = -(0.9 * said[0, answer.yes] + 0.1 * said[0, answer.no]) - (
        0.9 * said[1, answer.no] + 0.1 * said[1, answer.yes]
    )
    assert value(found, model, items) == pytest.approx(float(by_hand), abs=1e-4)


def test_binary_cross_entropy_and_pairs_by_hand(tokenizer, answer) -> None:
    model = ScalarModel(scratch_model(SHAPE, tokenizer.size, 0), seed=1)
    scalar = made(tokenizer, answer, kind=Objective.scalar)
    items = scalar.items[:2]
    up, down = (float(s) for s in last_scalar(model, *pad_right([i.ids for i in items], 0)).detach())
    assert up != pytest.approx(down)
    assert value(scalar, model, items) == pytest.approx(
        math.log1p(math.exp(-up)) + math.log1p(math.exp(down)), abs=1e-4
    )
    pairs = made(tokenizer, answer, kind=Objective.pairs)
    assert value(pairs, model, pairs.items[:1]) == pytest.approx(math.log1p(math.exp(down - up)), abs=1e-4)
    smooth = made(tokenizer, answer, kind=Objective.pairs, smoothing=0.2)
    both = 0.8 * math.log1p(math.exp(down - up)) + 0.2 * math.log1p(math.exp(up - down))
    assert value(smooth, model, smooth.items[:1]) == pytest.approx(both, abs=1e-4)


def test_pairs_are_of_one_task_and_those_alone_are_counted(tokenizer, answer) -> None:
    alone = [episode(500, True), episode(501, False)]
    found, left = paired([*POOL, *alone], ids_of(tokenizer, [*POOL, *alone]), {t.task_id: 1.0 for t in [*POOL, *alone]})
    assert (len(found), left) == (48, 2), "two resolved take turns with the one unresolved"
    lessons = made(tokenizer, answer, kind=Objective.pairs)
    assert (lessons.record["pairs"], lessons.record["without_partner"]) == (48, 0)
    assert (lessons.training.batch_size, lessons.training.micro_batch_size) == (4, 2), "a pair is two examples"
    assert lessons.scalar
    with pytest.raises(DataError, match="none of the 2 chosen attempts has a partner"):
        lesson(alone, ids_of(tokenizer, alone), alone, ObjectiveConfig(Objective.pairs), TrainingConfig(), answer)


def test_difficulty_weights_by_hand() -> None:
    easy, hard = [episode(1, True, attempt=a) for a in range(2)], [episode(2, a == 0, attempt=a) for a in range(4)]
    weights = task_weights([easy[0], hard[0], hard[1]], [*easy, *hard], 1.0)
    raw = np.array([1.0, math.exp(0.75), math.exp(0.75)])
    assert weights["hand/f1"] == pytest.approx(1 / raw.mean())
    assert weights["hand/f2"] == pytest.approx(math.exp(0.75) / raw.mean())
    assert set(task_weights(easy, easy, 0.0).values()) == {1.0}


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(ObjectiveConfig(smoothing=0.1), marks=pytest.mark.slow),
        pytest.param(ObjectiveConfig(difficulty=1.0), marks=pytest.mark.slow),
        ObjectiveConfig(Objective.scalar),
        ObjectiveConfig(Objective.pairs),
    ],
)
def test_each_learns_to_tell_right_from_wrong(config: ObjectiveConfig, tokenizer, answer) -> None:
    training = TrainingConfig(epochs=8, batch_size=16, micro_batch_size=16)
    found = lesson(POOL, ids_of(tokenizer), POOL, config, training, answer)
    model = scratch_model(SHAPE, tokenizer.size, 0)
    whole = ScalarModel(model) if found.scalar else model
    took = train(
        whole,
        found.items,
        0,
        accelerator(training, QUIET),
        optimizer=OptimizerConfig(learning_rate=3e-3),
        training=found.training,
        runtime=QUIET,
        seed=0,
        loss=found.loss,
    )
    assert took.history[-1][1] < 0.8 * took.history[0][1]
    score = score_ids(whole, [ids_of(tokenizer)[t.trajectory_id] for t in POOL], answer, 0, batch_tokens=8192)
    label = np.array([bool(t.resolved) for t in POOL])
    assert (score[label][:, None] > score[~label][None]).mean() > 0.8


def test_a_scalar_verifier_saved_and_loaded(tokenizer, answer, tmp_path: Path) -> None:
    verifier = Verifier(
        ScalarModel(scratch_model(SHAPE, tokenizer.size, 0), seed=3),
        tokenizer,
        PromptConfig(300),
        answer,
        Dtype.bfloat16,
    )
    save_verifier(tmp_path / "model", verifier)
    loaded = load_verifier(tmp_path / "model")
    assert isinstance(loaded.model, ScalarModel)
    assert (loaded.dtype, loaded.prompt) == (Dtype.bfloat16, verifier.prompt)
    ours, theirs = (v.score(v.encode(POOL)).score for v in (verifier, loaded))
    assert np.array_equal(ours, theirs)
    exact = Verifier(verifier.model, tokenizer, PromptConfig(300), answer)
    assert 0 < np.abs(ours - exact.score(exact.encode(POOL)).score).max() < 0.02, (
        "it scores in the arithmetic that it was trained in"
    )
    (tmp_path / "model" / FILE).unlink()
    with pytest.raises(DataError, match="is not the head of this model"):
        load_verifier(tmp_path / "model")


def test_settings_that_make_no_sense(tokenizer, answer) -> None:
    with pytest.raises(UsageError, match=r"objective\.smoothing=0\.5"):
        made(tokenizer, answer, smoothing=0.5)
