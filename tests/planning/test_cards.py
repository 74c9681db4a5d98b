"""Cards by the names that a driver gives them; benchmarks that take cards and shapes from the library."""

import pytest

from rmlab.benchmark import random_model
from rmlab.configuration import load_file
from rmlab.models.cost import KNOWN, ModelShape
from rmlab.paths import BENCHMARKS
from rmlab.planning.cards import CARDS, card_called


@pytest.mark.parametrize(
    ("device", "key"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A100-SXM4-40GB", "a100-40"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
    ],
)
def test_the_card_that_a_driver_names(device: str, key: str) -> None:
    assert card_called(device) is CARDS[key]


@pytest.mark.parametrize("device", ["NVIDIA L40", "NVIDIA GH200 480GB", "Tesla T4", ""])
def test_another_card_is_none_of_the_table(device: str) -> None:
    assert card_called(device) is None


def test_benchmarks_take_cards_and_shapes_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    training, several = (load_file(BENCHMARKS / f"{name}.py") for name in ("training", "multi_gpu"))
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "NVIDIA B200")
    assert training.peak("cuda") == CARDS["b200"].flops
    assert training.SHAPES["smollm2"].model_shape is KNOWN["SmolLM2-135M"]
    assert training.SHAPES["qwen3_0.6b"].model_shape is KNOWN["Qwen3-0.6B"]
    assert several.SHAPES["30b-a3b"] is KNOWN["Qwen3-30B-A3B"]


@pytest.mark.parametrize(
    "shape",
    [
        ModelShape(32, 2, 2, 1, 16, 48, 64),
        ModelShape(32, 2, 2, 1, 16, 48, 64, tied=False, head_norms=False),
        ModelShape(32, 2, 2, 1, 16, 0, 64, experts=4, experts_per_token=2, expert_size=24, tied=False),
    ],
    ids=["qwen3", "llama", "experts"],
)
def test_a_random_model_has_the_weights_of_its_shape(shape: ModelShape) -> None:
    assert sum(p.numel() for p in random_model(shape, "cpu").parameters()) == shape.weights
