"""A Qwen3 or Llama decoder over a static cache of keys and values: many conversations, each at a position of its own.

transformers' caches advance all rows together; conversations of an agent do not, they stop, read and go on one by one. The
weights and modules are the model's own, only attention is written here, so what it computes is the model's but for rounding.
On a CUDA device with Triton the same is done by few kernels (`rmlab.models.decoder_kernels`).
"""

import os
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention

from rmlab.errors import DataError, UsageError
from rmlab.models.heads import float_logits
from rmlab.models.layer import DENSE, LayerParts, is_dense, rotated_at_once, signed

TOGETHER = 4
"""Tokens of a conversation whose queries the kernels read together: what is read of one begins at a multiple of it."""
SPAN = 64  # positions that are looked at are a multiple of this: few shapes, and aligned for the attention kernels


class CachedDecoder:
    """The decoder of `model` with room for `slots` conversations of `capacity` tokens.

    model: a causal language model whose weights lie on the device and in the arithmetic that it shall act with. joined: see
    `DecoderLayer`; for a copy alone. At least one position more than `capacity` is there, for padding to be written to. Raises
    DataError for an architecture whose attention is another one, UsageError where the model has fewer positions.
    """

    def __init__(self, model: Any, slots: int, capacity: int, joined: bool = False):
        decoder, config = model.get_decoder(), model.config
        if not is_dense(decoder):
            raise DataError(
                f"rollouts support the decoders {' and '.join(DENSE)} with full attention, not {type(decoder).__name__}"
            )
        if capacity > config.max_position_embeddings:
            raise UsageError(
                f"capacity={capacity}: the model has {config.max_position_embeddings} positions. Lower the engine's capacity."
            )
        self.model, self.decoder, self.capacity = model, decoder, capacity
        weight = decoder.embed_tokens.weight
        self.layers = [DecoderLayer(layer, joined) for layer in decoder.layers]
        self.head_dim, self.kv_heads = self.layers[0].head_dim, self.layers[0].key_heads
        self.groups = self.layers[0].query_heads // self.kv_heads  # query heads that share a key head
        self.positions = spanned(capacity + 1)
        shape = (len(decoder.layers), slots, self.kv_heads, self.positions, self.head_dim)
        self.keys_LBKSD = torch.zeros(shape, dtype=weight.dtype, device=weight.device)
        self.values_LBKSD = torch.zeros_like(self.keys_LBKSD)
        position_1S = torch.arange(self.positions, device=weight.device)[None]
        with torch.no_grad():
            cosine_1SD, sine_1SD = decoder.rotary_emb(weight[:1][None].float(), position_1S)
        self.cosine_SD, self.sine_SD = cosine_1SD[0].contiguous(), signed(sine_1SD[0])
        self.position_S = position_1S[0]
        self.row_B = torch.arange(slots, device=weight.device)
        self.fused = joined and fusible(model, self.layers, weight.device)

    def span(self, positions: int, unit: int = SPAN) -> int:
        """What `read` and `step` are told of so many positions. The kernels see for themselves how far each conversation goes."""
        return self.positions if self.fused else min(spanned(positions, unit), self.positions)

    def read(
        self, ids_NT: torch.Tensor, row_N: torch.Tensor, start_N: torch.Tensor, length_N: torch.Tensor, span: int
    ) -> None:
        """Reads length_N tokens in each of the slots row_N from position start_N on. ids_NT is right-padded.

        span: positions that are looked at, at least the largest start + length (`spanned`). Shapes alone decide what is
        computed, so that a CUDA graph can hold it; a row of length 0 changes nothing that is ever looked at.
        """
        offset_T = torch.arange(ids_NT.shape[1], device=ids_NT.device)
        position_NT = (start_N[:, None] + offset_T).masked_fill(
            offset_T >= length_N[:, None], self.capacity
        )  # padding: the spare position
        rows, width = ids_NT.shape
        seen_N1RS = (self.position_S[:span] <= position_NT[:, None, :, None]).repeat(1, 1, self.groups, 1)
        hidden_NTH = self.decoder.embed_tokens(ids_NT)
        cosine, sine = self.cosine_SD[position_NT][:, :, None], self.sine_SD[position_NT][:, :, None]
        place = self._places(row_N[:, None], position_NT)
        for number, layer in enumerate(self.layers):
            query_NTQD, key_NTKD, value_NTKD = layer.projected(hidden_NTH, cosine, sine)
            keys_BKSD, values_BKSD = self._written(number, place, key_NTKD, value_NTKD)
            # as in `step`: the query heads of one key head are rows of one product
            query_NKRD = (
                query_NTQD.view(rows, width, self.kv_heads, self.groups, -1).permute(0, 2, 3, 1, 4).flatten(2, 3)
            )
            mixed_NKRD = scaled_dot_product_attention(
                query_NKRD,
                keys_BKSD[row_N, :, :span],
                values_BKSD[row_N, :, :span],
                attn_mask=seen_N1RS,
                scale=layer.scaling,
            )
            mixed_NTKGD = mixed_NKRD.reshape(rows, self.kv_heads, self.groups, width, -1).permute(0, 3, 1, 2, 4)
            hidden_NTH = layer.finished(hidden_NTH, mixed_NTKGD.flatten(2))

    def step(
        self, ids_W: torch.Tensor, position_W: torch.Tensor, span: int, active_W: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Reads one token in each of the first W slots, at position_W, and returns the logits_WV (float32) of the next.

        Shapes alone decide what is computed, so that a CUDA graph can hold it. span: as in `read`. active_W: where it is False
        logits may be anything, and nothing need be read; None = True everywhere.
        """
        width = len(ids_W)
        if self.fused:
            from rmlab.models import decoder_kernels

            reads_W = position_W if active_W is None else position_W.masked_fill(~active_W, -1)
            places = Places(self.row_B[:width], reads_W)
            hidden_WH = self.read_places(ids_W, places)
            head_VH = self.model.get_output_embeddings().weight
            logits_WV = torch.empty((width, len(head_VH)), device=hidden_WH.device)
            decoder_kernels.gate(hidden_WH, self.decoder.norm, head_VH, logits_WV, places, gated=False)
            return logits_WV
        unseen_W11S = (self.position_S[:span] > position_W[:, None])[:, None, None]
        hidden_W1H = self.decoder.embed_tokens(ids_W[:, None])
        cosine, sine = self.cosine_SD[position_W][:, None, None], self.sine_SD[position_W][:, None, None]
        place = self._places(torch.arange(width, device=ids_W.device), position_W)
        for number, layer in enumerate(self.layers):
            query_W1QD, key_W1KD, value_W1KD = layer.projected(hidden_W1H, cosine, sine)
            keys_BKSD, values_BKSD = self._written(number, place, key_W1KD, value_W1KD)
            # the query heads of one key head are the rows of one product: keys are read once, not once a query head
            query_WKGD = query_W1QD.view(width, self.kv_heads, self.groups, self.head_dim)
            score_WKGS = (query_WKGD * layer.scaling) @ keys_BKSD[:width, :, :span].transpose(2, 3)
            share_WKGS = (
                score_WKGS.masked_fill_(unseen_W11S, float("-inf"))
                .softmax(-1, dtype=torch.float32)
                .to(query_WKGD.dtype)
            )
            mixed_WKGD = share_WKGS @ values_BKSD[:width, :, :span]
            hidden_W1H = layer.finished(hidden_W1H, mixed_WKGD.flatten(1)[:, None])
        return float_logits(self.model, self.decoder.norm(hidden_W1H)[:, 0])

    def read_places(self, ids_M: torch.Tensor, places: "Places") -> torch.Tensor:
        """Reads M tokens of any conversations, where `fused`; those in front of them are read already, or among them.

        Returns hidden_MH behind the last layer, before the final norm; where no token was to be read it may be anything.
        """
        from rmlab.models import decoder_kernels

        hidden_MH: torch.Tensor = self.decoder.embed_tokens(ids_M)
        tokens = len(hidden_MH)
        query_MQD = hidden_MH.new_empty((tokens, self.kv_heads * self.groups, self.head_dim))
        mixed_MQD = torch.empty_like(query_MQD)
        inner_MI = hidden_MH.new_empty((tokens, self.layers[0].mlp.up_proj.out_features))
        for number, layer in enumerate(self.layers):
            cache = self.keys_LBKSD[number], self.values_LBKSD[number]
            decoder_kernels.project(hidden_MH, layer, query_MQD, *cache, (self.cosine_SD, self.sine_SD), places)
            decoder_kernels.attend(query_MQD, *cache, mixed_MQD, layer.scaling, places)
            decoder_kernels.add(mixed_MQD.view(tokens, -1), layer.attention.o_proj.weight, hidden_MH, places)
            decoder_kernels.gate(hidden_MH, layer.feed_forward_norm, layer.gate_up, inner_MI, places)
            decoder_kernels.add(inner_MI, layer.mlp.down_proj.weight, hidden_MH, places)
        return hidden_MH

    def copy(self, from_N: torch.Tensor, to_N: torch.Tensor, span: int) -> None:
        """Slots to_N hold from here on what slots from_N hold at their first `span` positions."""
        for cache_LBKSD in (self.keys_LBKSD, self.values_LBKSD):
            for cache_BKSD in cache_LBKSD:
                cache_BKSD[to_N, :, :span] = cache_BKSD[from_N, :, :span]

    def _places(self, row: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Where the keys of all heads of each (row, position) stand among all of a layer, flat, heads innermost."""
        head_K = torch.arange(self.kv_heads, device=row.device)
        place_RK: torch.Tensor = (row[..., None] * self.kv_heads + head_K) * self.positions + position[..., None]
        return place_RK.flatten()

    def _written(
        self, number: int, place: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The layer's keys_BKSD and values_BKSD with these in their places."""
        keys_BKSD, values_BKSD = self.keys_LBKSD[number], self.values_LBKSD[number]
        keys_BKSD.view(-1, self.head_dim).index_copy_(0, place, key.reshape(-1, self.head_dim))
        values_BKSD.view(-1, self.head_dim).index_copy_(0, place, value.reshape(-1, self.head_dim))
        return keys_BKSD, values_BKSD


class Places(NamedTuple):
    """Where M tokens stand: each one's slot, and its position in that slot's conversation (-1: it is not to be read). Those
    of one slot begin at multiples of `together`."""

    slot_M: torch.Tensor
    position_M: torch.Tensor
    together: int = 1


def fusible(model: Any, layers: "list[DecoderLayer]", device: torch.device) -> bool:
    """Whether `rmlab.models.decoder_kernels` can compute joined layers: a CUDA device (or Triton's interpreter), silu, no biases."""
    if find_spec("triton") is None or not (device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"):
        return False
    head_dim = layers[0].head_dim
    biased = [layer.attention.o_proj.bias is not None or layer.mlp.down_proj.bias is not None for layer in layers]
    joined = all(layer.query_key_value is not None and layer.gate_up is not None for layer in layers)
    head = model.get_output_embeddings()
    powers = head_dim >= 16 and head_dim & (head_dim - 1) == 0
    return joined and powers and not any(biased) and head.bias is None and model.config.hidden_act == "silu"


def spanned(positions: int, unit: int = SPAN) -> int:
    """As many positions, rounded up to what is looked at together."""
    return -(-positions // unit) * unit


class DecoderLayer(LayerParts):
    """One layer's weights, as they stand in the model.

    joined: query, key and value projections (and gate and up) become views of one matrix each, so that one product reads the
    states once. The layer's parameters then share storage with it: written in place they stay in step. For a model of one's own alone.
    """

    def __init__(self, layer: Any, joined: bool):
        super().__init__(layer)
        gate_up = [self.mlp.gate_proj, self.mlp.up_proj]
        joined = joined and all(p.bias is None for p in self.projections + gate_up)
        self.query_key_value = _views_of_one(self.projections) if joined else None
        self.gate_up = _views_of_one(gate_up) if joined else None

    def projected(
        self, hidden_BTH: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Rotated queries and keys, and values, as (rows, tokens, heads, size). cosine, sine: at the tokens' positions, the sine
        `signed`."""
        normed_BTH, attention = _normed(self.input_norm, hidden_BTH), self.attention
        shape = (*hidden_BTH.shape[:2], -1, self.head_dim)
        if self.query_key_value is None:
            turning = attention.q_proj(normed_BTH).view(shape), attention.k_proj(normed_BTH).view(shape)
            value = attention.v_proj(normed_BTH).view(shape)
        else:
            heads = linear(normed_BTH, self.query_key_value).view(shape)
            turned_heads = self.query_heads + self.key_heads
            value = heads[:, :, turned_heads:]
            if self.head_norms is None:  # both are turned at once
                turned = _rotated(heads[:, :, :turned_heads], cosine, sine)
                return turned[:, :, : self.query_heads], turned[:, :, self.query_heads :], value
            turning = heads[:, :, : self.query_heads], heads[:, :, self.query_heads : turned_heads]
        if self.head_norms is not None:
            turning = _normed(self.head_norms[0], turning[0]), _normed(self.head_norms[1], turning[1])
        return _rotated(turning[0], cosine, sine), _rotated(turning[1], cosine, sine), value

    def finished(self, hidden_BTH: torch.Tensor, mixed_BTA: torch.Tensor) -> torch.Tensor:
        """The layer's output, given what attention mixed (heads side by side). hidden_BTH is written over."""
        hidden_BTH = _added(hidden_BTH, mixed_BTA, self.attention.o_proj)
        normed_BTH = _normed(self.feed_forward_norm, hidden_BTH)
        if self.gate_up is None:
            inner = self.mlp.act_fn(self.mlp.gate_proj(normed_BTH)) * self.mlp.up_proj(normed_BTH)
        else:
            gate, up = linear(normed_BTH, self.gate_up).chunk(2, dim=-1)
            inner = self.mlp.act_fn(gate) * up
        return _added(hidden_BTH, inner, self.mlp.down_proj)


def _rotated(states_BTKD: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    return rotated_at_once(states_BTKD, cosine, sine).to(states_BTKD.dtype)  # turned in float32


def _normed(norm: Any, states: torch.Tensor) -> torch.Tensor:
    return rms_norm(states, (states.shape[-1],), norm.weight, norm.variance_epsilon)


def _added(hidden_BTH: torch.Tensor, states_BTA: torch.Tensor, projection: Any) -> torch.Tensor:
    """hidden + projection(states), in hidden's place."""
    if projection.bias is not None:
        return hidden_BTH.add_(projection(states_BTA))
    hidden_BTH.view(-1, hidden_BTH.shape[-1]).addmm_(
        states_BTA.reshape(-1, states_BTA.shape[-1]), projection.weight.t()
    )
    return hidden_BTH


def _views_of_one(projections: list[Any]) -> torch.Tensor:
    """One matrix of which the projections' own are views from now on."""
    whole = torch.cat([projection.weight.data for projection in projections])
    begin = 0
    for projection in projections:
        end = begin + projection.out_features
        projection.weight.data = whole[begin:end]
        begin = end
    return whole
