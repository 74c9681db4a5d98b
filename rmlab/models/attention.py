"""Causal attention of sequences that lie in one row without padding, each within itself: which kernel computes it is chosen here alone.

On a GPU in half precision that is FlashAttention for variable lengths as torch ships it, which reads the key heads of grouped
queries as they are and knows a backward pass, or cuDNN's where sequences are long; elsewhere, and in
float32, one sequence is read after the other.

Within long sequences of one row cuDNN attends sequence by sequence, on a Hopper GPU about twice as fast as flash attention. It plans every
length anew, so each sequence is read as if it were a multiple of GRAIN tokens long. What is read behind its end are the next one's
tokens: attention is causal, so nothing of the sequence sees them, and no gradient is asked of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import scaled_dot_product_attention

from rmlab.models.cost import LONG_SEQUENCE

GRAIN = 256
"""Lengths are rounded up to a multiple of this: few plans."""
UNSEEN = 1e10
"""Logarithm of the sum of exponentials of what lies behind a sequence's end: its shares are 0."""


def _sequences(cu_seqlens: torch.Tensor) -> Iterator[tuple[int, int, int]]:
    """(start, end, end as it is read) of each sequence."""
    for start, end in pairwise(cu_seqlens.tolist()):
        yield start, end, start + -(-(end - start) // GRAIN) * GRAIN


def _heads(states_TAD: torch.Tensor, start: int, end: int) -> torch.Tensor:
    """A part of a row as one batch, heads before positions."""
    return states_TAD[start:end].transpose(0, 1)[None]


@torch.library.custom_op("rmlab::attend_long", mutates_args=())
def attend_long(
    query_TQD: torch.Tensor, key_TKD: torch.Tensor, value_TKD: torch.Tensor, cu_seqlens: torch.Tensor, scaling: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """mixed_TQD and the logarithm_QT of each query's sum of exponentials; what fills the row gets 0.

    cu_seqlens: on the CPU, the first token of each of B sequences and the end of the last; the row reaches to where it is read.
    """
    mixed_TQD = torch.empty_like(query_TQD, memory_format=torch.contiguous_format)
    logarithm_QT = query_TQD.new_full((query_TQD.shape[1], len(query_TQD)), UNSEEN, dtype=torch.float32)
    for start, end, read in _sequences(cu_seqlens):
        parts = [_heads(states, start, read) for states in (query_TQD, key_TKD, value_TKD)]
        if query_TQD.is_cuda:
            attended = torch.ops.aten._scaled_dot_product_cudnn_attention(
                *parts, None, True, 0.0, True, False, scale=scaling
            )
        else:
            attended = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*parts, 0.0, True, scale=scaling)
        mixed_TQD[start:end] = attended[0][0].transpose(0, 1)[: end - start]
        logarithm_QT[:, start:end] = attended[1].reshape(query_TQD.shape[1], -1)[:, : end - start]
    mixed_TQD[int(cu_seqlens[-1]) :] = 0
    return mixed_TQD, logarithm_QT


@attend_long.register_fake
def _mixed_shape(query_TQD, key_TKD, value_TKD, cu_seqlens, scaling):  # type: ignore[no-untyped-def]  # as above
    mixed_TQD = torch.empty_like(query_TQD, memory_format=torch.contiguous_format)
    return mixed_TQD, query_TQD.new_empty((query_TQD.shape[1], query_TQD.shape[0]), dtype=torch.float32)


@torch.library.custom_op("rmlab::attend_long_backward", mutates_args=())
def _attend_long_backward(
    gradient_TQD: torch.Tensor,
    query_TQD: torch.Tensor,
    key_TKD: torch.Tensor,
    value_TKD: torch.Tensor,
    mixed_TQD: torch.Tensor,
    logarithm_QT: torch.Tensor,
    cu_seqlens: torch.Tensor,
    scaling: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    whole = [
        torch.empty_like(states, memory_format=torch.contiguous_format) for states in (query_TQD, key_TKD, value_TKD)
    ]
    for states in whole:
        states[int(cu_seqlens[-1]) :] = 0
    nothing = torch.zeros((), dtype=torch.int64, device=query_TQD.device)  # no dropout: its random state is not read
    for start, end, read in _sequences(cu_seqlens):
        own = end - start
        asked = torch.empty_like(mixed_TQD[start:read])
        asked[:own], asked[own:] = gradient_TQD[start:end], 0
        logarithm = logarithm_QT.new_full((1, query_TQD.shape[1], read - start, 1), UNSEEN)
        logarithm[0, :, :own, 0] = logarithm_QT[:, start:end]
        parts = [_heads(states, start, read) for states in (query_TQD, key_TKD, value_TKD, mixed_TQD)]
        asked = asked.transpose(0, 1)[None]
        if query_TQD.is_cuda:
            attended = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
                asked, *parts, logarithm, nothing, nothing, None, None, None, read - start, read - start, 0.0, True,
                scale=scaling,
            )  # fmt: skip
        else:
            attended = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                asked, *parts, logarithm[..., 0], 0.0, True, scale=scaling
            )
        for states, part in zip(whole, attended, strict=True):
            states[start:end] = part[0].transpose(0, 1)[:own]
    return whole[0], whole[1], whole[2]


