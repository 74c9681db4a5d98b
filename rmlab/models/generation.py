"""Decoding in slots: which token comes next in each of many conversations that start, stop and read at different times.

A slot holds one conversation: its ids, how far they are read, and the random numbers of its own that its tokens are drawn
with. A token is the first one at which the cumulated probability exceeds the number that belongs to its position, so what
is drawn depends on the conversation and not on its neighbours, the device's random state or the order of slots.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rmlab.models.decoder import SPAN, CachedDecoder, spanned
from rmlab.models.lora import has_adapters, merged_weights, plain_model
from rmlab.models.packed import sent

NARROWEST = 8  # as few slots are decoded at once, or twice, four times, ... as many
CAPTURED_NARROWEST, CAPTURED_SPAN = (
    64,
    2 * SPAN,
)  # by graphs: each takes a good part of a second to capture, a wider step hardly any time


class SlotDecoder:
    """Slots of one model on one device.

    model: the weights that are trained, anywhere, with or without adapters. dtype: of the weights that act; where the model's own
    are plain and lie in the same arithmetic on the same device they act themselves, else a copy does that `refresh` renews.
    stop_id: ends a message. graphs: decode by CUDA graphs.
    """

    def __init__(
        self, model: Any, slots: int, capacity: int, stop_id: int, device: str, dtype: torch.dtype, graphs: bool
    ):
        self.source, self.graphs, self.slots, self.capacity, self.stop_id = model, graphs, slots, capacity, stop_id
        weight = model.get_input_embeddings().weight
        self.device = torch.device(device)
        if weight.dtype == dtype and weight.device.type == self.device.type and not has_adapters(model):
            self.acting: Any = model
        else:
            self.acting = empty_like(model, self.device, dtype)
            self.refresh()
        self.cached = CachedDecoder(
            self.acting, slots, capacity, joined=self.acting is not model and self.device.type == "cuda"
        )
        self.read = CapturedReads(self.cached).read if graphs else self.cached.read
        self.ids_BS = torch.zeros((slots, capacity + 1), dtype=torch.int64, device=self.device)
        self.logprob_BS = torch.zeros((slots, capacity + 1), device=self.device)
        self.uniform_BS = torch.zeros((slots, capacity + 1), device=self.device)
        self.position_B = torch.zeros(
            slots, dtype=torch.int64, device=self.device
        )  # the last known token; it is not read yet
        self.last_B = torch.zeros(slots, dtype=torch.int64, device=self.device)  # where the message ends at the latest
        self.active_B = torch.zeros(slots, dtype=torch.bool, device=self.device)
        self.temperature_B = torch.ones(slots, device=self.device)  # 0: the likeliest token
        self._captured: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}
        self._pool: Any = None

    @torch.no_grad()
    def refresh(self) -> None:
        """Takes the trained weights again. The copy is written in place: captured graphs go on to hold."""
        if self.acting is self.source:
            return
        mine = dict(self.acting.named_parameters())
        for name, theirs in merged_weights(self.source):
            mine.pop(name).copy_(theirs)
        assert not mine, f"weights that the trained model does not have: {', '.join(mine)}"

    @torch.inference_mode()
    def put(
        self, slot_N: Sequence[int], known_N: Sequence[Sequence[int]], uniform_NS: Sequence[NDArray[np.float32]]
    ) -> None:
        """Opens conversations in slots with the random numbers of each (one a position). known: tokens of the prompt.

        What is the same in several (attempts at one task) is read once and copied.
        """
        rows = self._sent(slot_N)
        self.uniform_BS[rows] = self._sent(np.stack(uniform_NS))
        self.position_B[rows] = 0
        firsts: dict[tuple[int, ...], int] = {}
        first_N = [firsts.setdefault(tuple(known), n) for n, known in enumerate(known_N)]
        read = list(firsts.values())
        self.tell([slot_N[n] for n in read], [0] * len(read), [known_N[n] for n in read])
        copied = [n for n, first in enumerate(first_N) if first != n]
        if copied:
            of, to = (self._sent([slot_N[n] for n in which]) for which in ([first_N[n] for n in copied], copied))
            self.ids_BS[to], self.position_B[to] = self.ids_BS[of], self.position_B[of]
            self.cached.copy(of, to, max(len(known_N[n]) for n in copied))

    @torch.inference_mode()
    def tell(self, slot_N: Sequence[int], end_N: Sequence[int], told_N: Sequence[Sequence[int]]) -> None:
        """Appends tokens to conversations of `end` tokens each and reads all but the last, which the next step reads."""
        longest = max(len(told) for told in told_N)
        ids_NT = np.zeros((len(slot_N), longest), dtype=np.int64)
        place_NT = np.full((len(slot_N), longest), self.capacity, dtype=np.int64)
        for n, (end, told) in enumerate(zip(end_N, told_N, strict=True)):
            ids_NT[n, : len(told)] = told
            place_NT[n, : len(told)] = np.arange(end, end + len(told))
        rows = self._sent(slot_N)
        self.ids_BS[rows[:, None], self._sent(place_NT)] = self._sent(ids_NT)
        start_N = self.position_B[rows]
        total_N = self._sent([end + len(told) for end, told in zip(end_N, told_N, strict=True)])
        first = [max(end - 1, 0) for end in end_N]  # the last token that was said is not read yet
        width = max(end + len(told) - 1 - begin for end, told, begin in zip(end_N, told_N, first, strict=True))
        self.position_B[rows] = total_N - 1
        if width < 1:
            return
        column_NT = (start_N[:, None] + torch.arange(width, device=self.device)).clamp(max=self.capacity)
        span = spanned(max(end + len(told) for end, told in zip(end_N, told_N, strict=True)))
        self.read(self.ids_BS[rows].gather(1, column_NT), rows, start_N, total_N - 1 - start_N, span)

    @torch.inference_mode()
    def ask(self, slot_N: Sequence[int], last_N: Sequence[int], temperature_N: Sequence[float]) -> None:
        """Lets slots speak, up to the position `last` at most. temperature 0: the likeliest token."""
        rows = self._sent(slot_N)
        self.last_B[rows] = self._sent(last_N)
        self.temperature_B[rows] = self._sent(np.asarray(temperature_N, dtype=np.float32))
        self.active_B[rows] = True

    @torch.inference_mode()
    def decode(self, steps: int, highest_slot: int, farthest: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Draws `steps` tokens in every slot that speaks; returns active_B and position_B behind them. See `begin`."""
        self.begin(steps, highest_slot, farthest)
        return self.state()

    @torch.inference_mode()
    def begin(self, steps: int, highest_slot: int, farthest: int) -> None:
        """Lets the device draw `steps` tokens in every slot that speaks, and does not wait for it.

        highest_slot: of those that speak. farthest: the largest position among them now.
        """
        narrowest, unit = (CAPTURED_NARROWEST, CAPTURED_SPAN) if self.graphs else (NARROWEST, SPAN)
        width = min(max(narrowest, 1 << highest_slot.bit_length()), self.slots)
        span = self.cached.span(farthest + steps + 1, unit)
        for _ in range(steps):
            self._step(width, span)

    def state(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """active_B and position_B once the device is done."""
        return self.active_B.cpu().numpy(), self.position_B.cpu().numpy()

    @torch.inference_mode()
    def said(self, slot_N: Sequence[int], first: int, end: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """ids_NT and logprob_NT of slots at the positions from `first` up to `end` (not included)."""
        rows = self._sent(slot_N)
        return self.ids_BS[rows, first:end].cpu().numpy(), self.logprob_BS[rows, first:end].cpu().numpy()

    def _sent(self, values: Sequence[int] | NDArray[Any]) -> torch.Tensor:
        return sent(torch.as_tensor(values), self.device)

    def _step(self, width: int, span: int) -> None:
        if not self.graphs:
            self._draw(width, span)
            return
        key = (width, span)
        if key not in self._captured:
            self._captured[key] = self._capture(*key)
        self._captured[key].replay()

    def _capture(self, width: int, span: int) -> torch.cuda.CUDAGraph:
        """One step as a graph. While it warms up no slot speaks: a step then changes nothing."""
        active_B = self.active_B.clone()
        self.active_B.fill_(False)
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch does not type it
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._draw(width, span)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            self._draw(width, span)
        self._pool = self._pool or graph.pool()
        self.active_B.copy_(active_B)
        return graph

    def _draw(self, width: int, span: int) -> None:
        """One token in each of the first `width` slots; those that do not speak keep everything as it is."""
        position_W, active_W, ids_WS = self.position_B[:width], self.active_B[:width], self.ids_BS[:width]
        logprob_WS = self.logprob_BS[:width]
        logits_WV = self.cached.step(ids_WS.gather(1, position_W[:, None])[:, 0], position_W, span, active_W)
        if self.cached.fused:
            from rmlab.models import decoder_kernels

            decoder_kernels.draw(
                logits_WV,
                self.ids_BS,
                self.logprob_BS,
                self.uniform_BS,
                self.position_B,
                self.last_B,
                self.active_B,
                self.temperature_B,
                self.stop_id,
            )
            return
        next_W1 = position_W[:, None] + 1
        temperature_W1 = self.temperature_B[:width, None]
        greedy_W1 = temperature_W1 == 0
        logprob_WV = torch.log_softmax(
            logits_WV / (temperature_W1 + greedy_W1), dim=-1
        )  # a number in torch.where would be copied there
        reached_WV = logprob_WV.exp().cumsum(-1)
        drawn_W1 = self.uniform_BS[:width].gather(1, next_W1) * reached_WV[:, -1:]
        sampled_W1 = torch.searchsorted(reached_WV, drawn_W1, right=True).clamp(max=logits_WV.shape[1] - 1)
        token_W1 = torch.where(greedy_W1, logits_WV.argmax(-1, keepdim=True), sampled_W1)
        speaks_W1 = active_W[:, None]
        ids_WS.scatter_(1, next_W1, torch.where(speaks_W1, token_W1, ids_WS.gather(1, next_W1)))
        logprob_W1 = torch.where(speaks_W1, logprob_WV.gather(1, token_W1), logprob_WS.gather(1, next_W1))
        logprob_WS.scatter_(1, next_W1, logprob_W1)
        position_W += active_W
        active_W &= (token_W1[:, 0] != self.stop_id) & (position_W < self.last_B[:width])


def empty_like(model: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """A model of the same architecture, without adapters, for weights to be copied to."""
    if not has_adapters(model):
        made = copy.deepcopy(model)
    else:
        plain = plain_model(model)
        with torch.random.fork_rng(devices=[]):
            made = type(plain)(copy.deepcopy(plain.config))
    made.to(device).eval()
    for (
        parameter
    ) in made.parameters():  # and no buffer: frequencies of rotary positions in bfloat16 are wrong by radians far out
        parameter.data = parameter.data.to(dtype)
    return made


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
        shape = rows, width, self.cached.span(span, SPANS)
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
