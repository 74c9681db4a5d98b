import math
from dataclasses import replace

import pytest
import torch

from rmlab.errors import UsageError
from rmlab.rl.config import KL, Algorithm, AlgorithmConfig, Clipping, LossMean
from rmlab.rl.losses import kl_estimate, loss_count, policy_loss

GSPO = AlgorithmConfig(clip_low=0.1, clip_high=0.2, ratio_guard=None)
GRPO = replace(GSPO, name=Algorithm.grpo)
LOG2 = math.log(2)


def loss_and_gradient(
    logprob: list[list[float]],
    old: list[list[float]],
    own: list[list[bool]],
    advantage: list[float],
    config: AlgorithmConfig,
) -> tuple[float, torch.Tensor]:
    logprobs = torch.tensor(logprob, dtype=torch.float64, requires_grad=True)
    owned = torch.tensor(own)
    found = policy_loss(
        logprobs,
        torch.tensor(old, dtype=torch.float64),
        owned,
        torch.tensor(advantage, dtype=torch.float64),
        config,
        loss_count(int(owned.sum()), len(own), config),
    )
    found.loss.backward()  # type: ignore[no-untyped-call]
    assert logprobs.grad is not None
    return found.loss.item(), logprobs.grad


def test_gspo_by_hand() -> None:
    """Sequence 0: mean log ratio (0.2 + 0) / 2 = 0.1, ratio 1.105, within the clip. Sequence 1: ratio 2, clipped at 1.2, advantage 1.

    Loss = -(1.10517 · -1 + 1.2 · 1) / 2; only sequence 0 has a gradient: its ratio / 2 tokens / 2 sequences.
    """
    loss, gradient = loss_and_gradient(
        [[0.0, -1.0, -1.0], [0.0, -1.0, 5.0]],
        [[9.0, -1.2, -1.0], [0.0, -1.0 - LOG2, -3.0]],
        [[False, True, True], [False, True, False]],
        [-1.0, 1.0],
        GSPO,
    )
    assert loss == pytest.approx(-(-math.exp(0.1) + 1.2) / 2)
    torch.testing.assert_close(
        gradient, torch.tensor([[0, math.exp(0.1) / 4, math.exp(0.1) / 4], [0, 0, 0]], dtype=torch.float64)
    )


def test_grpo_by_hand() -> None:
    """Ratios 2 (clipped to 1.2) and 1 of a sequence with advantage 1; ratio 0.5 (clipped to 0.9) of one with advantage -1."""
    arguments = (
        [[-1.0, -1.0], [-1.0, 0.0]],
        [[-1.0 - LOG2, -1.0], [-1.0 + LOG2, 0.0]],
        [[True, True], [True, False]],
        [1.0, -1.0],
    )
    loss, gradient = loss_and_gradient(*arguments, GRPO)
    assert loss == pytest.approx(-((1.2 + 1) / 2 - 0.9) / 2)
    torch.testing.assert_close(gradient, torch.tensor([[0, -1 / 4], [0, 0]], dtype=torch.float64))
    loss, gradient = loss_and_gradient(*arguments, replace(GRPO, mean=LossMean.token))
    assert loss == pytest.approx(-(1.2 + 1 - 0.9) / 3)
    torch.testing.assert_close(gradient, torch.tensor([[0, -1 / 3], [0, 0]], dtype=torch.float64))


def test_clipping_that_preserves_gradients_has_the_same_value_and_the_clips_gradient() -> None:
    arguments = ([[-1.0]], [[-1.0 - LOG2]], [[True]], [1.0])
    cut, none = loss_and_gradient(*arguments, GSPO)
    kept, gradient = loss_and_gradient(*arguments, replace(GSPO, clipping=Clipping.preserve))
    assert cut == kept == pytest.approx(-1.2)
    assert none.item() == 0
    assert gradient.item() == pytest.approx(-1.2)  # ratio 2 would have -2


def test_a_high_ratio_with_a_negative_advantage_is_not_clipped_but_guarded() -> None:
    arguments = ([[-1.0]], [[-1.0 - LOG2]], [[True]], [-1.0])
    assert loss_and_gradient(*arguments, GSPO)[0] == pytest.approx(2)
    guarded = replace(GSPO, ratio_guard=0.5)
    loss, gradient = loss_and_gradient(*arguments, guarded)
    assert (loss, gradient.item()) == (0, 0)
    found = policy_loss(
        torch.tensor([[-1.0]]), torch.tensor([[-1.0 - LOG2]]), torch.tensor([[True]]), torch.tensor([-1.0]), guarded, 1
    )
    assert found.sums["guarded"] == 1


