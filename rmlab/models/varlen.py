"""Causal attention of sequences that lie in one row without padding, each within itself.

On a GPU in half precision that is FlashAttention for variable lengths as torch ships it, which reads the key heads of grouped
queries as they are and knows a backward pass; elsewhere, and in float32, one sequence is read after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import scaled_dot_product_attention

from rmlab.models.long_attention import attend_long

HALF = (torch.bfloat16, torch.float16)
LONG = 32768
"""Tokens of a single sequence from which on cuDNN's attention is asked: 1.7 times as fast as FlashAttention (131,072 tokens of 32
heads of 128 on an H200: 587 and 351 TFLOP/s), but it plans every new length anew."""


@dataclass(frozen=True)
class Segments:
    """Where S sequences lie among T queries and among K keys: S + 1 borders each (int32, on the device), and the longest of each.

    The last query of a sequence stands at its last key: where it has more keys than queries, its start was read before, or its
    last tokens alone are asked.
    """

    border_query: torch.Tensor
    border_key: torch.Tensor
    longest_query: int
    longest_key: int

    @classmethod
    def of(cls, queries_S: Sequence[int], keys_S: Sequence[int], device: Any) -> "Segments":
        """Of sequences with these many queries and keys, one behind the other."""
        return cls(_borders(queries_S, device), _borders(keys_S, device), max(queries_S), max(keys_S))


def _borders(length_S: Sequence[int], device: Any) -> torch.Tensor:
    borders: NDArray[np.int32] = np.zeros(len(length_S) + 1, dtype=np.int32)
    np.cumsum(length_S, out=borders[1:])
    return sent(torch.from_numpy(borders), device)


def sent(tensor: torch.Tensor, device: Any) -> torch.Tensor:
    """A tensor of the CPU on a device. A copy from ordinary memory would wait for everything that a GPU has still to do."""
    if torch.device(device).type == "cuda" and not tensor.is_cuda:
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def attend(
    query_TQD: torch.Tensor, key_KGD: torch.Tensor, value_KGD: torch.Tensor, segments: Segments, scale: float
) -> torch.Tensor:
    """mixed_TQD of T queries of Q heads over K keys of G heads of size D (Q a multiple of G): softmax of scale · query · key over the
    keys of the query's sequence up to its own place."""
    if query_TQD.is_cuda and query_TQD.dtype in HALF:
        alone = len(query_TQD) == segments.longest_query == segments.longest_key
        if alone and len(query_TQD) >= LONG and not torch.is_grad_enabled():
            whole = torch.tensor([0, len(query_TQD)])
            found_TQD: torch.Tensor = attend_long(query_TQD, key_KGD, value_KGD, whole, scale)[0]
            return found_TQD
        borders = (segments.border_query, segments.border_key, segments.longest_query, segments.longest_key)
        # the arguments behind them: no dropout, causal, no mask given back
        mixed_TQD: torch.Tensor = torch.ops.aten._flash_attention_forward(
            query_TQD, key_KGD, value_KGD, *borders, 0.0, True, False, scale=scale
        )[0]
        return mixed_TQD
    if torch.compiler.is_compiling():
        return _masked(query_TQD, key_KGD, value_KGD, segments, scale)
    queries_S, keys_S = (border.diff().tolist() for border in (segments.border_query, segments.border_key))
    sequences = zip(
        torch.split(query_TQD, queries_S), torch.split(key_KGD, keys_S), torch.split(value_KGD, keys_S), strict=True
    )
    return torch.cat([_one(query, key, value, scale) for query, key, value in sequences if len(query)])


def _masked(
    query_TQD: torch.Tensor, key_KGD: torch.Tensor, value_KGD: torch.Tensor, segments: Segments, scale: float
) -> torch.Tensor:
    """All sequences at once, behind a mask of T × K: compiled code must not depend on how many there are."""
    asked_T, place_T = _placed(len(query_TQD), segments.border_query)
    seen_K, place_K = _placed(len(key_KGD), segments.border_key)
    before_S = segments.border_key.diff() - segments.border_query.diff()
    seen_TK = (asked_T[:, None] == seen_K) & (place_K <= (place_T + before_S[asked_T])[:, None])
    return _attended(query_TQD, key_KGD, value_KGD, scale, seen_TK, False)


def _placed(tokens: int, border: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The sequence of each token, and its place in it."""
    index = torch.arange(tokens, device=border.device)
    sequence = torch.bucketize(index, border[1:].long(), right=True)
    return sequence, index - border[sequence]


def _one(query_TQD: torch.Tensor, key_KGD: torch.Tensor, value_KGD: torch.Tensor, scale: float) -> torch.Tensor:
    queries, keys = len(query_TQD), len(key_KGD)
    seen_TK = None
    if 1 < queries < keys:
        seen_TK = torch.ones(queries, keys, dtype=torch.bool, device=query_TQD.device).tril(keys - queries)
    return _attended(query_TQD, key_KGD, value_KGD, scale, seen_TK, queries == keys and queries > 1)


def _attended(
    query_TQD: torch.Tensor,
    key_KGD: torch.Tensor,
    value_KGD: torch.Tensor,
    scale: float,
    seen_TK: torch.Tensor | None,
    causal: bool,
) -> torch.Tensor:
    query_1QTD, key_1GKD, value_1GKD = (x.transpose(0, 1)[None] for x in (query_TQD, key_KGD, value_KGD))
    mixed_1QTD = scaled_dot_product_attention(
        query_1QTD,
        key_1GKD,
        value_1GKD,
        attn_mask=seen_TK,
        is_causal=causal,
        scale=scale,
        enable_gqa=query_TQD.shape[1] != key_KGD.shape[1],
    )
    return mixed_1QTD[0].transpose(0, 1)
