"""Experts: the balance loss on numbers worked out by hand, and a collapsed layer that is seen."""

from dataclasses import replace

import pytest
import torch

from rmlab.errors import UsageError
from rmlab.models.config import ModelConfig
from rmlab.models.heads import last_hidden, last_logits, pad_right
from rmlab.models.load import load_model, scratch_model
from rmlab.models.moe import GROUPED, Routing, balance_loss, experts_of
from rmlab.training.config import MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.training.device import accelerator
from rmlab.training.supervised import Example, mean_gradient, train

SHAPE = ModelConfig(
    hidden_size=16,
    layers=2,
    heads=2,
    kv_heads=2,
    head_dim=8,
    intermediate_size=24,
    experts=4,
    experts_per_token=2,
    expert_size=16,
    max_positions=64,
)
QUIET = MicroBatchRuntimeConfig(progress=False)


def test_balance_loss_by_hand() -> None:
    # Two tokens, two experts, one a token. Probabilities of the first: 1/2 and 3/4; both tokens choose it (a tie goes to the first).
    logits_NE = torch.tensor([[0.0, 0.0], [torch.tensor(3.0).log(), 0.0]])
    loss, load_E, entropy = balance_loss(logits_NE, 1)
    assert load_E.tolist() == [1.0, 0.0]
    assert loss.item() == pytest.approx(2 * (1.0 * (0.5 + 0.75) / 2))
    half, quarters = 1.0, -(0.75 * torch.tensor(0.75).log2() + 0.25 * torch.tensor(0.25).log2()).item()
    assert entropy.item() == pytest.approx((half + quarters) / 2, abs=1e-6)
    assert balance_loss(torch.zeros(6, 3), 3)[0].item() == pytest.approx(1.0), "all even"


def test_the_logits_are_raw_and_softmaxed_once() -> None:
    model = scratch_model(SHAPE, 50, seed=0)
    ids_BT, length_B = pad_right([[1, 2, 3, 4], [5, 6]], 0)
    found = model.model(input_ids=ids_BT, output_router_logits=True).router_logits
    gate = model.model.layers[0].mlp.gate
    seen: list[torch.Tensor] = []
    handle = gate.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    routing = Routing(2, 1.0)
    last_hidden(model, ids_BT, length_B, routing)
    handle.remove()
    by_hand = torch.nn.functional.linear(seen[0], gate.weight)
    assert torch.allclose(found[0], by_hand, atol=1e-5), "no softmax before"
    real = torch.tensor([True] * 4 + [True, True, False, False])
    expected = torch.stack([balance_loss(layer[real], 2)[0] for layer in found]).mean()
    assert routing.take_loss().item() == pytest.approx(expected.item(), abs=1e-5)


def test_a_collapsed_layer_is_seen_beside_an_even_one() -> None:
    routing = Routing(1, 0.1)
    even = torch.eye(4).repeat(2, 1) * 9
    collapsed = torch.zeros(8, 4)
    collapsed[:, 2] = 9
    routing.add((even, collapsed), torch.tensor([4, 4]))
    weighted = routing.take_loss()
    assert weighted.item() == pytest.approx(0.1 * (1 + 4) / 2, rel=0.01)
    metrics = routing.take_metrics()
    assert metrics["train/layer_0_load_entropy"] == pytest.approx(1.0)
    assert metrics["train/layer_0_load_max"] == pytest.approx(1.0)
    assert metrics["train/layer_1_load_entropy"] == pytest.approx(0.0, abs=1e-6)
    assert (metrics["train/layer_1_load_max"], metrics["train/layer_1_load_min"]) == (4.0, 0.0)
    assert routing.take_metrics() == {}


def test_padding_routes_nothing_and_scores_do_not_see_it() -> None:
    model = scratch_model(SHAPE, 50, seed=0).eval()
    sequences = [[1, 2, 3, 4, 5, 6, 7], [8, 9]]
    ids_BT, length_B = pad_right(sequences, 0)
    with torch.inference_mode():
        together = last_logits(model, ids_BT, length_B)
        for row, sequence in enumerate(sequences):
            assert torch.allclose(together[row], model(input_ids=torch.tensor([sequence])).logits[0, -1], atol=1e-5)
    alone, padded = Routing(2, 1.0), Routing(2, 1.0)
    last_hidden(model, *pad_right([[8, 9]], 0), alone)
    last_hidden(model, ids_BT[1:], length_B[1:], padded)
    assert alone.take_loss().item() == pytest.approx(padded.take_loss().item(), abs=1e-5)


def test_active_and_total_parameters_of_the_shipped_shapes() -> None:
    from rmlab.configuration import compose
    from rmlab.verifiers.evaluation import model_parameters

    def sizes(name: str) -> dict[str, int]:
        config = compose("train_verifier", [f"model={name}"]).model
        shape = ModelConfig(**{k: v for k, v in config.items() if k != "tokenizer"})
        return model_parameters(scratch_model(shape, 2048, 0))

    dense, active, total = sizes("scratch"), sizes("moe_active"), sizes("moe_total")
    router = 2 * 8 * 128
    assert active["active_parameters"] == dense["model_parameters"] + router
    assert total["model_parameters"] == dense["model_parameters"] + router
    assert total["active_parameters"] < dense["active_parameters"] < active["model_parameters"]
    assert dense["active_parameters"] == dense["model_parameters"]
    large, sparse = sizes("dense_large"), sizes("moe_large")
    assert sparse["active_parameters"] == large["model_parameters"] + 4 * 8 * 160
    assert (large["hidden_size"], large["layers"]) == (160, 4)


