"""Causal attention of sequences that lie in one row without padding, each within itself.

On a GPU in lower arithmetic by torch's variable-length attention (FlashAttention), which reads the key heads of grouped queries
as they are; elsewhere, and in float32, one sequence after the other.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import scaled_dot_product_attention

LOWER = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Segments:
    """Where S sequences lie among T queries and among K keys, S + 1 borders each.

    The last query of a sequence stands at its last key: a sequence may have more keys than queries (its start was read before).
    border_*: int32 on the device. length_*: on the host.
    """

    border_query: torch.Tensor
    border_key: torch.Tensor
    length_query: Sequence[int]
    length_key: Sequence[int]

    @classmethod
    def of(cls, length_query: Sequence[int], length_key: Sequence[int], device: Any) -> "Segments":
        """Of sequences with these many queries and keys, one behind the other."""
        return cls(_borders(length_query, device), _borders(length_key, device), length_query, length_key)


def _borders(lengths: Sequence[int], device: Any) -> torch.Tensor:
    borders: NDArray[np.int32] = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=borders[1:])
    return torch.from_numpy(borders).to(device, non_blocking=True)


def attend(
    query_TQD: torch.Tensor, key_KGD: torch.Tensor, value_KGD: torch.Tensor, segments: Segments, scale: float
) -> torch.Tensor:
    """mixed_TQD of T queries of Q heads over K keys of G heads of size D (Q a multiple of G); softmax(scale · q k) within each sequence."""
    if query_TQD.is_cuda and query_TQD.dtype in LOWER and varlen_options() is not None:
        return _flash(query_TQD, key_KGD, value_KGD, segments, scale)
    mixed, query_end, key_end = [], 0, 0
    for queries, keys in zip(segments.length_query, segments.length_key, strict=True):
        at, over = slice(query_end, query_end + queries), slice(key_end, key_end + keys)
        query_end, key_end = at.stop, over.stop
        if queries:
            mixed.append(_one(query_TQD[at], key_KGD[over], value_KGD[over], scale))
    return torch.cat(mixed)


def _one(query_TQD: torch.Tensor, key_KGD: torch.Tensor, value_KGD: torch.Tensor, scale: float) -> torch.Tensor:
    queries, keys = len(query_TQD), len(key_KGD)
    seen_TK = None
    if 1 < queries < keys:
        seen_TK = torch.ones(queries, keys, dtype=torch.bool, device=query_TQD.device).tril(keys - queries)
    mixed_1QTD = scaled_dot_product_attention(
        query_TQD.transpose(0, 1)[None],
        key_KGD.transpose(0, 1)[None],
        value_KGD.transpose(0, 1)[None],
        attn_mask=seen_TK,
        is_causal=queries == keys and queries > 1,
        scale=scale,
        enable_gqa=query_TQD.shape[1] != key_KGD.shape[1],
    )
    return mixed_1QTD[0].transpose(0, 1)


def _flash(
    query_TQD: torch.Tensor, key_KGD: torch.Tensor, value_KGD: torch.Tensor, segments: Segments, scale: float
) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn

    options = dict(varlen_options() or {})
    mixed_TQD: torch.Tensor = varlen_attn(
        query_TQD,
        key_KGD,
        value_KGD,
        segments.border_query,
        segments.border_key,
        max(segments.length_query),
        max(segments.length_key),
        scale=scale,
        **options,
    )
    return mixed_TQD


@lru_cache
def varlen_options() -> dict[str, Any] | None:
    """How the installed torch's variable-length attention is asked for causal attention with grouped queries; None where it has none
    that takes a scale (before torch 2.11)."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    known = inspect.signature(varlen_attn).parameters
    if "scale" not in known or "window_size" not in known:
        return None
    return {"window_size": (-1, 0)} | ({"enable_gqa": True} if "enable_gqa" in known else {})
