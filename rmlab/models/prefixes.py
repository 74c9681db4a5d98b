"""What have prompts in common at their start? Batches in which a common prefix is read once.

Attempts at one task open alike (instructions, issue, often the first turns), and prefixes of one attempt are each other's start.
In lexicographic order the longest common prefix of a prompt with any before it is the one with its neighbour, so that reading
each prompt from where it departs from its neighbour reads every node of the prefix tree once, at any depth.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

KEYS_PER_TOKEN = 8
"""Keys that are looked at for each token that is read, at most: what bounds a batch where nearly everything is shared."""
PARTS_BYTES = 2**31
"""Of what reading makes at once of some tokens, wider than their hidden states, and does not keep."""
SORTED_BY = 1024
"""Tokens that prompts are put in order by at a time."""


@dataclass(frozen=True)
class PrefixBatch:
    """N prompts as T tokens, each of which stands for the prompts that have it and all before it in common.

    row_N: which prompts. ids_T, position_T: the tokens, and where in their prompts they stand. read_N: how many of the tokens were
    added for each prompt, 0 for one that is another's start. length_N: of each prompt. slot_S: where the tokens of each prompt
    stand among the T, prompt after prompt; None where that is 0 to T - 1, nothing being shared.
    """

    row_N: NDArray[np.intp]
    ids_T: NDArray[np.int64]
    position_T: NDArray[np.int64]
    read_N: NDArray[np.int64]
    length_N: NDArray[np.int64]
    slot_S: NDArray[np.int64] | None

    @property
    def last_N(self) -> NDArray[np.int64]:
        """Where the last token of each prompt stands among the T."""
        end_N: NDArray[np.int64] = np.cumsum(self.length_N) - 1
        return end_N if self.slot_S is None else self.slot_S[end_N]


def prefix_batches(prompts: Sequence[Sequence[int] | NDArray[np.int32]], tokens: int) -> Iterator[PrefixBatch]:
    """All prompts (token ids, none empty) in batches that read at most `tokens` tokens; a prompt of more makes a batch of its own."""
    ids_N = [np.asarray(prompt, dtype=np.int32) for prompt in prompts]
    batch = _Batch()
    for row in _in_order(ids_N):
        shared = batch.shared_with(ids_N[row])
        if batch.rows and not batch.has_room(len(ids_N[row]), shared, tokens):
            yield batch.done()
            batch, shared = _Batch(), 0
        batch.add(row, ids_N[row], shared)
    if batch.rows:
        yield batch.done()


def _in_order(ids_N: Sequence[NDArray[np.int32]]) -> Iterator[int]:
    """Rows in lexicographic order, by some tokens at a time: keys of whole prompts would be a second copy of all of them."""
    waiting = [(list(range(len(ids_N))), 0)]
    while waiting:
        rows, start = waiting.pop()
        keys = {row: ids_N[row][start : start + SORTED_BY].astype(">i4").tobytes() for row in rows}
        groups = [list(group) for _, group in groupby(sorted(rows, key=keys.__getitem__), keys.__getitem__)]
        if len(groups) == 1 and (len(rows) == 1 or len(keys[rows[0]]) < 4 * SORTED_BY):
            yield from groups[0]  # one prompt, or twins
        else:
            waiting.extend((group, start + SORTED_BY * (len(group) > 1)) for group in reversed(groups))


class _Batch:
    """Prompts in lexicographic order."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.ids: list[NDArray[np.int32]] = []
        self.slots: list[NDArray[np.int64]] = []
        self.shared: list[int] = []
        self.tokens = self.keys = 0

    def shared_with(self, ids: NDArray[np.int32]) -> int:
        """Tokens that a prompt has in common with the last one."""
        if not self.rows:
            return 0
        last, most = self.ids[-1], min(len(self.ids[-1]), len(ids))
        differs = last[:most] != ids[:most]
        first = int(differs.argmax()) if most else 0
        return first if most and differs[first] else most

    def has_room(self, length: int, shared: int, tokens: int) -> bool:
        return self.tokens + length - shared <= tokens and self.keys + length <= KEYS_PER_TOKEN * tokens

    def add(self, row: int, ids: NDArray[np.int32], shared: int) -> None:
        new = np.arange(self.tokens, self.tokens + len(ids) - shared)
        self.slots.append(np.concatenate([self.slots[-1][:shared], new]) if shared else new)
        self.rows.append(row)
        self.ids.append(ids)
        self.shared.append(shared)
        self.tokens += len(new)
        self.keys += len(ids)

    def done(self) -> PrefixBatch:
        length_N = np.array([len(ids) for ids in self.ids])
        shared_N = np.array(self.shared)
        return PrefixBatch(
            np.array(self.rows),
            np.concatenate([ids[shared:] for ids, shared in zip(self.ids, self.shared, strict=True)]).astype(np.int64),
            np.concatenate([np.arange(shared, len(ids)) for ids, shared in zip(self.ids, self.shared, strict=True)]),
            length_N - shared_N,
            length_N,
            np.concatenate(self.slots) if shared_N.any() else None,
        )
