"""Conversations with a common beginning, which stands once in a row and is read once: attempts at one task begin with its issue."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rmlab.models.packed import WIDTH, Spans, pack_row
from rmlab.models.varlen import sent


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
        keys = {"key_places": self.key_U, "key_starts": self.starts_S1, "longest_keys": self.longest}
        return self.spans.told | keys

    def to(self, device: Any) -> "BranchedSpans":
        """On another device; nothing waits."""
        return BranchedSpans(
            self.spans.to(device), sent(self.key_U, device), sent(self.starts_S1, device), self.longest
        )


def pack_branches(
    trees: Sequence[tuple[Sequence[int] | NDArray[np.int32], Sequence[Sequence[int] | NDArray[np.int32]]]],
    pad_id: int,
    width: int = WIDTH,
) -> tuple[torch.Tensor, BranchedSpans, list[list[NDArray[np.int64]]]]:
    """ids_1T of several (beginning, its continuations), and where they lie. Every one has at least one token.

    The third value: for each continuation of each beginning, the places in the row of its tokens, the beginning's in front.
    """
    pieces: list[Sequence[int] | NDArray[np.int32]] = []
    sources: list[int | None] = []
    for beginning, continuations in trees:
        sources += [None, *[len(pieces)] * len(continuations)]
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
        replace(spans, position_1T=torch.from_numpy(position_T)[None], border_B1=None),
        torch.from_numpy(np.concatenate(seen)),
        torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)),
        max(lengths),
    )
    continued = iter([keys for keys, source in zip(seen, sources, strict=True) if source is not None])
    return ids_1T, branched, [[next(continued) for _ in continuations] for _, continuations in trees]