def test_sequences_of_1_and_100_tokens_weigh_the_same_under_gspo() -> None:
    own = torch.zeros(2, 100, dtype=torch.bool)
    own[0, :1], own[1, :] = True, True
    logprob = torch.full((2, 100), -1.0, requires_grad=True)
    policy_loss(logprob, torch.full((2, 100), -1.0), own, torch.tensor([0.7, 0.7]), GSPO, 2).loss.backward()  # type: ignore[no-untyped-call]
    assert logprob.grad is not None
    weight = logprob.grad.sum(-1)
    assert weight[0].item() == pytest.approx(weight[1].item())
    assert weight[0].item() == pytest.approx(-0.35)


@pytest.mark.parametrize(
    "config", [GSPO, GRPO, replace(GRPO, mean=LossMean.token), replace(GSPO, clipping=Clipping.preserve)]
)
def test_micro_batches_add_up_and_padding_does_not_count(config: AlgorithmConfig) -> None:
    torch.manual_seed(0)
    logprob, old, own = torch.randn(8, 6), torch.randn(8, 6), torch.rand(8, 6) < 0.6
    own[:, 1] = True
    advantage, entropy, start = torch.randn(8), torch.rand(8, 6), torch.randn(8, 6)
    config = replace(config, kl_weight=0.1, entropy_weight=0.01)
    count = loss_count(int(own.sum()), 8, config)

    def part(rows: slice, width: int = 6) -> float:
        def wide(tensor: torch.Tensor) -> torch.Tensor:
            return (
                torch.nn.functional.pad(tensor[rows], (0, width - 6), value=3)
                if tensor.dtype != torch.bool
                else (torch.nn.functional.pad(tensor[rows], (0, width - 6), value=False))
            )

        return float(
            policy_loss(
                wide(logprob), wide(old), wide(own), advantage[rows], config, count, wide(start), wide(entropy)
            ).loss
        )

    whole = part(slice(0, 8))
    assert sum(part(slice(i, i + 2)) for i in range(0, 8, 2)) == pytest.approx(whole, abs=1e-5)
    assert sum(part(slice(i, i + 1), width=9) for i in range(8)) == pytest.approx(whole, abs=1e-5)


def test_kl_estimators_by_hand() -> None:
    """d = log(0.5) - log(0.25) = log 2."""
    policy, start = torch.tensor(math.log(0.5)), torch.tensor(math.log(0.25))
    found = [float(kl_estimate(policy, start, kind)) for kind in (KL.k1, KL.k2, KL.k3)]
    assert found == pytest.approx([LOG2, LOG2**2 / 2, 0.5 - 1 + LOG2], abs=1e-6)


def test_the_estimators_mean_what_their_names_say() -> None:
    """Over all tokens, weighted by the policy: k1 and k3 give the KL; the gradient of k2's mean is the KL's, k1's is zero."""
    logits = torch.tensor([0.3, -0.8, 1.1], dtype=torch.float64, requires_grad=True)
    start = torch.log_softmax(torch.tensor([0.0, 0.5, 0.1], dtype=torch.float64), 0)

    def gradient(kind: KL | None) -> torch.Tensor:
        policy = torch.log_softmax(logits, 0)
        share = policy.exp() if kind is None else policy.exp().detach()
        value = (share * (policy - start if kind is None else kl_estimate(policy, start, kind))).sum()
        return torch.autograd.grad(value, logits)[0]

    policy = torch.log_softmax(logits, 0)
    true = (policy.exp() * (policy - start)).sum()
    for kind in (KL.k1, KL.k3):
        torch.testing.assert_close((policy.exp() * kl_estimate(policy, start, kind)).sum(), true)
    torch.testing.assert_close(gradient(KL.k2), gradient(None))
    torch.testing.assert_close(gradient(KL.k1), torch.zeros(3, dtype=torch.float64))
    assert not torch.allclose(gradient(KL.k3), gradient(None))


def test_what_is_refused() -> None:
    one = torch.zeros(1, 1)
    with pytest.raises(UsageError, match="gspo takes the mean over sequences"):
        policy_loss(one, one, one.bool(), one[0], replace(GSPO, mean=LossMean.token), 1)
    with pytest.raises(UsageError, match="kl_weight needs the start's"):
        policy_loss(one, one, one.bool(), one[0], replace(GSPO, kl_weight=0.1), 1)
    with pytest.raises(UsageError, match=r"clip_low=1\.5"):
        policy_loss(one, one, one.bool(), one[0], replace(GSPO, clip_low=1.5), 1)
