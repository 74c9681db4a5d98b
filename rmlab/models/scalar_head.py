"""A language model that says one number behind a sequence, not a next token: its body, and a linear head of its own."""

import math
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from rmlab.errors import DataError
from rmlab.fingerprint import fingerprint
from rmlab.models.last_position import last_hidden
from rmlab.models.moe import Routing

FILE = "scalar_head.safetensors"


class ScalarModel(torch.nn.Module):
    """model: a transformers causal language model, whose own head is not used. first weights: N(0, 1 / inputs) by seed, bias 0."""

    def __init__(self, model: Any, seed: int = 0) -> None:
        super().__init__()
        self.model = model
        hidden = int(model.get_input_embeddings().weight.shape[1])
        self.head = torch.nn.Linear(hidden, 1)
        with torch.no_grad():
            stream = torch.Generator().manual_seed(int(fingerprint([seed, "head.weight"]), 16) % 2**63)
            self.head.weight.normal_(0.0, 1 / math.sqrt(hidden), generator=stream)
            self.head.bias.zero_()

    @property
    def config(self) -> Any:
        """Of the language model."""
        return self.model.config

    def get_input_embeddings(self) -> Any:
        """Of the language model."""
        return self.model.get_input_embeddings()

    def save_head(self, folder: Path) -> None:
        """Writes the head beside a saved language model."""
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in self.head.state_dict().items()}, folder / FILE
        )


def last_scalar(
    model: ScalarModel, ids_BT: torch.Tensor, length_B: torch.Tensor, routing: Routing | None = None
) -> torch.Tensor:
    """scalar_B in float32 behind each sequence's last real token. ids_BT: right-padded; length_B: real tokens of each row."""
    scalar_B1: torch.Tensor = model.head(last_hidden(model.model, ids_BT, length_B, routing))
    return scalar_B1.squeeze(-1).float()


def load_head(model: Any, folder: Path) -> ScalarModel:
    """A language model with the head that a folder holds. Raises DataError where there is none that fits it."""
    whole = ScalarModel(model)
    try:
        whole.head.load_state_dict(load_file(folder / FILE))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise DataError(
            f"{folder / FILE} is not the head of this model ({str(error).splitlines()[0]}). "
            "Fetch the whole folder again."
        ) from error
    return whole