def test_training_with_experts_learns_logs_its_routers_and_balances() -> None:
    examples = [Example([3 + i % 2] * (4 + i % 5), 1 + i % 2) for i in range(64)]
    training = TrainingConfig(epochs=4, batch_size=8, micro_batch_size=4)

    def routed(weight: float) -> tuple[list[tuple[int, dict[str, float]]], float]:
        model = scratch_model(replace(SHAPE, balance=weight), 20, seed=0)
        assert experts_of(model) == 4
        watched: list[tuple[int, dict[str, float]]] = []
        took = train(
            model,
            examples,
            0,
            accelerator(training, QUIET),
            optimizer=OptimizerConfig(learning_rate=1e-2),
            training=training,
            runtime=QUIET,
            seed=0,
            watch=lambda step, values: watched.append((step, values)),
        )
        return watched, took.history[-1][1]

    watched, last_loss = routed(1.0)
    assert [step for step, _ in watched] == list(range(1, 33))
    assert set(watched[0][1]) == {
        f"train/layer_{i}_{n}" for i in (0, 1) for n in ("load_max", "load_min", "load_entropy", "router_entropy")
    }
    assert last_loss < 0.2
    free, _ = routed(0.0)

    def entropy(rows: list[tuple[int, dict[str, float]]]) -> float:
        return sum(row["train/layer_0_load_entropy"] + row["train/layer_1_load_entropy"] for _, row in rows[-8:]) / 16

    assert entropy(watched) > entropy(free)


def test_the_balance_loss_adds_to_the_gradient_and_not_to_the_loss() -> None:
    batch = [Example([3, 4, 5], 1), Example([6, 7], 2)]
    gradients, losses = [], []
    for routing in (None, Routing(2, 1.0)):
        model = scratch_model(SHAPE, 20, seed=0)
        losses.append(float(mean_gradient(model, [batch], 0, accelerator(TrainingConfig(), QUIET), routing=routing)))
        gradients.append(model.model.layers[0].mlp.gate.weight.grad.clone())
    assert losses[0] == pytest.approx(losses[1])
    assert not torch.allclose(*gradients)


def test_experts_are_computed_in_autocasts_arithmetic_and_give_their_weights_a_gradient() -> None:
    model = scratch_model(SHAPE, 50, seed=0)
    experts = model.model.layers[0].mlp.experts
    seen: list[torch.dtype] = []
    gate = experts._apply_gate

    def watched(gate_up: torch.Tensor) -> torch.Tensor:
        seen.append(gate_up.dtype)
        return gate(gate_up)  # type: ignore[no-any-return]

    experts._apply_gate = watched
    ids = pad_right([[1, 2, 3, 4], [5, 6]], 0)
    exact = last_logits(model, *ids)
    with torch.autocast("cpu", torch.bfloat16):
        half = last_logits(model, *ids)
    assert seen == [torch.float32, torch.bfloat16]
    assert 0 < (half - exact).abs().max() < 0.1
    half.sum().backward()
    assert experts.gate_up_proj.grad.dtype is torch.float32
    assert experts.down_proj.grad.abs().max() > 0


def test_in_float32_experts_are_transformers_own_to_the_last_digit(tmp_path) -> None:
    model = scratch_model(SHAPE, 50, seed=0)
    ids = pad_right([[1, 2, 3, 4], [5, 6]], 0)
    ours = last_logits(model, *ids)
    model.set_experts_implementation("grouped_mm")
    assert torch.equal(last_logits(model, *ids), ours)
    model.save_pretrained(str(tmp_path))
    loaded = load_model(tmp_path)
    assert loaded.config._experts_implementation == GROUPED
    assert torch.equal(last_logits(loaded, *ids), ours)


def test_impossible_experts() -> None:
    with pytest.raises(UsageError, match=r"experts_per_token=5 must be 1 to model\.experts=4"):
        scratch_model(replace(SHAPE, experts_per_token=5), 20, 0)


def test_gone_on_with_the_series_of_the_routers_is_whole(tmp_path) -> None:
    examples = [Example([3 + i % 2] * (4 + i % 5), 1 + i % 2) for i in range(32)]
    training = TrainingConfig(epochs=2, batch_size=8, micro_batch_size=8)
    often = MicroBatchRuntimeConfig(progress=False, checkpoint_seconds=0.0)

    def run() -> tuple[list[tuple[int, dict[str, float]]], int, int]:
        watched: list[tuple[int, dict[str, float]]] = []
        took = train(
            scratch_model(SHAPE, 20, seed=0),
            examples,
            0,
            accelerator(training, often),
            optimizer=OptimizerConfig(),
            training=training,
            runtime=often,
            seed=0,
            checkpoint=tmp_path / "checkpoint.safetensors",
            watch=lambda step, values: watched.append((step, values)),
        )
        return watched, took.resumed_at, took.tokens_here

    whole, resumed = run(), run()
    assert (whole[1], resumed[1]) == (0, 8)
    assert resumed[0] == whole[0]
    assert (resumed[2], whole[2]) == (0, 2 * sum(len(e.ids) for e in examples)), "tokens of this process alone"
