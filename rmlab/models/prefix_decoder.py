"""The hidden state behind the last token of many prompts, without padding, each common prefix read once.

The layers' matrices are the model's own, in the arithmetic that is asked for; the residual stream and the norms are float32 in
any, as under autocast. Layer by layer over all tokens: only one layer's keys and values are held at a time, and what is wider
than the hidden state is made for some tokens at a time, so that memory beyond the weights is a few hidden states.
Of the last layer only what the answers' positions need is computed.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from shutil import which
from typing import Any

import torch
from torch.nn.functional import linear, rms_norm, silu

from rmlab.models.attention import Segments, attend, sent
from rmlab.models.layer import LayerParts, has_plain_matrices, joined, rotated_at_once, signed
from rmlab.models.packed import packs
from rmlab.models.prefixes import PARTS_BYTES, PrefixBatch


def can_share(model: Any) -> bool:
    """Whether a causal language model's decoder is one that is known here: full attention, plain matrices, SiLU gates."""
    return packs(model) and has_plain_matrices(model.get_decoder())


def can_fuse(device: Any) -> bool:
    """Whether torch.compile can make kernels for a device: it needs Triton and a C compiler."""
    compilers = ("cc", "gcc", "clang")
    return torch.device(device).type == "cuda" and find_spec("triton") is not None and any(map(which, compilers))


def prefix_last_hidden(model: Any, batch: PrefixBatch, dtype: torch.dtype, fused: bool = False) -> torch.Tensor:
    """hidden_NH in float32 behind the last token of each of the batch's prompts, after the final norm; of models that `can_share`.

    dtype: arithmetic of matrix products and attention. fused: element-wise work is compiled (torch.compile; `can_fuse`), once a
    process and shape of model.
    """
    decoder = model.get_decoder()
    device = decoder.embed_tokens.weight.device
    with torch.autocast(device.type, enabled=False):
        return _last_hidden(decoder, _Placed(batch, device), dtype, _fused if fused else _plain)


class _Placed:
    """A batch on a device. between, slot_B: of the prompts that have tokens of their own. answers, slot_S: of all, with their last
    token alone."""

    def __init__(self, batch: PrefixBatch, device: Any) -> None:
        def placed(array: Any) -> torch.Tensor:
            return sent(torch.from_numpy(array), device)

        self.ids_T, self.position_T, self.last_N = placed(batch.ids_T), placed(batch.position_T), placed(batch.last_N)
        own_N = batch.read_N > 0
        self.between = Segments.of(batch.read_N[own_N].tolist(), batch.length_N[own_N].tolist(), device)
        self.answers = Segments.of([1] * len(own_N), batch.length_N.tolist(), device)
        self.slot_S = self.slot_B = None if batch.slot_S is None else placed(batch.slot_S)
        if batch.slot_S is not None and not own_N.all():
            self.slot_B = placed(batch.slot_S[own_N.repeat(batch.length_N)])


def _last_hidden(decoder: Any, placed: _Placed, dtype: torch.dtype, step: Callable[..., Any]) -> torch.Tensor:
    stream_TH = decoder.embed_tokens(placed.ids_T).float()
    cosine_1TD, sine_1TD = decoder.rotary_emb(stream_TH[None, :1], placed.position_T[None])
    cosine_TD, sine_TD = cosine_1TD[0], signed(sine_1TD[0])
    *layers, final = (_Layer(layer, dtype) for layer in decoder.layers)
    added_TH = None
    for layer in layers:
        stream_TH, normed_TH = step(_added_and_normed, stream_TH, added_TH, *layer.norm_before, dtype)
        query_TQD, pair_T2KD = layer.projected(normed_TH, cosine_TD, sine_TD, step)
        mixed_TQD = layer.mixed(query_TQD, pair_T2KD, placed.slot_B, placed.between)
        del normed_TH, query_TQD, pair_T2KD
        stream_TH, added_TH = layer.fed_forward(stream_TH, mixed_TQD, step)
        del mixed_TQD
    stream_TH, normed_TH = _plain(_added_and_normed, stream_TH, added_TH, *final.norm_before, dtype)
    _, pair_T2KD = final.projected(normed_TH, cosine_TD, sine_TD, step)
    last_N = placed.last_N
    query_NQD, _ = final.projected(normed_TH[last_N], cosine_TD[last_N], sine_TD[last_N], _plain)
    mixed_NQD = final.mixed(query_NQD, pair_T2KD, placed.slot_S, placed.answers)
    stream_NH, added_NH = final.fed_forward(stream_TH[last_N], mixed_NQD, _plain)
    hidden_NH: torch.Tensor = _added_and_normed(stream_NH, added_NH, *_norm(decoder.norm), torch.float32)[1]
    return hidden_NH


