"""A verifier that is trained from a pretrained model by adapters: what moves, what is saved, what goes on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rmlab.models.config import LoraConfig, ModelConfig
from rmlab.models.heads import ScalarModel, language_model
from rmlab.models.load import load_model, scratch_model
from rmlab.models.lora import load_adapters, with_adapters
from rmlab.models.tokenizer import load_tokenizer
from rmlab.stopping import Stopped, ask_to_stop
from rmlab.training.config import Dtype, MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.training.device import accelerator, checkpointed_layers
from rmlab.training.pretrained import count_weights, warn_of_rate
from rmlab.training.supervised import Example, mean_gradient, train
from rmlab.verifiers.answer import AnswerTokens
from rmlab.verifiers.config import PromptConfig
from rmlab.verifiers.verifier import Verifier, finished_verifier, load_verifier, save_verifier
from tests.verifiers.examples import episodes

QUIET = MicroBatchRuntimeConfig(progress=False)
LORA = LoraConfig(rank=4, alpha=8.0)
QWEN3 = ModelConfig(hidden_size=32, layers=3, heads=2, kv_heads=1, head_dim=16, intermediate_size=48)


def examples(n: int = 24) -> list[Example]:
    rng = np.random.default_rng(0)
    return [Example(rng.integers(0, 200, size=int(rng.integers(4, 20))).astype(np.int32), 1 + i % 2) for i in range(n)]


def taught(folder: Path, *, rate: float = 1e-2, lora: LoraConfig = LORA, **more: Any) -> Any:
    """A model with adapters (or all its weights) trained for a few steps."""
    training = TrainingConfig(epochs=2, batch_size=8, micro_batch_size=4)
    model = with_adapters(load_model(folder), lora, 0)
    train(
        model, examples(), 0, accelerator(training, QUIET), optimizer=OptimizerConfig(learning_rate=rate),
        training=training, runtime=QUIET, seed=0, **more,
    )  # fmt: skip
    return model


def test_only_the_adapters_move(pretrained_folders: dict[str, Path]) -> None:
    before = load_model(pretrained_folders["llama"]).state_dict()
    model = taught(pretrained_folders["llama"])
    moved = 0
    for name, parameter in model.named_parameters():
        plain = name.removeprefix("base_model.model.").replace(".base_layer.", ".")
        if "lora_B" in name:
            moved += int(parameter.abs().max() > 0)
        elif "lora_A" not in name:
            assert torch.equal(parameter, before[plain]), name
    assert moved == 2 * 7, "both of every projection in both layers"


@pytest.mark.parametrize("scalar", [False, True])
def test_scores_are_the_same_merged_saved_and_read_again(
    pretrained_folders: dict[str, Path], tmp_path: Path, scalar: bool
) -> None:
    folder = pretrained_folders["qwen2"]
    model: Any = taught(folder, rate=3e-2)
    if scalar:
        model = ScalarModel(model, 1)
    model.eval()
    tokens = load_tokenizer(folder)
    answer = AnswerTokens(*(ids[0] for ids in tokens.encode(["YES", "NO"])))
    own = Verifier(model, tokens, PromptConfig(max_tokens=4096), answer)
    encoded = own.encode(episodes(6, "evaluation"))
    before = own.score(encoded).score
    plain = load_model(folder).eval()
    untrained = Verifier(ScalarModel(plain, 1) if scalar else plain, tokens, own.prompt, answer).score(encoded).score
    assert np.abs(before - untrained).max() > 1e-3, "training changed what it says"
    whole = finished_verifier(model, tokens, own.prompt, answer, Dtype.float32, tmp_path / "adapters")
    np.testing.assert_allclose(whole.score(encoded).score, before, atol=1e-5)
    save_verifier(tmp_path / "saved", whole)
    again = load_verifier(tmp_path / "saved")
    assert not any("lora" in name for name, _ in again.model.named_parameters())
    np.testing.assert_allclose(again.score(encoded).score, before, atol=1e-5)
    assert again.adapters == tmp_path / "saved" / "adapters"
    save_verifier(tmp_path / "copy", again)
    put_on = load_adapters(load_model(folder), tmp_path / "copy" / "adapters").merge_and_unload()
    for (name, one), (_, other) in zip(
        put_on.named_parameters(), language_model(again.model).named_parameters(), strict=True
    ):
        torch.testing.assert_close(one, other, atol=2e-2, rtol=2e-2, msg=name)  # adapters are kept in bfloat16


def test_it_goes_on_exactly_from_a_checkpoint_that_holds_adapters_alone(
    pretrained_folders: dict[str, Path], tmp_path: Path
) -> None:
    lora = LoraConfig(rank=4, dropout=0.2)
    straight = taught(pretrained_folders["llama"], lora=lora)
    path = tmp_path / "checkpoint.safetensors"

    def stop(step: int, *_: float) -> None:
        if step == 3:
            ask_to_stop("enough")

    try:
        with pytest.raises(Stopped, match="enough"):
            taught(pretrained_folders["llama"], lora=lora, checkpoint=path, log=stop)
    finally:
        ask_to_stop(None)
    assert all("lora_" in name for name in load_file(path) if name.startswith("weight/"))
    resumed = taught(pretrained_folders["llama"], lora=lora, checkpoint=path)
    for (name, one), (_, other) in zip(straight.named_parameters(), resumed.named_parameters(), strict=True):
        assert torch.equal(one, other), name


@pytest.mark.parametrize("family", ["qwen2", "llama", "qwen3"])
@pytest.mark.parametrize("rank", [0, 4])
def test_checkpointing_gives_the_same_gradient(pretrained_folders: dict[str, Path], family: str, rank: int) -> None:
    gradients, kept = [], []
    for wanted in (False, True):
        model = scratch_model(QWEN3, 260, 0) if family == "qwen3" else load_model(pretrained_folders[family])
        model = with_adapters(model, LoraConfig(rank=rank, dropout=0.1 if rank else 0.0), 0).train()
        saved: list[int] = []
        with (
            checkpointed_layers(model, wanted),
            torch.autograd.graph.saved_tensors_hooks(lambda t, saved=saved: saved.append(t.numel()) or t, lambda t: t),
        ):
            torch.manual_seed(3)
            loss = mean_gradient(model, [examples(4)], 0, accelerator(TrainingConfig(), QUIET))
        kept.append(sum(saved))
        gradients.append((float(loss), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}))
    (loss, plain), (again, checkpointed) = gradients
    assert loss == again
    assert plain.keys() == checkpointed.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(checkpointed[name], gradient, atol=1e-6, rtol=1e-5, msg=name)
    assert kept[1] < kept[0] / 2, "within a layer nothing is kept"


def test_a_rate_that_is_far_too_high_for_so_many_weights_is_said(
    pretrained_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pretrained_folders["llama"]
    assert count_weights(folder) == sum(p.numel() for p in load_model(folder).parameters())
    assert warn_of_rate(folder, 1e-3, 0) is None
    monkeypatch.setattr("rmlab.training.pretrained.LARGE", 1000)
    said = warn_of_rate(folder, 1e-3, 0)
    assert said is not None
    assert said.startswith("optimizer.learning_rate=0.001 is far too high for training all weights")
    assert "\n" not in said
    assert "About 1e-05 is suitable" in said
    assert warn_of_rate(folder, 1e-4, 0) is None
    assert warn_of_rate(folder, 1e-3, 16) is None
    assert "training adapters" in (warn_of_rate(folder, 1e-2, 16) or "")
