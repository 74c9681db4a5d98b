"""Sequences side by side in one row: nothing is computed for padding, and no sequence sees another.

Attention is told where each sequence begins (transformers' `cu_seq_lens_q`) and runs over each alone; positions start anew in each.
On a GPU in half precision that is flash attention as torch ships it; elsewhere a mask says the same, slowly, for tests.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

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

    @property
    def told(self) -> dict[str, Any]:
        """What a decoder of transformers is called with beside the ids."""
        return {"position_ids": self.position_1T, "cu_seq_lens_q": self.starts_S1, "max_length_q": self.longest}

    def to(self, device: Any) -> "Spans":
        """On another device; from pinned memory, so that nothing waits."""
        moved = (sent(tensor, device) for tensor in (self.starts_S1, self.position_1T, self.last_S))
        return Spans(*moved, self.count, self.longest)


@dataclass(frozen=True)
class BranchedSpans:
    """Where beginnings and their continuations lie in a row, each a sequence (`Spans`): attempts at one task begin with the same tokens.

    A continuation sees the keys of its beginning, which stand once in the row, and its own: key_U are the places of the keys that
    each sequence sees, one sequence behind the other; starts_S1 where each one's begin among them, longest how many at most.
    """

    spans: Spans
    key_U: torch.Tensor
    starts_S1: torch.Tensor
    longest: int

    @property
    def told(self) -> dict[str, Any]:
        """What a decoder of transformers is called with beside the ids."""
        keys = {"key_places": self.key_U, "cu_seq_lens_k": self.starts_S1, "max_length_k": self.longest}
        return self.spans.told | keys

    def to(self, device: Any) -> "BranchedSpans":
        """On another device; nothing waits."""
        return BranchedSpans(
            self.spans.to(device), sent(self.key_U, device), sent(self.starts_S1, device), self.longest
        )


def sent(tensor: torch.Tensor, device: Any) -> torch.Tensor:
    """A tensor of the CPU on a device. A copy from ordinary memory would wait for everything that a GPU has still to do."""
    if torch.device(device).type == "cuda" and not tensor.is_cuda:
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


def pack_branches(
    trees: Sequence[tuple[Sequence[int] | NDArray[np.int32], Sequence[Sequence[int] | NDArray[np.int32]]]],
    pad_id: int,
    width: int = WIDTH,
) -> tuple[torch.Tensor, BranchedSpans, list[list[NDArray[np.int64]]]]:
    """ids_1T of several (beginning, its continuations), and where they lie. Every one has at least one token.

    The third value: for each continuation of each beginning, the places in the row of its tokens, the beginning's in front.
    """
    pieces, sources = [], []
    for beginning, continuations in trees:
        sources += [None] + [len(pieces)] * len(continuations)
        pieces += [beginning, *continuations]
    ids_1T, spans = pack_row(pieces, pad_id, width)
    starts = spans.starts_S1.tolist()
    own = [np.arange(first, end) for first, end in pairwise(starts)]
    sources += [None] * (len(own) - len(sources))
    seen = [
        places if source is None else np.concatenate([own[source], places])
        for places, source in zip(own, sources, strict=True)
    ]
    position_T = np.concatenate(
        [np.arange(len(keys) - len(places), len(keys)) for keys, places in zip(seen, own, strict=True)]
    )
    lengths = [len(keys) for keys in seen]
    branched = BranchedSpans(
        replace(spans, position_1T=torch.from_numpy(position_T)[None]),
        torch.from_numpy(np.concatenate(seen)),
        torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)),
        max(lengths),
    )
    continued = iter([keys for keys, source in zip(seen, sources, strict=True) if source is not None])
    return ids_1T, branched, [[next(continued) for _ in continuations] for _, continuations in trees]


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
    cu_seq_lens_k: torch.Tensor | None = None,
    max_length_k: int | None = None,
    key_places: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What a transformers layer calls: heads before positions in, positions before heads out."""
    query, key, value = (x.transpose(1, 2).squeeze(0) for x in (query_1QTD, key_1KTD, value_1KTD))
    if key_places is None or cu_seq_lens_k is None or max_length_k is None:
        return attend(query, key, value, cu_seq_lens_q, max_length_q, scaling)[None], None
    key, value = (_Seen.apply(states.to(value.dtype), key_places) for states in (key, value))
    keys = KeySpans(cu_seq_lens_k, max_length_k)
    return attend(query, key, value, cu_seq_lens_q, max_length_q, scaling, keys=keys)[None], None


class _Seen(torch.autograd.Function):
    """Rows of keys or values by their places. The gradients of one that many continuations see are summed in float32; a place
    beyond the last token fills up a list of fixed length: it reads the last token, and its gradient goes nowhere."""

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


BEYOND = 128  # places beyond the last token that may be named


class KeySpans(NamedTuple):
    """Where the keys that each of S sequences sees begin, and how many there are at most: those of its last queries at their end."""

    starts_S1: torch.Tensor
    longest: int


def attend(
    query_NQD: torch.Tensor,
    key_UKD: torch.Tensor,
    value_UKD: torch.Tensor,
    starts_S1: torch.Tensor,
    longest: int,
    scaling: float,
    last_only: bool = False,
    keys: KeySpans | None = None,
) -> torch.Tensor:
    """mixed_NQD: causal attention of Q heads over K heads (K divides Q) within each of S sequences; see `Spans`.

    last_only: the queries are those of each sequence's last token alone, N = S; else of every token. keys: where a sequence sees keys
    in front of those of its own tokens, which are its last ones; None = U = T, of its tokens alone.
    """
    key_starts_S1, longest_keys = keys or (starts_S1, longest)
    if value_UKD.is_cuda:
        query_NQD, key_UKD = query_NQD.to(value_UKD.dtype), key_UKD.to(value_UKD.dtype)
        ends = torch.arange(len(starts_S1), dtype=torch.int32, device=starts_S1.device) if last_only else starts_S1
        mixed_NQD: torch.Tensor = torch.ops.aten._flash_attention_forward(
            query_NQD, key_UKD, value_UKD, ends, key_starts_S1, 1 if last_only else longest, longest_keys,
            0.0, not last_only, False, scale=scaling,
        )[0]  # fmt: skip
        return mixed_NQD
    starts, key_ends = starts_S1.long(), key_starts_S1[1:].long()
    index_U = torch.arange(len(key_UKD), device=key_UKD.device)
    index_N = torch.arange(len(query_NQD), device=key_UKD.device)
    sequence_N = index_N if last_only else torch.bucketize(index_N, starts[1:], right=True)
    sequence_U = torch.bucketize(index_U, key_ends, right=True)
    behind_N = 0 if last_only else starts[1:][sequence_N] - 1 - index_N  # tokens of its sequence behind each query
    seen_NU = (sequence_N[:, None] == sequence_U) & (index_U <= (key_ends[sequence_N] - 1 - behind_N)[:, None])
    query_QND, key_KUD, value_KUD = (x.transpose(0, 1) for x in (query_NQD, key_UKD.to(query_NQD.dtype), value_UKD))
    mixed_QND = scaled_dot_product_attention(
        query_QND[None],
        key_KUD[None],
        value_KUD[None].to(query_NQD.dtype),
        attn_mask=seen_NU,
        scale=scaling,
        enable_gqa=len(key_KUD) != len(query_QND),
    )[0]
    return mixed_QND.transpose(0, 1)
