"""Sequences side by side in one row: nothing is computed for padding, and no sequence sees another.

Attention is told where each sequence begins (transformers' `cu_seq_lens_q`) and runs over each alone; positions start anew in each.
On a GPU in half precision that is flash attention as torch ships it; elsewhere a mask says the same, slowly, for tests.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import scaled_dot_product_attention

NAME = "rmlab_packed"
WIDTH = 128
"""A row is filled up to a multiple of this: tensor cores take whole tiles. What fills it is a sequence of its own."""


@dataclass(frozen=True)
class Spans:
    """Where B sequences lie in a row of T tokens.

    starts_S1: int32, the first token of each of S sequences and T; what fills the row is the last of them where S = B + 1.
    position_1T: of each token in its sequence. last_S: index of each one's last token. count: B. longest: tokens of the longest.
    """

    starts_S1: torch.Tensor
    position_1T: torch.Tensor
    last_S: torch.Tensor
    count: int
    longest: int

    def to(self, device: Any) -> "Spans":
        """On another device; from pinned memory, so that nothing waits."""
        moved = (sent(tensor, device) for tensor in (self.starts_S1, self.position_1T, self.last_S))
        return Spans(*moved, self.count, self.longest)


def sent(tensor: torch.Tensor, device: Any) -> torch.Tensor:
    """A tensor of the CPU on a device. A copy from ordinary memory would wait for everything that a GPU has still to do."""
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def pack_row(
    sequences: Sequence[Sequence[int] | NDArray[np.int32]], pad_id: int, width: int = WIDTH
) -> tuple[torch.Tensor, Spans]:
    """ids_1T (int64) of B sequences of at least one token each, one behind the other, and where they lie."""
    lengths = [len(sequence) for sequence in sequences]
    fill = -sum(lengths) % width
    whole = lengths + ([fill] if fill else [])
    starts_S1 = np.concatenate([[0], np.cumsum(whole)])
    ids_T = np.full(starts_S1[-1], pad_id, dtype=np.int64)
    for start, sequence in zip(starts_S1, sequences, strict=False):
        ids_T[start : start + len(sequence)] = sequence
    position_T = np.arange(starts_S1[-1]) - np.repeat(starts_S1[:-1], whole)
    spans = Spans(
        torch.from_numpy(starts_S1.astype(np.int32)),
        torch.from_numpy(position_T)[None],
        torch.from_numpy(starts_S1[1:] - 1),
        len(sequences),
        max(whole),
    )
    return torch.from_numpy(ids_T)[None], spans


def packs(model: Any) -> bool:
    """Whether the layers of a transformers causal language model can be told where sequences begin: full attention, no dropout in it."""
    decoder = model.get_decoder()
    config = decoder.config
    return bool(
        getattr(decoder, "_supports_attention_backend", False)
        and set(getattr(config, "layer_types", None) or {"full_attention"}) == {"full_attention"}
        and getattr(config, "sliding_window", None) is None
        and not getattr(config, "attention_dropout", 0.0)
    )


def packed(model: Any) -> bool:
    """Whether the model reads rows of several sequences now, within `packed_rows`."""
    return bool(model.get_decoder().config._attn_implementation == NAME)


@contextmanager
def packed_rows(model: Any, wanted: bool = True) -> Iterator[None]:
    """Where `wanted`, the attention of a transformers causal language model knows the sequences of a row."""
    if not wanted:
        yield
        return
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _of_transformers)
    config = model.get_decoder().config
    before = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before


def _of_transformers(
    module: Any,
    query_1QTD: torch.Tensor,
    key_1KTD: torch.Tensor,
    value_1KTD: torch.Tensor,
    attention_mask: None,
    scaling: float,
    cu_seq_lens_q: torch.Tensor,
    max_length_q: int,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What a transformers layer calls: heads before positions in, positions before heads out."""
    query, key, value = (x.transpose(1, 2).squeeze(0) for x in (query_1QTD, key_1KTD, value_1KTD))
    return attend(query, key, value, cu_seq_lens_q, max_length_q, scaling)[None], None


def attend(
    query_NQD: torch.Tensor,
    key_TKD: torch.Tensor,
    value_TKD: torch.Tensor,
    starts_S1: torch.Tensor,
    longest: int,
    scaling: float,
    last_only: bool = False,
) -> torch.Tensor:
    """mixed_NQD: causal attention of Q heads over K heads (K divides Q) within each of S sequences; see `Spans`.

    last_only: the queries are those of each sequence's last token alone, N = S; else of every token, N = T.
    """
    if value_TKD.is_cuda:
        query_NQD, key_TKD = query_NQD.to(value_TKD.dtype), key_TKD.to(value_TKD.dtype)
        ends = torch.arange(len(starts_S1), dtype=torch.int32, device=starts_S1.device) if last_only else starts_S1
        mixed_NQD: torch.Tensor = torch.ops.aten._flash_attention_forward(
            query_NQD, key_TKD, value_TKD, ends, starts_S1, 1 if last_only else longest, longest,
            0.0, not last_only, False, scale=scaling,
        )[0]  # fmt: skip
        return mixed_NQD
    index_T = torch.arange(len(key_TKD), device=key_TKD.device)
    index_N = starts_S1[1:].long() - 1 if last_only else index_T
    sequence_T = torch.bucketize(index_T, starts_S1[1:].long(), right=True)
    seen_NT = (sequence_T[index_N][:, None] == sequence_T) & (index_T <= index_N[:, None])
    query_QND, key_KTD, value_KTD = (x.transpose(0, 1) for x in (query_NQD, key_TKD.to(query_NQD.dtype), value_TKD))
    mixed_QND = scaled_dot_product_attention(
        query_QND[None],
        key_KTD[None],
        value_KTD[None].to(query_NQD.dtype),
        attn_mask=seen_NT,
        scale=scaling,
        enable_gqa=len(key_KTD) != len(query_QND),
    )[0]
    return mixed_QND.transpose(0, 1)
