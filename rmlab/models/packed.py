"""Sequences packed into one row: nothing is computed for padding, and no sequence sees another.

Attention learns where each sequence begins (transformers' `cu_seq_lens_q`) and runs over each alone (`rmlab.models.attention`);
positions start anew in each. Several may begin with the same tokens, which stand once in the row (`pack_branches`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rmlab.models import cost
from rmlab.models.attention import GRAIN, Segments, attend, cumulated, sent
from rmlab.models.layer import has_full_attention

NAME = "rmlab_packed"
DECODERS = ("Qwen2Model", "Qwen3Model", "Qwen3MoeModel", "LlamaModel")
"""Classes of transformers whose attention is known to be of this kind, all heads of one size."""
WIDTH = 128
"""A row is filled up to a multiple of this: tensor cores take whole tiles. What fills it is a sequence of its own."""
Ids = Sequence[int] | NDArray[np.int32]


@dataclass(frozen=True)
class PackedRow:
    """Where B sequences lie in a row of T tokens.

    segments: of the S sequences; what fills the row is the last of them where S = B + 1. position_1T: of each token in its sequence.
    last_S: index of each one's last token. count: B. key_place_U: where in the row the keys stand that each sequence sees, one
    sequence behind the other; None where each sees its own tokens alone.
    """

    segments: Segments
    position_1T: torch.Tensor
    last_S: torch.Tensor
    count: int
    key_place_U: torch.Tensor | None = None

    @property
    def decoder_arguments(self) -> dict[str, Any]:
        """What a decoder of transformers is called with beside the ids."""
        return {
            "position_ids": self.position_1T,
            "cu_seq_lens_q": self.segments.cu_seqlens_q,
            "cu_seq_lens_k": self.segments.cu_seqlens_k,
            "max_length_q": self.segments.max_seqlen_q,
            "max_length_k": self.segments.max_seqlen_k,
            "cu_seq_lens_cudnn": self.segments.cu_seqlens_cudnn,
            "key_places": self.key_place_U,
        }

    def to(self, device: Any) -> "PackedRow":
        """On another device; from pinned memory, so that nothing waits."""
        key_place_U = None if self.key_place_U is None else sent(self.key_place_U, device)
        position_1T, last_S = sent(self.position_1T, device), sent(self.last_S, device)
        return PackedRow(self.segments.to(device), position_1T, last_S, self.count, key_place_U)


def pack_row(sequences: Sequence[Ids], pad_id: int, width: int = WIDTH) -> tuple[torch.Tensor, PackedRow]:
    """ids_1T (int64) of B sequences of at least one token each, one behind the other, and where they lie."""
    lengths = [len(sequence) for sequence in sequences]
    long = sum(lengths) >= cost.LONG_MEAN * len(lengths)
    fill = -lengths[-1] % GRAIN if long else 0  # `attend_long` reads as far
    fill += -(sum(lengths) + fill) % width
    whole = lengths + ([fill] if fill else [])
    starts_S1 = np.concatenate([[0], np.cumsum(whole)])
    ids_T = np.full(starts_S1[-1], pad_id, dtype=np.int64)
    for start, sequence in zip(starts_S1, sequences, strict=False):
        ids_T[start : start + len(sequence)] = sequence
    position_T = np.arange(starts_S1[-1]) - np.repeat(starts_S1[:-1], whole)
    cu_seqlens = cumulated(whole)
    row = PackedRow(
        Segments(cu_seqlens, cu_seqlens, max(whole), max(whole), cumulated(lengths) if long else None),
        torch.from_numpy(position_T)[None],
        torch.from_numpy(starts_S1[1:] - 1),
        len(sequences),
    )
    return torch.from_numpy(ids_T)[None], row


def pack_branches(
    trees: Sequence[tuple[Ids, Sequence[Ids]]], pad_id: int, width: int = WIDTH
) -> tuple[torch.Tensor, PackedRow, list[list[NDArray[np.int64]]]]:
    """ids_1T of several (beginning, its continuations), each a sequence of at least one token, and where they lie: attempts at one task
    begin with its issue. A continuation sees the keys of its beginning, which stand once in the row, and its own.

    The third value: for each continuation of each beginning, the places in the row of its tokens, the beginning's in front.
    """
    pieces: list[Ids] = []
    sources: list[int | None] = []
    for beginning, continuations in trees:
        sources += [None, *[len(pieces)] * len(continuations)]
        pieces += [beginning, *continuations]
    ids_1T, row = pack_row(pieces, pad_id, width)
    own = [np.arange(first, end) for first, end in pairwise(row.segments.cu_seqlens_q.tolist())]
    sources += [None] * (len(own) - len(sources))
    seen = [
        places if source is None else np.concatenate([own[source], places])
        for places, source in zip(own, sources, strict=True)
    ]
    position_T = np.concatenate(
        [np.arange(len(keys) - len(places), len(keys)) for keys, places in zip(seen, own, strict=True)]
    )
    lengths = [len(keys) for keys in seen]
    segments = replace(row.segments, cu_seqlens_k=cumulated(lengths), max_seqlen_k=max(lengths), cu_seqlens_cudnn=None)
    branched = replace(
        row,
        segments=segments,
        position_1T=torch.from_numpy(position_T)[None],
        key_place_U=torch.from_numpy(np.concatenate(seen)),
    )
    continued = iter([keys for keys, source in zip(seen, sources, strict=True) if source is not None])
    return ids_1T, branched, [[next(continued) for _ in continuations] for _, continuations in trees]


def packs(model: Any) -> bool:
    """Whether the layers of a transformers causal language model can be told where sequences begin: full attention, no dropout in it.

    Of known classes alone: others name their dropout as they like, or have heads of several sizes.
    """
    decoder = model.get_decoder()
    config = decoder.config
    return bool(
        type(decoder).__name__ in DECODERS
        and has_full_attention(decoder)
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
    cu_seq_lens_k: torch.Tensor,
    max_length_q: int,
    max_length_k: int,
    cu_seq_lens_cudnn: torch.Tensor | None = None,
    key_places: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What a transformers layer calls: heads before positions in, positions before heads out."""
    query, key, value = (x.transpose(1, 2).squeeze(0) for x in (query_1QTD, key_1KTD, value_1KTD))
    if key_places is not None:
        if not query.is_cuda:  # there a list of fixed length is no use, and sequences are cut one by one
            key_places = key_places[: int(cu_seq_lens_k[-1])]
        key, value = (at_places(states.to(value.dtype), key_places) for states in (key, value))
    segments = Segments(cu_seq_lens_q, cu_seq_lens_k, max_length_q, max_length_k, cu_seq_lens_cudnn)
    return attend(query, key, value, segments, scaling)[None], None


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
    rows_UKD: torch.Tensor = _Seen.apply(states_TKD, place_U)  # type: ignore[no-untyped-call]  # torch does not type it
    return rows_UKD
