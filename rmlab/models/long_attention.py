"""Attention within long sequences of one row, sequence by sequence, by cuDNN: on a Hopper GPU about twice as fast as flash attention.

cuDNN plans every length anew, so each sequence is read as if it were a multiple of GRAIN tokens long. What is read behind its end are
the next one's tokens: attention is causal, so nothing of the sequence sees them, and no gradient is asked of them.
"""

from collections.abc import Iterator
from itertools import pairwise

import torch

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
