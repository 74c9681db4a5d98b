"""What a training leaves on disk: its state goes on in no other run, and the best look's weights come back as they were."""

from pathlib import Path

import pytest
import torch

from rmlab.errors import DataError
from rmlab.rl.learner import BestWeights, RLState, load_state, save_state
from rmlab.training.config import OptimizerConfig
from rmlab.training.optimizer import adamw


def model(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    made = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
    made[0].requires_grad_(False)  # as what lies under adapters
    return made


def test_weights_moments_and_state_come_back_and_frozen_weights_stay_out(tmp_path: Path) -> None:
    own = model(0)
    adam = adamw(own, OptimizerConfig())
    own(torch.ones(1, 3)).sum().backward()
    adam.step()
    state = RLState(
        step=3, drawn=12, best_step=2, best=0.25, curve=[{"step": 0.0, "pass_at_1": 0.2}], history=[["rl/x", 1.0, 1, 5]]
    )
    save_state(tmp_path / "state.safetensors", own, adam, state, "run")
    other = model(1)
    frozen = other[0].weight.clone()
    again = adamw(other, OptimizerConfig())
    assert load_state(tmp_path / "state.safetensors", other, again, "run") == state
    assert torch.equal(other[2].weight, own[2].weight)
    assert torch.equal(other[0].weight, frozen)
    assert torch.equal(again.state[other[2].weight]["exp_avg"], adam.state[own[2].weight]["exp_avg"])
    with pytest.raises(DataError, match="checkpoint of another run"):
        load_state(tmp_path / "state.safetensors", other, again, "another")
    assert load_state(tmp_path / "nothing", other, again, "run") == RLState()


def test_the_best_looks_weights_come_back_and_others_are_forgotten(tmp_path: Path) -> None:
    own = model(0)
    kept, best = BestWeights(tmp_path, own), own[2].weight.detach().clone()
    kept.keep(10)
    with torch.no_grad():
        own[2].weight.add_(1)
    kept.keep(20)
    kept.put_back(10)
    assert torch.equal(own[2].weight, best)
    kept.forget_all_but(20)
    assert [path.name for path in tmp_path.iterdir()] == ["best_000020.safetensors"]
    with pytest.raises(DataError, match=r"best_000010\.safetensors is missing"):
        kept.put_back(10)
    whole = kept.path(20).read_bytes()
    kept.path(20).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"best_000020\.safetensors is not a readable file of weights"):
        kept.put_back(20)
