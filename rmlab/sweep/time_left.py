"""When will a sweep be done?

The time left follows from how long finished cells took, how fast running cells are, and how many run at once. A cell is expected to
take as long as the cells of its own group (same level and arm, another seed). If none of its group has finished, a line is fitted
through the known times, over the work in a cell (the trajectories that it is trained on).
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FIXED = 0.5
"""Of what a cell takes, what does not grow with its work (start, scoring): a guess, for as long as one level alone is known."""


@dataclass(frozen=True)
class CellTime:
    """What is known of the time of one cell. Times in seconds.

    group: cells of one group are expected to take alike. work: in any unit. took: of a cell that has finished. elapsed: of one
    that runs, None = it has not begun. left: of the stage that it is in, by its own rate, None = it has no rate yet.
    """

    group: str
    work: float
    took: float | None = None
    elapsed: float | None = None
    left: float | None = None


def seconds_left(cells: Sequence[CellTime], workers: int) -> float | None:
    """Time until the last cell ends. cells: those that wait in the order in which they start. None while nothing is known."""
    known = _known(cells)
    if not known:
        return None
    left = []
    for cell in cells:
        if cell.took is None and cell.elapsed is not None:
            left.append(max(_expected(cell, known) - cell.elapsed, cell.left or 0.0))
    free = heapq.nsmallest(workers, left) if len(left) > workers else left + [0.0] * (workers - len(left))
    heapq.heapify(free)
    last = max(left, default=0.0)
    for cell in cells:
        if cell.took is None and cell.elapsed is None:
            ends = heapq.heappop(free) + _expected(cell, known)
            heapq.heappush(free, ends)
            last = max(last, ends)
    return last


def seconds_of(cell: CellTime, cells: Sequence[CellTime]) -> float | None:
    """Time that one cell takes as a whole. cells: all of the sweep. None while nothing is known."""
    known = _known(cells)
    return _expected(cell, known) if known else None


def _known(cells: Sequence[CellTime]) -> list[tuple[str, float, float]]:
    """Group, work and seconds of cells whose time is known."""
    known = [(c.group, c.work, c.took) for c in cells if c.took is not None]
    if not known:  # a cell that runs has further stages (scoring): it says how long one takes only until one has ended
        known = [(c.group, c.work, c.elapsed + c.left) for c in cells if c.elapsed is not None and c.left is not None]
    return known


def _expected(cell: CellTime, known: Sequence[tuple[str, float, float]]) -> float:
    """Seconds that a whole cell takes."""
    alike = [seconds for group, _, seconds in known if group == cell.group]
    if alike:
        return float(np.mean(alike))
    work_N, seconds_N = np.array([work for _, work, _ in known]), np.array([seconds for _, _, seconds in known])
    if len(set(work_N)) == 1:
        return float(seconds_N.mean() * (FIXED + (1 - FIXED) * cell.work / work_N[0]))
    slope, start = np.polyfit(work_N, seconds_N, 1)
    # Between what is known and beyond it, but never less than nothing: noise among alike cells can turn the line over.
    return float(max(start + slope * cell.work, seconds_N.min() * min(1.0, cell.work / work_N.min())))
