"""Which examples does each optimiser step see? A plan that follows from the lengths and the seed alone.

Every epoch shuffles all examples, cuts them into windows of a few batches, sorts each window by length and cuts it into
batches: a batch then holds examples of like length (little padding), which examples meet is still random, and every
example is seen once an epoch. The order of batches is shuffled again, so that length and learning rate are unrelated.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from rmlab.errors import UsageError
from rmlab.training.config import Match, TrainingConfig

WINDOW_BATCHES = 16


class Item(Protocol):
    """What a loss is summed over. tokens: that are read for it. content: everything that decides what it teaches."""

    @property
    def tokens(self) -> int: ...
    def content(self) -> str: ...


Sized = TypeVar("Sized", bound=Item)


def total_steps(examples: int, config: TrainingConfig) -> int:
    """Optimiser steps of a run over `examples` examples. match=steps: as many as for `reference_scale` examples."""
    counted = config.reference_scale if config.match is Match.steps else examples
    whole, part = divmod(config.epochs, 1)
    steps = int(whole) * math.ceil(counted / config.batch_size) + math.ceil(round(part * counted) / config.batch_size)
    if steps < 1:
        raise UsageError(f"training.epochs={config.epochs} over {counted} examples gives no optimiser step: raise it")
    return steps


def plan_batches(lengths: Sequence[int], config: TrainingConfig, seed: int) -> list[list[int]]:
    """Example indices of each optimiser step, in order of training; within a step sorted by length.

    lengths: tokens of each example. The last epoch is cut where the steps are used up: by examples drawn at random under
    match=epochs, between batches under match=steps.
    """
    steps = total_steps(len(lengths), config)
    length_N = np.asarray(lengths)
    plan: list[list[int]] = []
    epoch = 0
    while len(plan) < steps:
        left = config.epochs - epoch
        share = min(left, 1.0) if config.match is Match.epochs else 1.0
        plan.extend(_epoch(length_N, share, config.batch_size, np.random.default_rng([seed, epoch])))
        epoch += 1
    return plan[:steps]


def _epoch(length_N: np.ndarray, share: float, batch_size: int, rng: np.random.Generator) -> list[list[int]]:
    order = rng.permutation(len(length_N))[: round(share * len(length_N))]
    window = WINDOW_BATCHES * batch_size
    batches = []
    for start in range(0, len(order), window):
        part = order[start : start + window]
        part = part[np.argsort(length_N[part], kind="stable")]
        batches += [part[i : i + batch_size].tolist() for i in range(0, len(part), batch_size)]
    return [batches[i] for i in rng.permutation(len(batches))]


def batches_by_tokens(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Indices in batches of like length whose padded size is at most `batch_tokens` (a longer one stands alone)."""
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        widest = lengths[batches[-1][0]] if batches else 0
        if batches and widest * (len(batches[-1]) + 1) <= batch_tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def even_parts(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Indices in the fewest parts, nearly equal in tokens, of which none but a single long one has more than `most` tokens."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    count = max(math.ceil(sum(lengths) / most), 1)
    while True:
        parts: list[list[int]] = [[] for _ in range(count)]
        sums = [0] * count
        for row in order:
            emptiest = sums.index(min(sums))
            parts[emptiest].append(row)
            sums[emptiest] += lengths[row]
        if all(total <= most or len(part) == 1 for part, total in zip(parts, sums, strict=True)):
            return [part for part in parts if part]
        count += 1


def micro_batches(
    batch: Sequence[Sized], size: int, tokens: int | None = None, packed: bool = False
) -> list[list[Sized]]:
    """A batch in the parts that are read at once: `size` examples each, or as many as make `tokens` tokens.

    These are padded ones, of examples of like length; or where examples are packed, their own.
    """
    if tokens is None:
        return [list(batch[start : start + size]) for start in range(0, len(batch), size)]
    cut = even_parts if packed else batches_by_tokens
    return [[batch[row] for row in rows] for rows in cut([item.tokens for item in batch], tokens)]


@dataclass(frozen=True)
class SFTExample:
    """One conversation to imitate. ids_T: what is read. loss_mask_T: True where the loss lies; never at the first position."""

    ids_T: NDArray[np.int32]
    loss_mask_T: NDArray[np.bool_]

    @property
    def tokens(self) -> int:
        """Of the conversation."""
        return len(self.ids_T)

    def content(self) -> str:
        """Ids and mask as text."""
        return f"{self.ids_T.tobytes().hex()} {self.loss_mask_T.tobytes().hex()}"


IGNORED = -100
"""The target of a position whose next token is not asked for: of another document, or of padding."""


@dataclass(frozen=True)
class Rows:
    """ids_RT and target_RT: R rows of T tokens; target = the next id of the same document, else IGNORED."""

    ids_RT: NDArray[np.int32]
    target_RT: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids_RT)

    @property
    def tokens(self) -> int:
        """Positions whose next token is asked for."""
        return int((self.target_RT != IGNORED).sum())

    def content(self) -> str:
        """Everything that decides what the rows teach, as one short text."""
        return hashlib.sha256(self.ids_RT.tobytes() + self.target_RT.tobytes()).hexdigest()


def pack(documents: Sequence[Sequence[int]], context: int, pad_id: int, last_only: bool = False) -> Rows:
    """Rows of `context` tokens. A longer document is cut into pieces, each with targets of its own.

    last_only: of each document only the last token is asked for, which is the answer to what stands before it.
    """
    pieces = [
        doc[start : start + context + 1] for doc in documents for start in range(0, max(len(doc) - 1, 1), context)
    ]
    room_of: dict[int, list[int]] = defaultdict(list)  # room left -> rows
    rooms = 0  # bit r is set where a row with room r is there
    rows: list[list[Sequence[int]]] = []
    for piece in sorted(pieces, key=len, reverse=True):
        size = min(len(piece), context)
        fitting = rooms >> size
        if fitting:
            room = size + (fitting & -fitting).bit_length() - 1
            row = room_of[room].pop()
            if not room_of[room]:
                rooms &= ~(1 << room)
        else:
            room, row = context, len(rows)
            rows.append([])
        rows[row].append(piece)
        room_of[room - size].append(row)
        rooms |= 1 << (room - size)
    ids_RT = np.full((len(rows), context), pad_id, dtype=np.int32)
    target_RT = np.full((len(rows), context), IGNORED, dtype=np.int32)
    for ids, target, row_pieces in zip(ids_RT, target_RT, rows, strict=True):
        at = 0
        for piece in row_pieces:
            size = min(len(piece), context)
            ids[at : at + size] = piece[:size]
            first = len(piece) - 2 if last_only else 0
            target[at + first : at + len(piece) - 1] = piece[1 + first :]
            at += size
    return Rows(ids_RT, target_RT)
