"""Mixture of experts: does every expert get work, what makes the router share it out, and how are they computed?

The balance loss is that of the Switch Transformer (Fedus et al. 2021, arXiv 2101.03961, equations 4 to 6) for top-k routing,
taken layer by layer from the raw logits, which are turned into probabilities once (transformers #45120 did it twice).
Averaging loads over layers first, as transformers' own function does, hides a collapsed layer. Router logits are asked for
in training only.

Experts are grouped matrix products (transformers' `grouped_mm`). These are not among the operations that autocast knows, so
that over float32 weights they would be float32 products, one expert after the other; `grouped_experts` converts as autocast does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch


def experts_of(model: Any) -> int:
    """Experts of a layer, 0 for a dense model."""
    return int(getattr(model.config, "num_experts", 0) or 0)


def has_experts(model: Any) -> bool:
    """Whether a model is a mixture of experts, by any of the names that transformers' configurations have for their number."""
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    return any(getattr(model.config, name, None) for name in names)


GROUPED = "rmlab_grouped_mm"


def use_grouped_experts(model: Any) -> None:
    """Lets a mixture of experts of transformers compute its experts by `grouped_experts`; any other model stays as it is."""
    if not experts_of(model) or model.config._experts_implementation != "grouped_mm":
        return
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ALL_EXPERTS_FUNCTIONS.register(GROUPED, grouped_experts)
    model.set_experts_implementation(GROUPED)


def grouped_experts(experts: Any, hidden_TH: torch.Tensor, *routed: torch.Tensor) -> torch.Tensor:
    """transformers' grouped products, in autocast's arithmetic where it is on. routed: each token's experts, and their weights."""
    from transformers.integrations.moe import grouped_mm_experts_forward

    device = hidden_TH.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        experts, hidden_TH = _Converted(experts, dtype), hidden_TH.to(dtype)
    added_TH: torch.Tensor = grouped_mm_experts_forward(experts, hidden_TH, *routed)
    return added_TH


class _Converted:
    """Experts whose weights are read in another arithmetic; their gradient goes to the weights themselves."""

    def __init__(self, experts: Any, dtype: torch.dtype) -> None:
        self._experts, self._dtype = experts, dtype

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._experts, name)
        return value.to(self._dtype) if isinstance(value, torch.nn.Parameter) else value


def balance_loss(logits_NE: torch.Tensor, top_k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(loss, load_E, entropy) of one layer's router over N tokens and E experts, in float32.

    loss = E · Σ_e load_e · (mean probability of e): 1 where all is even, up to E / top_k where the same top_k get everything.
    load_E: share of the N · top_k assignments, adds up to 1. entropy: of a token's probabilities, mean, 1 = even.
    """
    experts = logits_NE.shape[-1]
    probability_NE = torch.softmax(logits_NE.float(), dim=-1)
    chosen = probability_NE.topk(top_k, dim=-1).indices
    load_E = torch.bincount(chosen.flatten(), minlength=experts).float() / chosen.numel()
    loss = experts * (load_E * probability_NE.mean(dim=0)).sum()
    entropy = -(probability_NE * probability_NE.clamp_min(1e-9).log()).sum(-1).mean() / torch.log(
        torch.tensor(float(experts))
    )
    return loss, load_E, entropy.detach()


@dataclass
class Routing:
    """What the routers did since it was last asked. weight: of the balance loss in the whole loss. counts: whether what is added enters
    the metrics; what a process reads only to keep step with others does not."""

    top_k: int
    weight: float
    counts: bool = True
    _losses: list[torch.Tensor] = field(default_factory=list)
    _loads: list[list[torch.Tensor]] = field(default_factory=list)
    _entropies: list[list[torch.Tensor]] = field(default_factory=list)
    _counted: int = 0

    def add(self, logits: Sequence[torch.Tensor], length_B: torch.Tensor) -> None:
        """Takes the router logits of each layer, (batch · positions) × experts, right-padded; padding does not count."""
        positions = logits[0].shape[0] // len(length_B)
        real_N = (torch.arange(positions, device=length_B.device) < length_B[:, None]).flatten()
        self._loads = self._loads or [[] for _ in logits]
        self._entropies = self._entropies or [[] for _ in logits]
        balances = [balance_loss(layer_NE[real_N], self.top_k) for layer_NE in logits]
        self._losses.append(torch.stack([loss for loss, _, _ in balances]).mean())
        self._counted += self.counts
        for layer, (_, load_E, entropy) in enumerate(balances):
            self._loads[layer].append(load_E * self.counts)
            self._entropies[layer].append(entropy * self.counts)

    def take_loss(self) -> torch.Tensor:
        """The weighted balance loss (mean over layers and over what was added since), with its gradient."""
        loss = self.weight * torch.stack(self._losses).mean()
        self._losses = []
        return loss

    def take_metrics(self, total: Callable[[torch.Tensor], torch.Tensor] = lambda value: value) -> dict[str, float]:
        """By layer: the largest and smallest expert's share times the number of experts (1 = even, 0 = idle), and both entropies.

        total: the sum over all processes that train together. load_entropy: of the shares, 1 = even, 0 = one expert does everything.
        router_entropy: of a token's probabilities.
        """
        metrics: dict[str, float] = {}
        for layer, (loads, entropies) in enumerate(zip(self._loads, self._entropies, strict=True)):
            counted = total(torch.tensor(float(self._counted), device=loads[0].device))
            load_E = total(torch.stack(loads).sum(dim=0)) / counted
            experts = len(load_E)
            even = torch.log(torch.tensor(float(experts)))
            metrics |= {
                f"train/layer_{layer}_load_max": float(load_E.max()) * experts,
                f"train/layer_{layer}_load_min": float(load_E.min()) * experts,
                f"train/layer_{layer}_load_entropy": float(-(load_E * load_E.clamp_min(1e-9).log()).sum() / even),
                f"train/layer_{layer}_router_entropy": float(total(torch.stack(entropies).sum()) / counted),
            }
        self._loads, self._entropies, self._counted = [], [], 0
        return metrics
