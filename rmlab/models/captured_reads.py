"""Readings of a few tokens in many conversations as CUDA graphs: kernel by kernel they cost their launches, whatever their size.

A reading is padded to one of few shapes. A shape that comes for the first time is launched kernel by kernel, which also warms
the libraries up; when it comes again it is captured, from then on it is one launch.
"""

from typing import Any

import torch

from rmlab.models.generation_cache import SPAN, CachedDecoder, spanned

ROWS, WIDTHS = (16, 64, 128, 256, 512), (8, 16, 32, 64)
"""Shapes that are captured. What is wider costs its arithmetic, not its launches."""
SPANS = 2 * SPAN
Shape = tuple[int, int, int]  # rows, width, span
Given = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]  # ids_NT, row_N, start_N, length_N


class CapturedReads:
    """`CachedDecoder.read` on a CUDA device. capture: False pads all the same and captures nothing, which any device can do."""

    def __init__(self, cached: CachedDecoder, capture: bool = True):
        self.cached, self.capture = cached, capture
        self._known: dict[Shape, tuple[torch.cuda.CUDAGraph, Given] | None] = {}  # None: seen once
        self._pool: Any = None

    def read(
        self, ids_NT: torch.Tensor, row_N: torch.Tensor, start_N: torch.Tensor, length_N: torch.Tensor, span: int
    ) -> None:
        """See `CachedDecoder.read`."""
        rows = next((n for n in ROWS if n >= ids_NT.shape[0]), None)
        width = next((n for n in WIDTHS if n >= ids_NT.shape[1]), None)
        if rows is None or width is None:
            self.cached.read(ids_NT, row_N, start_N, length_N, span)
            return
        shape = rows, width, min(spanned(span, SPANS), self.cached.positions)
        given = _padded(ids_NT, rows, width), _padded(row_N, rows), _padded(start_N, rows), _padded(length_N, rows)
        known = self._known.get(shape)
        if known is None:
            if shape in self._known and self.capture:
                known = self._known[shape] = self._captured(given, shape[2])
            else:
                self._known[shape] = None
                self.cached.read(*given, shape[2])
                return
        graph, held = known
        for place, one in zip(held, given, strict=True):
            place.copy_(one)
        graph.replay()

    def _captured(self, given: Given, span: int) -> tuple[torch.cuda.CUDAGraph, Given]:
        held = given[0].clone(), given[1].clone(), given[2].clone(), given[3].clone()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            self.cached.read(*held, span)
        self._pool = self._pool or graph.pool()
        return graph, held


def _padded(values: torch.Tensor, rows: int, width: int | None = None) -> torch.Tensor:
    """Rows (and columns) of zeros behind: conversations of no length, in slot 0."""
    whole = values.new_zeros((rows,) if width is None else (rows, width))
    whole[: len(values)] = values if width is None else torch.nn.functional.pad(values, (0, width - values.shape[1]))
    return whole
