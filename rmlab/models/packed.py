"""Sequences side by side in one row: nothing is computed for padding, and no sequence sees another.

Attention is told where each sequence begins (transformers' `cu_seq_lens_q`) and runs over each alone; positions start anew in each.
`rmlab.models.varlen` has the attention.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rmlab.models import varlen
from rmlab.models.long_attention import GRAIN, LONG, attend_long
from rmlab.models.varlen import Segments, sent

BY_CUDNN = True
NAME = "rmlab_packed"
DECODERS = ("Qwen2Model", "Qwen3Model", "Qwen3MoeModel", "LlamaModel")
"""Classes of transformers whose attention is known to be of this kind, all heads of one size."""
WIDTH = 128
"""A row is filled up to a multiple of this: tensor cores take whole tiles. What fills it is a sequence of its own."""


@dataclass(frozen=True)
class Spans:
    """Where B sequences lie in a row of T tokens.

    starts_S1: int32, the first token of each of S sequences and T; what fills the row is the last of them where S = B + 1.
    border_B1: on the CPU, likewise of the B alone, where they are long enough for `attend_long`; else None.
    position_1T: of each token in its sequence. last_S: index of each one's last token. count: B. longest: tokens of the longest.
    """

    starts_S1: torch.Tensor
    position_1T: torch.Tensor
    last_S: torch.Tensor
    count: int
    longest: int
    border_B1: torch.Tensor | None = None

    @property
    def told(self) -> dict[str, Any]:
        """What a decoder of transformers is called with beside the ids."""
        return {
            "position_ids": self.position_1T,
            "cu_seq_lens_q": self.starts_S1,
            "cu_seq_lens_k": self.border_B1,
            "max_length_q": self.longest,
        }

    def to(self, device: Any) -> "Spans":
        """On another device; from pinned memory, so that nothing waits."""
        starts_S1, position_1T, last_S = (sent(x, device) for x in (self.starts_S1, self.position_1T, self.last_S))
        return Spans(starts_S1, position_1T, last_S, self.count, self.longest, self.border_B1)


def pack_row(
    sequences: Sequence[Sequence[int] | NDArray[np.int32]], pad_id: int, width: int = WIDTH
) -> tuple[torch.Tensor, Spans]:
    """ids_1T (int64) of B sequences of at least one token each, one behind the other, and where they lie."""
    lengths = [len(sequence) for sequence in sequences]
    long = sum(lengths) >= LONG * len(lengths)
    fill = -lengths[-1] % GRAIN if long else 0  # `attend_long` reads as far
    fill += -(sum(lengths) + fill) % width
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
        torch.from_numpy(starts_S1[: len(lengths) + 1].astype(np.int32)) if long else None,
    )
    return torch.from_numpy(ids_T)[None], spans


def packs(model: Any) -> bool:
    """Whether the layers of a transformers causal language model can be told where sequences begin: full attention, no dropout in it.

    Of known classes alone: others name their dropout as they like, or have heads of several sizes.
    """
    decoder = model.get_decoder()
    config = decoder.config
    return bool(
        type(decoder).__name__ in DECODERS
        and set(getattr(config, "layer_types", None) or {"full_attention"}) == {"full_attention"}
        and getattr(config, "sliding_window", None) is None
        and not getattr(config, "attention_dropout", 0.0)
        and not any(
            isinstance(module, torch.nn.Dropout) and module.p for module in model.modules()
        )  # adapters': its draws would differ
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
    cu_seq_lens_k: torch.Tensor | None = None,
    key_places: torch.Tensor | None = None,
    key_starts: torch.Tensor | None = None,
    longest_keys: int = 0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What a transformers layer calls: heads before positions in, positions before heads out."""
    query, key, value = (x.transpose(1, 2).squeeze(0) for x in (query_1QTD, key_1KTD, value_1KTD))
    if key_places is None or key_starts is None:
        return attend(query, key, value, cu_seq_lens_q, max_length_q, scaling, border_B1=cu_seq_lens_k)[None], None
    if not query.is_cuda:  # there a list of fixed length is no use, and sequences are cut one by one
        key_places = key_places[: int(key_starts[-1])]
    key, value = (at_places(states.to(value.dtype), key_places) for states in (key, value))
    segments = Segments(cu_seq_lens_q, key_starts, max_length_q, longest_keys)
    return varlen.attend(query.to(value.dtype), key, value, segments, scaling)[None], None


def attend(
    query_NQD: torch.Tensor,
    key_TKD: torch.Tensor,
    value_TKD: torch.Tensor,
    starts_S1: torch.Tensor,
    longest: int,
    scaling: float,
    last_only: bool = False,
    border_B1: torch.Tensor | None = None,
) -> torch.Tensor:
    """mixed_NQD: causal attention of Q heads over K heads (K divides Q) within each of S sequences; see `Spans`.

    last_only: the queries are those of each sequence's last token alone, N = S; else of every token, N = T.
    """
    dtype = value_TKD.dtype  # under autocast that of the products; rotary positions make float32 of the others
    query_NQD, key_TKD = query_NQD.to(dtype), key_TKD.to(dtype)
    if query_NQD.is_cuda and border_B1 is not None and not last_only and BY_CUDNN:
        mixed_NQD: torch.Tensor = attend_long(query_NQD, key_TKD, value_TKD, border_B1, scaling)[0]
        return mixed_NQD
    asked_S1 = torch.arange(len(starts_S1), dtype=torch.int32, device=starts_S1.device) if last_only else starts_S1
    segments = Segments(asked_S1, starts_S1, 1 if last_only else longest, longest)
    return varlen.attend(query_NQD, key_TKD, value_TKD, segments, scaling)


class _Seen(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states_TKD: torch.Tensor, place_U: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(place_U)
        ctx.tokens = len(states_TKD)
        return states_TKD[place_U.clamp(max=ctx.tokens - 1)]

    @staticmethod
    def backward(ctx: Any, gradient_UKD: torch.Tensor) -> tuple[torch.Tensor, None]:
        (place_U,) = ctx.saved_tensors
        shape = (ctx.tokens + BEYOND, *gradient_UKD.shape[1:])
        sum_TKD = torch.zeros(shape, dtype=torch.float32, device=place_U.device)
        sum_TKD.index_add_(0, place_U, gradient_UKD.float())
        return sum_TKD[: ctx.tokens].to(gradient_UKD.dtype), None


BEYOND = 128
"""Places beyond the last token that may be named."""


def at_places(states_TKD: torch.Tensor, place_U: torch.Tensor) -> torch.Tensor:
    """Rows of keys or values by their places. The gradients of one that many continuations see are summed in float32; a place
    beyond the last token fills up a list of fixed length: it reads the last token, and its gradient goes nowhere."""
    found: torch.Tensor = _Seen.apply(states_TKD, place_U)  # type: ignore[no-untyped-call]  # torch does not type it
    return found
