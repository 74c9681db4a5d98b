"""Packing keeps every token and asks for each next one once; a base model learns what it reads."""

import math
import os
import signal
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rmlab.errors import UsageError
from rmlab.models.config import ModelConfig
from rmlab.models.load import scratch_model
from rmlab.stopping import Stopped, ask_to_stop
from rmlab.training import language
from rmlab.training.batching import IGNORED, pack
from rmlab.training.config import Dtype, LanguageConfig, OptimizerConfig, RuntimeConfig
from rmlab.training.language import _mean_loss, train_language_model

PAD = 0
SHAPE = ModelConfig(hidden_size=32, layers=2, heads=2, kv_heads=2, head_dim=16, intermediate_size=64)
CONFIG = LanguageConfig(
    tokens=8000, context=16, batch_tokens=128, evaluations=2, dtype=Dtype.float32, max_minutes=1.0, threads=1
)
CPU = RuntimeConfig(device="cpu", progress=False)


@given(st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=40), min_size=1, max_size=30), st.integers(4, 16))
def test_every_next_token_is_asked_for_once(documents, context):
    rows = pack(documents, context, PAD)
    asked = rows.target_RT != IGNORED
    pairs = sorted(zip(rows.ids_RT[asked].tolist(), rows.target_RT[asked].tolist(), strict=True))
    assert pairs == sorted(pair for d in documents for pair in pairwise(d))
    assert rows.tokens == sum(len(d) - 1 for d in documents)


@given(st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=8), min_size=1, max_size=40))
def test_documents_that_fit_are_whole_and_no_two_rows_would_fit_in_one(documents):
    rows = pack(documents, 8, PAD)
    filled = sorted((row != PAD).sum() for row in rows.ids_RT)
    assert sum(filled) == sum(map(len, documents))
    assert len(filled) < 2 or filled[0] + filled[1] > 8


def test_a_row_by_hand():
    rows = pack([[5, 6], [1, 2, 3, 4]], 7, PAD)
    assert rows.ids_RT.tolist() == [[1, 2, 3, 4, 5, 6, PAD]]
    assert rows.target_RT.tolist() == [[2, 3, 4, IGNORED, 6, IGNORED, IGNORED]]


def cycles(n, seed):
    """Documents that count upwards in a circle of ten: the next token follows from the last."""
    starts = np.random.default_rng(seed).integers(0, 10, n)
    return [[1 + (int(s) + i) % 10 for i in range(15)] for s in starts]


ROWS = pack(cycles(50, 0), 16, PAD)


def test_it_learns_what_it_reads_and_says_so_on_held_out_rows():
    model = scratch_model(SHAPE, 16, seed=0)
    seen = []
    found = train_language_model(
        model,
        pack(cycles(200, 0), 16, PAD),
        {"cycle": pack(cycles(20, 1), 16, PAD)},
        config=CONFIG,
        runtime=CPU,
        seed=0,
        optimizer=OptimizerConfig(learning_rate=1e-2),
        log=lambda step, values: seen.append(values),
    )
    assert found.loss["cycle"] < 0.1 < math.log(16)
    assert found.ended_by == "tokens"
    assert CONFIG.tokens <= found.tokens <= CONFIG.tokens + 128
    assert sum("held_out/loss_cycle" in values for values in seen) >= 2
    rates = [row["train/learning_rate"] for row in found.history if "train/learning_rate" in row]
    assert rates[-1] < 0.2 * max(rates)


def test_the_same_seed_trains_the_same_model_and_minutes_end_it():
    models = [scratch_model(SHAPE, 16, seed=0) for _ in range(2)]
    short = LanguageConfig(**{**vars(CONFIG), "tokens": 1000})
    for model in models:
        train_language_model(model, ROWS, {}, config=short, optimizer=OptimizerConfig(), runtime=CPU, seed=3)
    one, two = (dict(m.named_parameters()) for m in models)
    assert all(bool((one[name] == two[name]).all()) for name in one)
    endless = LanguageConfig(**{**vars(CONFIG), "tokens": 10**12, "max_minutes": 0.01})
    found = train_language_model(models[0], ROWS, {}, config=endless, optimizer=OptimizerConfig(), runtime=CPU, seed=0)
    assert found.ended_by == "minutes"


def test_a_batch_that_the_corpus_cannot_fill_is_refused():
    wide = LanguageConfig(**{**vars(CONFIG), "batch_tokens": 12800})
    with pytest.raises(UsageError, match=r"batch_tokens=12800 .* the corpus has \d+ rows"):
        train_language_model(
            scratch_model(SHAPE, 16, seed=0), ROWS, {}, runtime=CPU, seed=0, optimizer=OptimizerConfig(), config=wide
        )


