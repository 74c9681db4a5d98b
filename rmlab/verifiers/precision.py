"""In which arithmetic does a verifier score? In that of its training, but on a GPU in float16 in place of bfloat16, where that is finer.

float16 rounds eight times as finely as bfloat16, yet its numbers end at 65,504 above and at 2^-24 below, where smaller ones become
zero. What is too large shows in a score (`rmlab.verifiers.scoring`); what is too small does not, so the weights are looked at.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakKeyDictionary

import torch

from rmlab.models.heads import language_model
from rmlab.models.moe import has_experts
from rmlab.training.ranks import says_for_all
from rmlab.training.sharding import is_sharded

Autocast = Callable[[], AbstractContextManager[Any]]

BFLOAT16_ERROR = 2.0**-9
"""About what rounding to bfloat16 changes of a matrix, relative to its Frobenius norm."""
SURE = 2.0**-15
"""Root mean square of a matrix from which on float16 changes it by less than that."""


def scored_in(model: Any, autocast: Autocast) -> torch.dtype:
    """The arithmetic of `score_ids` where none is asked for: autocast's, but for what `half_precision` says of bfloat16."""
    with autocast():
        dtype = arithmetic(model)
    if dtype is torch.bfloat16 and not is_sharded(model):
        return half_precision(language_model(model), next(model.parameters()).device)
    return dtype


def half_precision(model: Any, device: Any) -> torch.dtype:
    """That a language model scores in on a device where it was trained in bfloat16: float16 on a GPU, where both have the same
    peak rate, unless it has experts, whose grouped products are in bfloat16, or loses small numbers (`loses_small`)."""
    finer = torch.device(device).type == "cuda" and not has_experts(model) and not loses_small(model)
    return torch.float16 if finer else torch.bfloat16


def arithmetic(model: Any) -> torch.dtype:
    """That matrix products have here: autocast's, else that of the weights."""
    weight = next(model.parameters())
    if torch.is_autocast_enabled(weight.device.type):
        return torch.get_autocast_dtype(weight.device.type)
    dtype: torch.dtype = weight.dtype
    return dtype


def loses_small(model: Any) -> bool:
    """Whether float16 would change a matrix of a language model's layers by more than bfloat16 does, because it makes small numbers
    zero. Looked at once a model, whose weights are final when it scores, and said on standard error, by one rank where several score."""
    if model not in _losing:
        _losing[model] = _lost(model)
        if _losing[model] and says_for_all():
            print(f"{_losing[model]}: this verifier is scored in bfloat16, which rounds more.", file=sys.stderr)
    return bool(_losing[model])


_losing: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""What is lost of a model, in words; empty where nothing is."""


def _lost(model: Any) -> str:
    """The first matrix that loses too much, and how much of it; empty where none does."""
    for name, weight in model.get_decoder().layers.named_parameters():
        if weight.ndim > 1 and (error := float16_error(weight.data)) > BFLOAT16_ERROR:
            return f"float16 would lose {error:.2g} of layers.{name}, whose numbers are too small for it"
    return ""


def float16_error(weight: torch.Tensor) -> float:
    """The Frobenius norm of what float16 changes of a matrix, relative to that of the matrix; 0 where it is at most BFLOAT16_ERROR.

    float16 rounds by at most 2^-11 of a number, or by 2^-25 where the number is below 2^-14. So a matrix whose root mean square is at
    least 2^-15 is off by less than BFLOAT16_ERROR, and only of others the error itself is worked out.
    """
    if weight.dtype is torch.float16:
        return 0.0
    norm = torch.linalg.vector_norm(weight, dtype=torch.float32).item()
    if norm >= SURE * weight.numel() ** 0.5:
        return 0.0
    exact = weight.double()  # the squares of the smallest numbers are 0 in float32
    whole = torch.linalg.vector_norm(exact).item()
    error = torch.linalg.vector_norm(exact - weight.to(torch.float16).double()).item() / whole if whole else 0.0
    return error if error > BFLOAT16_ERROR else 0.0
