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

from rmlab.models.attention import sent
from rmlab.models.decoder import SPAN, TOGETHER, CachedDecoder, Places
from rmlab.models.lora import has_adapters, merged_weights, plain_model

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
        self.reads = CapturedReads(self.cached, graphs)
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
        self.position_B.index_fill_(0, rows, 0)
        firsts: dict[tuple[int, ...], int] = {}
        first_N = [firsts.setdefault(tuple(known), n) for n, known in enumerate(known_N)]
        read = list(firsts.values())
        self.append([slot_N[n] for n in read], [0] * len(read), [known_N[n] for n in read])
        copied = [n for n, first in enumerate(first_N) if first != n]
        if copied:
            of, to = (self._sent([slot_N[n] for n in which]) for which in ([first_N[n] for n in copied], copied))
            self.ids_BS[to], self.position_B[to] = self.ids_BS[of], self.position_B[of]
            self.cached.copy(of, to, max(len(known_N[n]) for n in copied))

    @torch.inference_mode()
    def append(self, slot_N: Sequence[int], end_N: Sequence[int], new_N: Sequence[Sequence[int]]) -> None:
        """Appends tokens to conversations of `end` tokens each and reads all but the last, which the next step reads."""
        longest = max(len(new) for new in new_N)
        ids_NT = np.zeros((len(slot_N), longest), dtype=np.int64)
        place_NT = np.full((len(slot_N), longest), self.capacity, dtype=np.int64)
        for n, (end, new) in enumerate(zip(end_N, new_N, strict=True)):
            ids_NT[n, : len(new)] = new
            place_NT[n, : len(new)] = np.arange(end, end + len(new))
        rows = self._sent(slot_N)
        self.ids_BS[rows[:, None], self._sent(place_NT)] = self._sent(ids_NT)
        begin_N = np.maximum(np.asarray(end_N) - 1, 0)  # the last token that was said is not read yet
        last_N = np.array([end + len(new) - 1 for end, new in zip(end_N, new_N, strict=True)])
        self.position_B[rows] = self._sent(last_N)
        width_N = last_N - begin_N
        if not width_N.any():
            return
        if self.cached.fused:
            self.reads.read(self.ids_BS, np.asarray(slot_N), begin_N, width_N)
            return
        start_N = self._sent(begin_N)
        column_NT = (start_N[:, None] + torch.arange(int(width_N.max()), device=self.device)).clamp(max=self.capacity)
        span = self.cached.span(int(last_N.max()) + 1)
        self.cached.read(self.ids_BS[rows].gather(1, column_NT), rows, start_N, self._sent(width_N), span)

    @torch.inference_mode()
    def activate(self, slot_N: Sequence[int], last_N: Sequence[int], temperature_N: Sequence[float]) -> None:
        """Lets slots speak, up to the position `last` at most. temperature 0: the likeliest token."""
        rows = self._sent(slot_N)
        self.last_B[rows] = self._sent(last_N)
        self.temperature_B[rows] = self._sent(np.asarray(temperature_N, dtype=np.float32))
        self.active_B.index_fill_(0, rows, True)  # a number that is assigned would be copied, and waited for

    @property
    def narrowest(self) -> int:
        """As few slots are decoded at once, where there are so many."""
        return CAPTURED_NARROWEST if self.graphs else NARROWEST

    def width(self, highest_slot: int) -> int:
        """How many slots a step decodes, whether they speak or not. highest_slot: of those that speak."""
        return min(max(self.narrowest, 1 << highest_slot.bit_length()), self.slots)

    @torch.inference_mode()
    def move(self, from_N: Sequence[int], to_N: Sequence[int], tokens: int) -> None:
        """Lets conversations go on in other slots, which are free. tokens: of the longest of them."""
        of, to = self._sent(from_N), self._sent(to_N)
        for held_B in (
            self.ids_BS,
            self.logprob_BS,
            self.uniform_BS,
            self.position_B,
            self.last_B,
            self.temperature_B,
            self.active_B,
        ):
            held_B[to] = held_B[of]
        self.cached.copy(of, to, tokens)
        self.active_B.index_fill_(0, of, False)

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
        width = self.width(highest_slot)
        span = self.cached.span(farthest + steps + 1, CAPTURED_SPAN if self.graphs else SPAN)
        for _ in range(steps):
            self._step(width, span)

    def state(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """active_B and position_B once the device is done."""
        return self.active_B.cpu().numpy(), self.position_B.cpu().numpy()

    @torch.inference_mode()
    def drawn(self, slot_N: Sequence[int], first: int, end: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
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


SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
"""Tokens that are read at once by graphs. What is more costs its arithmetic, not its launches."""


class CapturedReads:
    """`CachedDecoder.read_places` by CUDA graphs. capture: False pads all the same and captures nothing."""

    def __init__(self, cached: CachedDecoder, capture: bool):
        self.cached, self.capture = cached, capture
        self._known: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor] | None] = {}  # None: seen once
        self._pool: Any = None

    def read(
        self, ids_BS: torch.Tensor, slot_N: NDArray[np.int64], begin_N: NDArray[np.int64], width_N: NDArray[np.int64]
    ) -> None:
        """Reads of slots slot_N the width_N tokens of ids_BS that stand at positions from begin_N on."""
        room_N = -(-width_N // TOGETHER) * TOGETHER
        offset_M = np.arange(room_N.sum()) - np.repeat(np.cumsum(room_N) - room_N, room_N)
        slot_M = np.repeat(slot_N, room_N)
        position_M = np.where(offset_M < np.repeat(width_N, room_N), np.repeat(begin_N, room_N) + offset_M, -1)
        size = next((n for n in SIZES if n >= len(slot_M)), len(slot_M))
        place_2M = np.zeros((2, size), dtype=np.int64)
        place_2M[1] = -1
        place_2M[:, : len(slot_M)] = slot_M, position_M
        given_2M = sent(torch.from_numpy(place_2M), ids_BS.device)
        if size not in SIZES or not self.capture or size not in self._known:
            self._known.setdefault(size, None)
            self._read(ids_BS, given_2M)
            return
        known = self._known[size] or self._captured(ids_BS, given_2M)
        graph, held_2M, _ = self._known[size] = known
        held_2M.copy_(given_2M)
        graph.replay()

    def _read(self, ids_BS: torch.Tensor, place_2M: torch.Tensor) -> torch.Tensor:
        slot_M, position_M = place_2M
        return self.cached.read_places(ids_BS[slot_M, position_M], Places(slot_M, position_M, TOGETHER))

    def _captured(
        self, ids_BS: torch.Tensor, given_2M: torch.Tensor
    ) -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
        held_2M = given_2M.clone()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            hidden_MH = self._read(ids_BS, held_2M)
        self._pool = self._pool or graph.pool()
        return graph, held_2M, hidden_MH
