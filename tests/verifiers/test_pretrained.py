"""The program that trains a verifier from a pretrained model: which model it is, what is hashed, who reads it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rmlab.commands.score import score
from rmlab.configuration import compose, load_program
from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import Identity, hashed_values
from rmlab.models.config import ModelConfig, TokenizerConfig
from rmlab.models.heads import ScalarModel
from rmlab.models.load import load_model
from rmlab.models.tokenizer import load_tokenizer
from rmlab.rl.config import RewardConfig
from rmlab.rl.reward_model import load_reward_model
from rmlab.scores.table import read_score_table
from rmlab.tracking.query import TrackedRun, get_run
from rmlab.tracking.references import find_model
from rmlab.tracking.store import Store
from rmlab.training.config import Dtype
from rmlab.training.pretrained import find_pretrained, pretrained_folder
from rmlab.trajectories.store import read_trajectories, write_trajectories
from rmlab.verifiers.verifier import load_verifier
from tests.verifiers.examples import episodes
from tests.verifiers.tiny_models import LLAMA, write_model


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pool") / "hand.parquet"
    parts = [*episodes(20, "verifier", 1000), *episodes(4, "validation", 2000, 4), *episodes(4, "evaluation", 3000, 4)]
    write_trajectories(path, parts, {"command": "by hand"})
    return path


def overrides(pool: Path, folder: Path | str, *more: str) -> list[str]:
    small = ["data.scale=32", "evaluation.replicates=20", "training.epochs=1", "training.batch_size=8"]
    return ["model=hf", f"model.pretrained={folder}", f"data.path={pool}", "prompt.max_tokens=4096",
            *small, "runtime.progress=false", *more]  # fmt: skip


def trained(*given: str) -> TrackedRun:
    return get_run(Store.open(), load_program("train_verifier").main(list(given)))


def identity(*given: str) -> Identity:
    found = load_program("train_verifier").identity(compose("train_verifier", list(given)))
    assert isinstance(found, Identity)
    return found


def test_settings_fit_a_pretrained_model_and_follow_the_adapters() -> None:
    for rank, rate in ((0, 1e-5), (16, 1e-4)):
        config = compose("train_verifier", ["model=hf", "model.pretrained=x", f"lora.rank={rank}"])
        assert (config.optimizer.learning_rate, config.training.dtype) == (rate, Dtype.bfloat16)
    assert compose("train_verifier", ["model=hf", "optimizer.learning_rate=3e-5"]).optimizer.learning_rate == 3e-5
    assert compose("train_policy", ["model=hf", "lora.rank=8"]).optimizer.learning_rate == 1e-4


@pytest.mark.parametrize("model", ["hf", "path"])
def test_a_pretrained_model_that_is_not_named_is_no_random_one(runs_folder: Path, pool: Path, model: str) -> None:
    with pytest.raises(DataError, match=r"model\.pretrained=FOLDER: there is no such folder"):
        identity(f"model={model}", f"data.path={pool}")


def test_another_model_is_not_taken_for_the_one_that_is_named(pretrained_folders: dict[str, Path]) -> None:
    folder = pretrained_folders["llama"]
    has = json.loads((folder / "config.json").read_text())
    own = ModelConfig(
        name="mine",
        hidden_size=has["hidden_size"],
        layers=has["num_hidden_layers"],
        heads=has["num_attention_heads"],
        kv_heads=has["num_key_value_heads"],
        tokenizer=TokenizerConfig(has["vocab_size"]),
        pretrained=str(folder),
    )
    for model in (own, ModelConfig(name="path", pretrained=str(folder))):
        settings = load_program("train_verifier").VerifierRun(model=model)
        find_pretrained(settings, warn=False)
    for model, key in (
        (replace(own, layers=own.layers + 1), "model.layers"),
        (replace(own, tokenizer=TokenizerConfig(has["vocab_size"] + 1000)), "model.tokenizer.vocab_size"),
    ):
        settings = load_program("train_verifier").VerifierRun(model=model)
        with pytest.raises(DataError, match=f"is not the model that model=mine describes: {key}"):
            find_pretrained(settings, warn=False)


def test_of_several_ranks_one_says_that_a_rate_is_too_high(
    pretrained_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rmlab.training.pretrained.LARGE", 1000)
    said = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        settings = load_program("train_verifier").VerifierRun(
            model=ModelConfig(name="path", pretrained=str(pretrained_folders["llama"]))
        )
        settings.optimizer.learning_rate = 1e-2
        find_pretrained(settings)
        said.append(capsys.readouterr().err.count("is far too high for training all weights"))
    assert said == [1, 0]


def test_without_a_rank_no_hash_has_adapters_and_the_factor_owns_them(
    pretrained_folders: dict[str, Path], pool: Path
) -> None:
    given = overrides(pool, pretrained_folders["llama"])
    plain = identity(*given)
    assert identity(*given, "training.checkpointing=true") == plain
    with_rank = identity(*given, "lora.rank=8")
    assert with_rank.config_hash != plain.config_hash
    assert with_rank.control_hash != plain.control_hash
    factor = "tracking.factors=[lora]"
    assert identity(*given, factor).control_hash == identity(*given, factor, "lora.rank=8").control_hash
    scratch = compose("train_verifier", [f"data.path={pool}"])
    assert "lora" not in hashed_values(scratch)
    assert "checkpointing" not in hashed_values(scratch)["training"]


@pytest.mark.slow
def test_train_by_adapters_then_score_and_train_on_from_the_run(
    pretrained_folders: dict[str, Path],
    pool: Path,
    runs_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = overrides(
        pool, pretrained_folders["llama"], "lora.rank=4", "training.dtype=float32", "training.checkpointing=true"
    )
    run = trained(*given, "optimizer.learning_rate=1e-2")
    assert run.params["rank"] == "4"
    assert int(run.params["trained_parameters"]) < int(run.params["model_parameters"]) / 2
    reference = find_model(run.run_id, "verifier.json")
    assert json.loads((reference.folder / "adapters" / "adapter_config.json").read_text())["r"] == 4
    score(pool, run.run_id, tmp_path / "again.csv")
    tracked, again = read_score_table(run.artifact("scores.parquet")), read_score_table(tmp_path / "again.csv")
    assert np.abs(tracked.score - again.score).max() < 1e-5
    judged = {e.trajectory_id: e for e in read_trajectories(pool).trajectories}
    paid = load_reward_model([reference], RewardConfig(), "cpu", 4096).score([judged[i] for i in tracked.trajectory_id])
    assert np.abs(paid.score_N - tracked.score).max() < 1e-5, "a policy is paid by the same verifier"
    before, after = load_model(pretrained_folders["llama"]), load_model(reference.folder)
    moved = [n for n, p in after.named_parameters() if not torch.equal(p, before.get_parameter(n))]
    assert moved
    assert all("_proj" in name for name in moved), "embeddings and norms are the base's"
    assert "far too high" not in capsys.readouterr().err, "a small model takes it"

    on = trained(*overrides(pool, run.run_id, "training.epochs=2"))
    assert on.params["hidden_size"] == "32"
    assert on.run_id != run.run_id
    with pytest.raises(UsageError, match=r"lora\.rank=4: adapters do not change the weights, and those of model=tiny"):
        load_program("train_verifier").main([f"data.path={pool}", "preset=smoke", "data.scale=32", "lora.rank=4"])


def test_bfloat16_leaves_frozen_weights_in_it_and_a_scalar_head_learns(
    pretrained_folders: dict[str, Path], pool: Path, runs_folder: Path, tmp_path: Path
) -> None:
    run = trained(*overrides(pool, pretrained_folders["qwen2"], "lora.rank=4", "objective=scalar"))
    verifier = load_verifier(run.artifact("model"))
    assert isinstance(verifier.model, ScalarModel)
    assert verifier.dtype is Dtype.bfloat16
    first = ScalarModel(load_model(pretrained_folders["qwen2"]), 0)
    assert not torch.equal(verifier.model.head.weight, first.head.weight)
    rounded = load_model(pretrained_folders["qwen2"], dtype="bfloat16").float()
    embedded = verifier.model.get_input_embeddings().weight
    assert torch.equal(embedded, rounded.get_input_embeddings().weight)
    score(pool, run.run_id, tmp_path / "again.csv")
    tracked, again = read_score_table(run.artifact("scores.parquet")), read_score_table(tmp_path / "again.csv")
    assert np.abs(tracked.score - again.score).max() < 1e-5


def test_a_tokenizer_without_markers_is_given_them_and_its_model_rows(
    pool: Path, runs_folder: Path, tmp_path: Path
) -> None:
    folder = write_model(tmp_path / "llama3", "llama", chat=LLAMA, bos=True, positions=4096)
    before, tokens = load_model(folder), load_tokenizer(folder, chatml=False)
    run = trained(*overrides(pool, folder, "lora.rank=4", "training.dtype=float32"))
    verifier = load_verifier(run.artifact("model"))
    assert verifier.tokenizer.size == tokens.size + 2
    (first,) = verifier.encode(episodes(1, "evaluation")[:1])
    assert first.ids is not None
    assert first.ids[:2].tolist() == [tokens.hf.bos_token_id, verifier.tokenizer.start_id]
    old, new = (m.get_input_embeddings().weight for m in (before, verifier.model))
    assert torch.equal(new[: tokens.size], old)
    assert torch.equal(new[verifier.tokenizer.start_id], old[tokens.hf.bos_token_id])
    score(pool, run.run_id, tmp_path / "again.csv")
    tracked, again = read_score_table(run.artifact("scores.parquet")), read_score_table(tmp_path / "again.csv")
    assert np.abs(tracked.score - again.score).max() < 1e-5


def test_a_bos_that_opens_each_turn_is_not_put_in_front_twice(pool: Path, runs_folder: Path, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "smol", "llama", positions=4096)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"bos_token": "<|im_start|>"}))
    tokenizer = load_tokenizer(folder)
    assert tokenizer.hf.bos_token_id == tokenizer.start_id
    assert tokenizer.encode(["<|im_start|>user\n"])[0].count(tokenizer.start_id) == 1
    assert trained(*overrides(pool, folder, "lora.rank=2")).status == "finished"


def test_words_that_are_no_single_tokens_are_refused_before_anything_is_trained(
    pool: Path, runs_folder: Path, tmp_path: Path
) -> None:
    folder = write_model(tmp_path / "letters", "llama", positions=4096)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["merges"] = []
    path.write_text(json.dumps(content))
    with pytest.raises(
        DataError, match=r"YES is not a single token .*; use a model other than model\.pretrained=.*letters, or"
    ):
        load_program("train_verifier").main(overrides(pool, folder))


def test_the_missing_folder_of_a_shipped_model_names_the_command_that_fetches_it_once(runs_folder: Path) -> None:
    fetch = r"rmlab models fetch smollm2 --vocabulary 8000 --corpus rmlab/starter/language_attempts\.parquet -o runs/models/smollm2_8000"
    with pytest.raises(DataError, match=rf"smollm2_8000: there is no such folder\. Make it once: {fetch}$"):
        pretrained_folder("runs/no_models/smollm2_8000")
    with pytest.raises(DataError, match=r"Make it once: rmlab models fetch smollm2$"):
        pretrained_folder("runs/no_models/smollm2_135m")
