"""Logits behind the last real token of right-padded sequences, and only there.

The head of a small model is a large share of its arithmetic (hidden × vocabulary a token), so it is applied to one
position a sequence. Under causal attention no real token sees the padding behind it: right padding needs no mask, and
attention takes its fast path.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def pad_right(sequences: Sequence[Sequence[int] | NDArray[np.int32]], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """ids_BT (int64, filled with pad_id) and length_B (int64) of B sequences of at least one token each."""
    length_B = np.array([len(s) for s in sequences])
    ids_BT = np.full((len(sequences), int(length_B.max())), pad_id, dtype=np.int64)
    for row, sequence in zip(ids_BT, sequences, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(ids_BT), torch.from_numpy(length_B)


def last_logits(model: Any, ids_BT: torch.Tensor, length_B: torch.Tensor) -> torch.Tensor:
    """logits_BV in float32 of the token that follows each sequence's last real token.

    model: a transformers causal language model. ids_BT: right-padded; length_B: real tokens of each row.
    """
    hidden_BTH = model.get_decoder()(input_ids=ids_BT, use_cache=False).last_hidden_state
    last_BH = hidden_BTH[torch.arange(len(length_B), device=hidden_BTH.device), length_B - 1]
    logits_BV: torch.Tensor = model.get_output_embeddings()(last_BH)
    return logits_BV.float()