@given(st.lists(st.lists(st.integers(1, 99), min_size=2, max_size=15), min_size=1, max_size=30))
def test_of_a_question_only_the_last_token_is_asked_for(documents):
    rows = pack(documents, 16, PAD, last_only=True)
    asked = rows.target_RT != IGNORED
    pairs = sorted(zip(rows.ids_RT[asked].tolist(), rows.target_RT[asked].tolist(), strict=True))
    assert pairs == sorted((d[-2], d[-1]) for d in documents)
    assert (rows.ids_RT == pack(documents, 16, PAD).ids_RT).all()


def test_text_and_answers_each_have_a_mean_of_their_own():
    model = scratch_model(SHAPE, 16, seed=0)
    text, asked = pack(cycles(2, 0), 16, PAD), pack(cycles(3, 1), 16, PAD, last_only=True)

    def mean(rows):
        logits_RTV = model(input_ids=torch.from_numpy(rows.ids_RT).long()).logits
        nats_RT = -torch.log_softmax(logits_RTV, -1)
        places = [(r, t) for r, t in np.argwhere(rows.target_RT != IGNORED)]
        return float(sum(nats_RT[r, t, rows.target_RT[r, t]] for r, t in places)) / len(places)

    ids_BT, target_BT = (
        torch.from_numpy(np.concatenate(parts)).long()
        for parts in ((text.ids_RT, asked.ids_RT), (text.target_RT, asked.target_RT))
    )
    with torch.no_grad():
        assert float(_mean_loss(model, ids_BT, target_BT, len(asked), 0.5)) == pytest.approx(
            mean(text) + 0.5 * mean(asked), abs=1e-5
        )
        assert float(_mean_loss(model, ids_BT[:2], target_BT[:2])) == pytest.approx(mean(text), abs=1e-5)


@pytest.mark.parametrize("questions", [None, pack(cycles(40, 3), 16, PAD, last_only=True)])
def test_stopped_and_gone_on_is_bit_for_bit_the_unbroken_run(tmp_path, questions):
    short = replace(CONFIG, tokens=4000, evaluations=3)

    def learned(name, stop_at=None):
        model, told = scratch_model(SHAPE, 16, seed=0), []

        def log(step, values):
            told.append((step, {key: value for key, value in values.items() if "per_second" not in key}))
            if step == stop_at:
                ask_to_stop("the lease could not be renewed")

        took = train_language_model(
            model,
            ROWS,
            {"cycle": pack(cycles(20, 1), 16, PAD)},
            questions,
            config=short,
            optimizer=OptimizerConfig(learning_rate=1e-2),
            runtime=replace(CPU, checkpoint_seconds=1e9),
            seed=0,
            checkpoint=tmp_path / name,
            log=log,
        )
        return model, took, sorted(told, key=lambda one: one[0])

    whole, took, told = learned("whole")
    try:
        with pytest.raises(Stopped, match="the lease could not be renewed"):
            learned("stopped", stop_at=20)
    finally:
        ask_to_stop(None)
    again, rest, told_again = learned("stopped")
    assert (took.resumed_at, rest.resumed_at) == (0, 20)
    assert (rest.steps, rest.tokens, rest.loss) == (took.steps, took.tokens, took.loss)
    assert told_again == told
    assert [row["step"] for row in rest.history] == [row["step"] for row in took.history]
    assert [row["tokens"] for row in rest.history] == [row["tokens"] for row in took.history]
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_measurement_is_cut_where_it_is_and_made_again_by_the_same_training(tmp_path, number, monkeypatch):
    """The steps before it are kept: what follows is the unbroken run."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    held_out, parts = {"cycle": pack(cycles(200, 1), 16, PAD)}, []
    logits = language._logits

    def learned(name, cut_at=None):
        told, model = [], scratch_model(SHAPE, 16, seed=0)

        def watched(model, ids_BT):
            if torch.is_inference_mode_enabled():
                parts.append(name)
                if cut_at == len(parts):
                    os.kill(os.getpid(), number)
            return logits(model, ids_BT)

        monkeypatch.setattr(language, "_logits", watched)
        took = train_language_model(
            model,
            ROWS,
            held_out,
            config=replace(CONFIG, tokens=4000, evaluations=3),
            optimizer=OptimizerConfig(learning_rate=1e-2),
            runtime=replace(CPU, checkpoint_seconds=1e9),
            seed=0,
            checkpoint=tmp_path / name,
            log=lambda step, values: told.append((step, {k: v for k, v in values.items() if "per_second" not in k})),
        )
        return model, took, sorted(told, key=lambda one: one[0])

    try:
        whole, took, told = learned("whole")
        each = -(-len(held_out["cycle"]) // language.EVALUATION_ROWS)
        assert len(parts) == 3 * each > 6, "two measurements, and the one at the end"
        parts.clear()
        with pytest.raises(KeyboardInterrupt):
            learned("cut", cut_at=each + 1)
        assert len(parts) <= each + 1, "the rest of the second measurement is not made"
        again, rest, told_again = learned("cut")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert 0 < rest.resumed_at < took.steps
    assert (rest.steps, rest.tokens, rest.loss) == (took.steps, took.tokens, took.loss)
    assert told_again == told
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True))