@_attend_long_backward.register_fake
def _gradient_shapes(gradient_TQD, query_TQD, key_TKD, value_TKD, mixed_TQD, logarithm_QT, cu_seqlens, scaling):  # type: ignore[no-untyped-def]
    return tuple(
        torch.empty_like(states, memory_format=torch.contiguous_format) for states in (query_TQD, key_TKD, value_TKD)
    )


def _keep(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]  # torch's form
    query_TQD, key_TKD, value_TKD, cu_seqlens, ctx.scaling = inputs
    ctx.save_for_backward(query_TQD, key_TKD, value_TKD, *output, cu_seqlens)


def _backward(ctx, gradient_TQD, _):  # type: ignore[no-untyped-def]  # torch's form
    *states, cu_seqlens = ctx.saved_tensors
    return (*_attend_long_backward(gradient_TQD, *states, cu_seqlens, ctx.scaling), None, None)


attend_long.register_autograd(_backward, setup_context=_keep)


HALF = (torch.bfloat16, torch.float16)
BEHIND_MASK = 512
"""Queries that are read at once where a mask says which keys they see: one of a whole long prompt would be larger than all else."""


@dataclass(frozen=True)
class Segments:
    """Where S sequences lie among T queries and among K keys, by the names of FlashAttention's arguments.

    cu_seqlens_q, cu_seqlens_k: int32, on the device, where each begins, and the end (S + 1). max_seqlen_q, max_seqlen_k: the longest.
    The last query of a sequence stands at its last key: where it has more keys than queries, its start was read before, or its
    last tokens alone are asked. cu_seqlens_cudnn: on the CPU, without what fills the row, where cuDNN attends; else None.
    """

    cu_seqlens_q: torch.Tensor
    cu_seqlens_k: torch.Tensor
    max_seqlen_q: int
    max_seqlen_k: int
    cu_seqlens_cudnn: torch.Tensor | None = None

    @classmethod
    def of(cls, queries_S: Sequence[int], keys_S: Sequence[int], device: Any) -> "Segments":
        """Of sequences with these many queries and keys, one behind the other, that are scored."""
        alone = len(queries_S) == 1 and LONG_SEQUENCE <= queries_S[0] == keys_S[0]
        query, key = cumulated(queries_S), cumulated(keys_S)
        return cls(sent(query, device), sent(key, device), max(queries_S), max(keys_S), query if alone else None)

    def last_alone(self) -> "Segments":
        """The same, of which the last token of each sequence alone is a query."""
        count = len(self.cu_seqlens_k)
        each = torch.arange(count, dtype=torch.int32, device=self.cu_seqlens_k.device)
        return replace(self, cu_seqlens_q=each, max_seqlen_q=1, cu_seqlens_cudnn=None)

    def to(self, device: Any) -> "Segments":
        """On another device; from pinned memory, so that nothing waits."""
        query = sent(self.cu_seqlens_q, device)
        key = query if self.cu_seqlens_k is self.cu_seqlens_q else sent(self.cu_seqlens_k, device)
        return replace(self, cu_seqlens_q=query, cu_seqlens_k=key)