class _Layer(LayerParts):
    """A layer of the model, its matrices in the arithmetic of this pass; they are joined and converted when they are used."""

    def __init__(self, layer: Any, dtype: torch.dtype) -> None:
        super().__init__(layer)
        self.dtype = dtype
        self.norm_before, self.norm_between = _norm(self.input_norm), _norm(self.feed_forward_norm)

    def projected(
        self, normed_TH: torch.Tensor, cosine_TD: torch.Tensor, sine_TD: torch.Tensor, step: Callable[..., Any]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Turned queries_TQD; turned keys and values side by side, pair_T2KD."""
        matrix, bias = joined(self.projections, self.dtype)
        of_heads = self.head_norms
        norms = (*_norm(of_heads[0]), of_heads[1].weight.float()) if of_heads else (None, 0.0, None)

        def some(normed_TH: torch.Tensor, cosine_TD: torch.Tensor, sine_TD: torch.Tensor) -> Any:
            heads_TXD = linear(normed_TH, matrix, bias).view(len(normed_TH), -1, self.head_dim)
            return step(_turned, heads_TXD, self.query_heads, *norms, cosine_TD, sine_TD)

        query_TQD, pair_T2KD = _in_parts(some, 8 * matrix.shape[0], normed_TH, cosine_TD, sine_TD)
        return query_TQD, pair_T2KD

    def mixed(
        self, query_TQD: torch.Tensor, pair_T2KD: torch.Tensor, slot_S: torch.Tensor | None, segments: Segments
    ) -> torch.Tensor:
        """What attention mixed, heads side by side. slot_S: where each sequence's keys stand; None = one behind the other."""
        pair_S2KD = pair_T2KD if slot_S is None else pair_T2KD[slot_S]
        mixed_TQD = attend(query_TQD, pair_S2KD[:, 0], pair_S2KD[:, 1], segments, self.scaling)
        return mixed_TQD.flatten(1)

    def fed_forward(
        self, stream_TH: torch.Tensor, mixed_TX: torch.Tensor, step: Callable[..., Any]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The stream behind attention, and what the feed-forward block adds to it."""
        added_TH = linear(mixed_TX, *joined([self.attention.o_proj], self.dtype))
        stream_TH, normed_TH = step(_added_and_normed, stream_TH, added_TH, *self.norm_between, self.dtype)
        del added_TH
        some, width = self._experts() if hasattr(self.mlp, "experts") else self._block(step)
        return stream_TH, _in_parts(some, width, normed_TH)[0]

    def _block(self, step: Callable[..., Any]) -> tuple[Callable[..., Any], int]:
        """The dense feed-forward block, and the bytes that it takes a token."""
        projections = self.mlp.gate_proj, self.mlp.up_proj, self.mlp.down_proj
        gate, up, down = (joined([p], self.dtype) for p in projections)

        def some(normed_TH: torch.Tensor) -> list[torch.Tensor]:
            return [linear(step(_gated, linear(normed_TH, *gate), linear(normed_TH, *up)), *down)]

        return some, 8 * gate[0].shape[0]

    def _experts(self) -> tuple[Callable[..., Any], int]:
        """The same of the model's own router and experts."""
        experts, lower = self.mlp.experts, self.dtype is not torch.float32

        def some(normed_TH: torch.Tensor) -> list[torch.Tensor]:
            with torch.autocast(normed_TH.device.type, self.dtype if lower else None, enabled=lower):
                return [self.mlp(normed_TH[None])[0]]

        return some, 2 * self.mlp.gate.top_k * (5 * experts.hidden_dim + 4 * experts.intermediate_dim)


def _in_parts(what: Callable[..., Sequence[torch.Tensor]], width: int, *given: torch.Tensor) -> Sequence[torch.Tensor]:
    """What is made of all tokens, of at most PARTS_BYTES at a time where a token takes `width` bytes."""
    tokens, size = len(given[0]), max(PARTS_BYTES // width, 1)
    if tokens <= size:
        return what(*given)
    whole: list[torch.Tensor] = []
    for start in range(0, tokens, size):
        at = slice(start, start + size)
        made = what(*(tensor[at] for tensor in given))
        whole = whole or [part.new_empty(tokens, *part.shape[1:]) for part in made]
        for all_of_it, part in zip(whole, made, strict=True):
            all_of_it[at] = part
    return whole


def _norm(norm: Any) -> tuple[torch.Tensor, float]:
    return norm.weight.float(), float(norm.variance_epsilon)


def _added_and_normed(
    stream_TH: torch.Tensor, added_TH: torch.Tensor | None, weight_H: torch.Tensor, epsilon: float, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """The stream (float32) with what a block adds to it, and its norm in `dtype`."""
    if added_TH is not None:
        stream_TH = stream_TH + added_TH
    return stream_TH, rms_norm(stream_TH, (stream_TH.shape[-1],), weight_H, epsilon).to(dtype)


def _turned(
    heads_TXD: torch.Tensor,
    queries: int,
    query_norm_D: torch.Tensor | None,
    epsilon: float,
    key_norm_D: torch.Tensor | None,
    cosine_TD: torch.Tensor,
    sine_TD: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of query, key and value heads side by side: queries_TQD and keys with values, pair_T2KD; queries and keys normed where the
    model does so, and turned by their positions (in float32)."""
    turning = (heads_TXD.shape[1] + queries) // 2  # of H heads: queries, (H - queries) / 2 keys, as many values
    states_TXD, value_TKD = heads_TXD[:, :turning], heads_TXD[:, turning:]
    if query_norm_D is not None:
        normed = (states_TXD[:, :queries], query_norm_D), (states_TXD[:, queries:], key_norm_D)
        states_TXD = torch.cat(
            [rms_norm(x.float(), query_norm_D.shape, norm_D, epsilon) for x, norm_D in normed], dim=1
        )
    turned_TXD = rotated_at_once(states_TXD, cosine_TD[:, None], sine_TD[:, None]).to(value_TKD.dtype)
    return turned_TXD[:, :queries], torch.stack([turned_TXD[:, queries:], value_TKD], dim=1)


def _gated(gate_TI: torch.Tensor, up_TI: torch.Tensor) -> torch.Tensor:
    return silu(gate_TI) * up_TI


def _plain(step: Callable[..., Any], *given: Any) -> Any:
    return step(*given)


def _fused(step: Callable[..., Any], *given: Any) -> Any:
    """The step in one kernel or two, for any number of tokens."""
    tensors = [x for x in given if isinstance(x, torch.Tensor)]
    tokens = len(tensors[0])
    if tokens < 2:
        return step(*given)
    for tensor in tensors:
        if len(tensor) == tokens:
            torch._dynamo.mark_dynamic(tensor, 0)
    return _compiled(step)(*given)


@lru_cache
def _compiled(step: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(step)
