"""The policy that learns: its weights or adapters, its optimiser, and the start that it is measured from."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rmlab.models.lora import has_adapters, with_adapters
from rmlab.models.lora_config import LoraConfig
from rmlab.models.pretrained import load_model
from rmlab.models.tokenizer import Tokenizer
from rmlab.policies.folder import save_policy
from rmlab.training.config import OptimizerConfig
from rmlab.training.optimizer import adamw


@dataclass
class Learner:
    """A model that learns. adam: over its trainable parameters. device: the run's Accelerator. reference: the start, as a model
    inside the context that it gives (a frozen copy, or the model with its adapters off); None = no start is kept."""

    model: Any
    adam: torch.optim.Optimizer
    device: Any
    pad_id: int
    gradient_clip: float
    reference: Callable[[], AbstractContextManager[Any]] | None = None

    @property
    def trainable(self) -> list[torch.nn.Parameter]:
        """The parameters that learn."""
        return [p for p in self.model.parameters() if p.requires_grad]


def make_learner(
    folder: Path, lora: LoraConfig, optimizer: OptimizerConfig, seed: int, pad_id: int, device: Any
) -> Learner:
    """The policy of a folder on its device, in float32. Raises DataError where the folder holds no model."""
    model = with_adapters(load_model(folder), lora, seed)
    model = model.to(device.device).eval()  # no dropout: what acts is what learns
    frozen = None if has_adapters(model) else copy.deepcopy(model).requires_grad_(False)

    @contextmanager
    def reference() -> Iterator[Any]:
        if frozen is not None:
            yield frozen
        else:
            with model.disable_adapter():
                yield model

    return Learner(model, adamw(model, optimizer), device, pad_id, optimizer.gradient_clip, reference)


def save_learned(folder: Path, learner: Learner, tokenizer: Tokenizer, record: Mapping[str, Any]) -> None:
    """Writes the policy as it is now (`rmlab.policies.folder`); the learner can go on."""
    save_policy(folder, copy.deepcopy(learner.model).cpu(), tokenizer, record)
