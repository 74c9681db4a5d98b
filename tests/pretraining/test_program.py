"""A base from a corpus of a few hundred documents, start to end, with MLflow and without."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from rmlab.configuration import compose, load_program
from rmlab.errors import UsageError
from rmlab.models.load import load_model
from rmlab.models.tokenizer import load_tokenizer
from rmlab.pretraining.corpus import Corpus, Document, Kind, write_corpus
from rmlab.pretraining.rows import base_tokenizer, packed
from rmlab.tracking.store import Store
from rmlab.verifiers.prompt import OPEN_ANSWER

FEW = [
    "model=tiny",
    "training.tokens=12000",
    "training.context=64",
    "training.batch_tokens=512",
    "training.held_out=0.05",
    "training.dtype=float32",
    "training.evaluations=2",
    "training.comparisons=0",
    "runtime=cpu",
    "runtime.progress=false",
]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    documents = [Document(Kind.code, f"def f{i}(x):\n    return x + {i}") for i in range(150)]
    documents += [
        Document(Kind.episode, f"<|im_start|>user\nf({i}) should return {i}<|im_end|>\n{OPEN_ANSWER}")
        for i in range(150)
    ]
    metadata = {"versions": "{}", "tasks_fingerprint": "0", "episodes": "[]", "counts": "{}", "left_out": "{}"}
    made = Corpus(tuple(documents), metadata)
    write_corpus(tmp_path / "pretraining" / "corpus.parquet", made)
    return made


@pytest.mark.slow
def test_a_folder_with_weights_tokenizer_and_record_and_a_run_that_holds_it(corpus, tmp_path, capsys):
    folder = load_program("pretrain").main(FEW)
    assert folder == tmp_path / "pretraining" / "tiny"
    record, log = (json.loads((folder / f"{name}.json").read_text()) for name in ("base", "log"))
    assert record["corpus_fingerprint"] == corpus.fingerprint
    assert record["command"].startswith("rmlab pretrain model=tiny")
    assert 12_000 <= record["tokens"] <= 12_512
    assert set(record["held_out_loss"]) == {"code", "episode"}
    first, last = (next(row["train/loss"] for row in order if "train/loss" in row) for order in (log, log[::-1]))
    assert last < first
    assert {tensor.dtype for tensor in load_file(folder / "model.safetensors").values()} == {torch.bfloat16}
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    assert model.get_input_embeddings().weight.shape[0] == tokenizer.size == record["vocabulary"]
    assert tokenizer.fingerprint == record["tokenizer_fingerprint"]
    (run,) = Store.open(None).client.search_runs([Store.open(None).experiment("pretraining")])
    assert run.data.tags["status"] == "finished"
    assert run.data.tags["dataset"] == corpus.fingerprint
    assert (len(run.data.tags["config_hash"]), run.data.tags["device"]) == (16, "cpu")
    assert {"train/loss", "train/tokens_per_second", "held_out/loss_code"} <= set(run.data.metrics)
    assert "tiny" in {a.path for a in Store.open(None).client.list_artifacts(run.info.run_id)}
    capsys.readouterr()
    assert load_program("pretrain").main(FEW) == folder
    assert f"finished already: {folder} (--force trains it again)" in capsys.readouterr().out
    assert json.loads((folder / "base.json").read_text()) == record


def test_episodes_do_not_ask_what_follows_them(corpus):
    program = load_program("pretrain")
    config = replace(program.LanguageConfig(), context=64, held_out=0.0)
    tokenizer = base_tokenizer(corpus, program.ModelConfig())
    rows, _ = packed(corpus, tokenizer, config)
    behind = tokenizer.encode([OPEN_ANSWER])[0]
    for ids, target in zip(rows.ids_RT, rows.target_RT, strict=True):
        for at in range(len(behind) - 1, len(ids)):
            if ids[at - len(behind) + 1 : at + 1].tolist() == behind:
                assert target[at] < 0


@pytest.mark.slow
def test_comparisons_are_read_beside_the_text_and_held_out_apart(corpus, tmp_path):
    def episode(i):
        first = f"f({i}) should return {i} but got {i + 1}"
        turns = f"<|im_start|>user\n{first}<|im_end|>\n<|im_start|>user\nfinal got {i}<|im_end|>\n"
        asked = f"Asked: {first}\nLast: final got {i}\nPatch:\nnone\nIs the issue solved? Answer YES or NO."
        return Document(Kind.episode, f"{turns}<|im_start|>user\n{asked}<|im_end|>\n{OPEN_ANSWER}")

    texts = [d for d in corpus.documents if d.kind is Kind.code] + [episode(i) for i in range(150)]
    write_corpus(tmp_path / "pretraining" / "corpus.parquet", Corpus(tuple(texts), corpus.metadata))
    wide = ["training.context=512", "training.batch_tokens=2048", "model.max_positions=512", "training.tokens=4000"]
    folder = load_program("pretrain").main([*FEW, *wide, "training.comparisons=60", "tracked=false"])
    record = json.loads((folder / "base.json").read_text())
    assert set(record["held_out_right"]) == {"code", "episode", "comparison"}
    assert 0 <= record["held_out_right"]["comparison"] <= 1


def test_too_few_episodes_for_comparisons_are_said(corpus):
    with pytest.raises(UsageError, match=r"training\.comparisons=200"):
        load_program("pretrain").main([*FEW, "training.comparisons=200", "tracked=false"])


def test_a_pretrained_model_is_no_start(corpus):
    with pytest.raises(UsageError, match="model=starter is a pretrained model"):
        load_program("pretrain").main(["model=starter"])


def test_keys_of_before_name_those_of_now():
    for program, key, now in (
        ("pretrain", "training.compile", "runtime.compiled"),
        ("train_policy", "compiled", "runtime.compiled"),
        ("rl", "rl.checkpoint_seconds", "runtime.checkpoint_seconds"),
        ("rl", "runtime.micro_batch_tokens", "rl.batch_tokens"),
    ):
        with pytest.raises(UsageError, match=rf"^{program} no longer has a key '{key}': use {now} instead\.$"):
            compose(program, [f"{key}=1"])


@pytest.mark.parametrize(
    ("program", "key", "now"),
    [
        ("rl", "limits.call_seconds", "limits.batch_seconds"),
        ("rl", "limits.program_seconds", "limits.batch_seconds"),
        ("pretrain", "runtime.micro_batch_tokens", "training.batch_tokens"),
    ],
)
def test_a_key_that_no_other_replaces_names_the_one_that_is_nearest(program, key, now):
    with pytest.raises(UsageError) as error:
        compose(program, [f"{key}=1"])
    assert str(error.value).startswith(f"{program} no longer has a key {key!r}: ")
    assert now in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on_and_the_same_command_ends_with_the_same_base(corpus, tmp_path, monkeypatch, capsys):
    program = load_program("pretrain")
    few = [*FEW, "training.tokens=3000"]
    whole = load_file_of(program.main([*few, "tracked=false"]))
    assert not (tmp_path / "mlflow.db").exists(), "untracked"
    again = [*few, f"output={tmp_path / 'again'}"]
    with monkeypatch.context() as pressed:
        pressed.setattr("rmlab.training.loop.stop_asked", lambda: KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            program.main(again)
    assert "Stopped. Continue from the last checkpoint with: rmlab pretrain model=tiny" in capsys.readouterr().err
    resumed = load_file_of(program.main(again))
    assert "resumed at step 1 of " in capsys.readouterr().out
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert not list((tmp_path / "cells").iterdir())
    runs = Store.open(None).client.search_runs([Store.open(None).experiment("pretraining")])
    assert sorted(run.data.tags["status"] for run in runs) == ["finished", "stopped"]


def load_file_of(folder):
    return load_file(folder / "model.safetensors")
