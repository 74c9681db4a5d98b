"""Documents side by side in rows of one length, so that a row has hardly any padding and few documents are cut.

Best fit, longest first: a document goes where it leaves the least room. Long ones therefore start their row, as a prompt
does, and short ones fill it up.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