def cumulated(length_S: Sequence[int]) -> torch.Tensor:
    """int32: where sequences of these lengths begin one behind the other, and the end (S + 1)."""
    cu_seqlens: NDArray[np.int32] = np.zeros(len(length_S) + 1, dtype=np.int32)
    np.cumsum(length_S, out=cu_seqlens[1:])
    return torch.from_numpy(cu_seqlens)


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
    dtype = value_KGD.dtype  # under autocast that of the products; rotary positions make float32 of the others
    query_TQD, key_KGD = query_TQD.to(dtype), key_KGD.to(dtype)
    cu_seqlens = segments.cu_seqlens_q, segments.cu_seqlens_k
    if query_TQD.is_cuda and dtype in HALF:
        if segments.cu_seqlens_cudnn is not None:
            long_TQD: torch.Tensor = attend_long(query_TQD, key_KGD, value_KGD, segments.cu_seqlens_cudnn, scale)[0]
            return long_TQD
        longest = segments.max_seqlen_q, segments.max_seqlen_k
        # the arguments behind them: no dropout, causal, no mask given back
        mixed_TQD: torch.Tensor = torch.ops.aten._flash_attention_forward(
            query_TQD, key_KGD, value_KGD, *cu_seqlens, *longest, 0.0, True, False, scale=scale
        )[0]
        return mixed_TQD
    if torch.compiler.is_compiling():
        return _masked(query_TQD, key_KGD, value_KGD, segments, scale)
    queries_S, keys_S = (starts.diff().tolist() for starts in cu_seqlens)
    sequences = zip(
        torch.split(query_TQD, queries_S), torch.split(key_KGD, keys_S), torch.split(value_KGD, keys_S), strict=True
    )
    return torch.cat([_one(query, key, value, scale) for query, key, value in sequences if len(query)])


def _masked(
    query_TQD: torch.Tensor, key_KGD: torch.Tensor, value_KGD: torch.Tensor, segments: Segments, scale: float
) -> torch.Tensor:
    """All sequences at once, behind a mask of T × K: compiled code must not depend on how many there are."""
    asked_T, place_T = _placed(len(query_TQD), segments.cu_seqlens_q)
    seen_K, place_K = _placed(len(key_KGD), segments.cu_seqlens_k)
    before_S = segments.cu_seqlens_k.diff() - segments.cu_seqlens_q.diff()
    seen_TK = (asked_T[:, None] == seen_K) & (place_K <= (place_T + before_S[asked_T])[:, None])
    return _attended(query_TQD, key_KGD, value_KGD, scale, seen_TK, False)


def _placed(tokens: int, cu_seqlens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The sequence of each token, and its place in it."""
    index = torch.arange(tokens, device=cu_seqlens.device)
    sequence = torch.bucketize(index, cu_seqlens[1:].long(), right=True)
    return sequence, index - cu_seqlens[sequence]


def _one(query_TQD: torch.Tensor, key_KGD: torch.Tensor, value_KGD: torch.Tensor, scale: float) -> torch.Tensor:
    queries, keys = len(query_TQD), len(key_KGD)
    if not 1 < queries < keys:
        return _attended(query_TQD, key_KGD, value_KGD, scale, None, queries == keys and queries > 1)
    before, mixed = keys - queries, []
    for start in range(0, queries, BEHIND_MASK):
        query = query_TQD[start : start + BEHIND_MASK]
        seen = before + start + len(query)
        seen_TK = torch.ones(len(query), seen, dtype=torch.bool, device=query.device).tril(before + start)
        mixed.append(_attended(query, key_KGD[:seen], value_KGD[:seen], scale, seen_TK, False))
    return torch.cat(mixed)


def _attended(
    query_TQD: torch.Tensor,
    key_KGD: torch.Tensor,
    value_KGD: torch.Tensor,
    scale: float,
    seen_TK: torch.Tensor | None,
    causal: bool,
) -> torch.Tensor:
    grouped = query_TQD.shape[1] != key_KGD.shape[1]
    query, key, value = (x.transpose(0, 1)[None] for x in (query_TQD, key_KGD, value_KGD))
    mixed_1QTD = scaled_dot_product_attention(
        query, key, value, attn_mask=seen_TK, is_causal=causal, scale=scale, enable_gqa=grouped
    )
    return mixed_1QTD[0].transpose(0, 1)
