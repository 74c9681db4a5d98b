"""Our losses beside those of TRL's GRPOTrainer, whose own code runs here on the same log-probabilities."""

import importlib.util
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rmlab.rl.config import KL, Algorithm, AlgorithmConfig, LossMean
from rmlab.rl.losses import loss_count, policy_loss

pytestmark = pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="trl is not installed (extra `dev`)")

SHAPE = (6, 9)


def tensors(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    own = torch.rand(SHAPE, generator=generator) < 0.7
    own[:, 0] = True
    old = -2 * torch.rand(SHAPE, generator=generator, dtype=torch.float64)
    return {
        "own": own,
        "old": old,
        "logprob": old + 0.4 * torch.randn(SHAPE, generator=generator, dtype=torch.float64),
        "reference": old + 0.3 * torch.randn(SHAPE, generator=generator, dtype=torch.float64),
        "advantage": torch.randn(SHAPE[0], generator=generator, dtype=torch.float64),
    }


def trl_loss(given: dict[str, torch.Tensor], logprob: torch.Tensor, **options: Any) -> torch.Tensor:
    """`GRPOTrainer._compute_loss` itself, with the forward pass replaced by the given log-probabilities."""
    from trl.trainer.grpo_trainer import GRPOTrainer

    class Given(GRPOTrainer):  # type: ignore[misc]
        def __init__(self) -> None:  # no model, no data
            self.model = SimpleNamespace(training=True)
            self.args = SimpleNamespace(delta=None, use_bias_correction_kl=False)
            self.aux_loss_enabled = self.use_vllm = self._entropy_bonus_enabled = False
            self.top_entropy_quantile, self.off_policy_mask_threshold = 1.0, None
            self.beta, self.loss_type, self.importance_sampling_level = (
                options["beta"],
                options["loss_type"],
                options["level"],
            )
            self.epsilon_low, self.epsilon_high = options["low"], options["high"]
            self.current_gradient_accumulation_steps = 1
            self._metrics = {"train": defaultdict(list)}
            self.accelerator = SimpleNamespace(gather=lambda x: x, reduce=lambda x, reduction: x, num_processes=1)

        def _get_per_token_logps_and_entropies(self, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor, None]:
            return logprob, torch.zeros_like(logprob), None

    mask = given["own"].long()
    loss: torch.Tensor = Given()._compute_loss(
        None,
        {
            "prompt_ids": mask[:, :1],
            "prompt_mask": mask[:, :1],
            "completion_ids": mask,
            "completion_mask": mask,
            "advantages": given["advantage"],
            "old_per_token_logps": given["old"],
            "ref_per_token_logps": given["reference"],
        },
    )
    return loss


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("beta", [0.0, 0.05])
@pytest.mark.parametrize(
    ("name", "mean", "level", "loss_type"),
    [
        (Algorithm.gspo, LossMean.sequence, "sequence", "grpo"),
        (Algorithm.grpo, LossMean.sequence, "token", "grpo"),
        (Algorithm.grpo, LossMean.token, "token", "bnpo"),
    ],
)
def test_loss_and_gradient_agree(
    name: Algorithm, mean: LossMean, level: str, loss_type: str, beta: float, seed: int
) -> None:
    given = tensors(seed)
    theirs, ours = (given["logprob"].clone().requires_grad_() for _ in range(2))
    config = AlgorithmConfig(
        name=name, mean=mean, clip_low=0.1, clip_high=0.15, kl=KL.k3, kl_weight=beta, ratio_guard=None
    )
    trl = trl_loss(given, theirs, beta=beta, loss_type=loss_type, level=level, low=0.1, high=0.15)
    own = policy_loss(
        ours,
        given["old"],
        given["own"],
        given["advantage"],
        config,
        loss_count(int(given["own"].sum()), SHAPE[0], config),
        given["reference"],
    )
    trl.backward()  # type: ignore[no-untyped-call]
    own.loss.backward()  # type: ignore[no-untyped-call]
    assert own.loss.item() == pytest.approx(trl.item(), abs=1e-6)
    assert own.sums["clipped"] > 0, "the clip must be reached for this to say anything"
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-6, rtol=0)
