"""The layers of a Qwen3 or Llama decoder as a GPU trains through them: fewer and larger matrix products, and less that is moved.

Queries, keys and values are one product, gate and up another. What a layer adds to the residual stream is added where the next
layer reads it. The weights are the model's own and get its gradients; as under autocast the stream and the norms are float32, so
the numbers are the model's but for rounding.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import linear, silu
from torch.utils.checkpoint import checkpoint

from rmlab.models.packed import Spans, attend

DECODERS = ("Qwen3Model", "LlamaModel")
ATTRIBUTE = "_rmlab_joined"


def joins(decoder: Any) -> bool:
    """Whether a transformers decoder's layers are of a kind that is written here: plain matrices without bias or adapters, SiLU gates."""
    if type(decoder).__name__ not in DECODERS or decoder.config.hidden_act != "silu":
        return False
    attention, feed_forward = decoder.layers[0].self_attn, decoder.layers[0].mlp
    matrices = [getattr(attention, f"{name}_proj") for name in "qkvo"]
    matrices += [feed_forward.gate_proj, feed_forward.up_proj, feed_forward.down_proj]
    return all(type(matrix) is torch.nn.Linear and matrix.bias is None for matrix in matrices)


class JoinedLayer(torch.nn.Module):
    """One decoder layer of transformers, its weights read together."""

    def __init__(self, layer: Any):
        super().__init__()
        self.layer = layer
        self.head_dim = int(layer.self_attn.head_dim)
        self.scaling = float(layer.self_attn.scaling)
        self.epsilon = float(layer.input_layernorm.variance_epsilon)
        self.head_norms = hasattr(layer.self_attn, "q_norm")

    def forward(
        self,
        stream_TH: torch.Tensor,
        added_TH: torch.Tensor,
        cosine_TD: torch.Tensor,
        sine_TD: torch.Tensor,
        starts_S1: torch.Tensor,
        longest: int,
        border_B1: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(stream_TH, added_TH) for the next layer. added_TH: what the layer before adds to the stream, in the arithmetic of products."""
        attention, feed_forward, dtype = self.layer.self_attn, self.layer.mlp, added_TH.dtype
        stream_TH = stream_TH + added_TH
        normed_TH = self._normed(stream_TH, self.layer.input_layernorm).to(dtype)
        parts = [attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]
        queries, keys = parts[0].shape[0] // self.head_dim, parts[1].shape[0] // self.head_dim
        heads_TAD = linear(normed_TH, torch.cat([w.to(dtype) for w in parts])).view(
            -1, queries + 2 * keys, self.head_dim
        )
        query, key, value = torch.split(heads_TAD, [queries, keys, keys], dim=1)
        if self.head_norms:
            query, key = self._normed(query, attention.q_norm), self._normed(key, attention.k_norm)
        query, key = (_turned(states, cosine_TD[:, None], sine_TD[:, None]).to(dtype) for states in (query, key))
        mixed_TQD = attend(query, key, value, starts_S1, longest, self.scaling, border_B1=border_B1)
        stream_TH = stream_TH + linear(mixed_TQD.flatten(1), attention.o_proj.weight.to(dtype))
        normed_TH = self._normed(stream_TH, self.layer.post_attention_layernorm).to(dtype)
        parts = [feed_forward.gate_proj.weight, feed_forward.up_proj.weight]
        gate, up = linear(normed_TH, torch.cat([w.to(dtype) for w in parts])).chunk(2, dim=-1)
        return stream_TH, linear(silu(gate) * up, feed_forward.down_proj.weight.to(dtype))

    def _normed(self, states: torch.Tensor, norm: Any) -> torch.Tensor:
        wide = states.float()
        scaled: torch.Tensor = norm.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon))
        return scaled


def _turned(states: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Heads with rotary positions applied, in float32."""
    first, second = states.float().chunk(2, dim=-1)
    return torch.cat([first, second], dim=-1) * cosine + torch.cat([-second, first], dim=-1) * sine


class JoinedLayers:
    """All layers of a decoder but the last. checkpointing: activations within a layer are made again in the backward pass.
    compiled: by torch.compile with this backend, once for all layers and rows of any length.
    """

    def __init__(self, decoder: Any, compiled: bool, checkpointing: bool, backend: Any = "inductor"):
        self.layers = [JoinedLayer(layer) for layer in decoder.layers[:-1]]
        self.checkpointing = checkpointing
        for layer in self.layers if compiled else ():
            layer.compile(dynamic=True, backend=backend)

    def __call__(
        self, hidden_TH: torch.Tensor, cosine_TD: torch.Tensor, sine_TD: torch.Tensor, spans: Spans
    ) -> torch.Tensor:
        """hidden_TH in float32 behind them."""
        kind = hidden_TH.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden_TH.dtype
        told = (cosine_TD.float(), sine_TD.float(), spans.starts_S1, spans.longest, spans.border_B1)
        with torch.autocast(kind, enabled=False):
            stream = hidden_TH.float().clone()  # no view, as behind later layers
            added = (stream - stream).to(
                dtype
            )  # nothing, of which a gradient is known: one compiled function serves all
            for layer in self.layers:
                if self.checkpointing and torch.is_grad_enabled():
                    stream, added = checkpoint(layer, stream, added, *told, use_reentrant=False)
                else:
                    stream, added = layer(stream, added, *told)
            return stream + added


@contextmanager
def joined_layers(
    model: Any, wanted: bool, compiled: bool = False, checkpointing: bool = False, backend: Any = "inductor"
) -> Iterator[None]:
    """Where `wanted`, packed rows go through a transformers language model's layers as they are written here; see `JoinedLayers`."""
    decoder = model.get_decoder()
    if wanted:
        object.__setattr__(decoder, ATTRIBUTE, JoinedLayers(decoder, compiled, checkpointing, backend))
    try:
        yield
    finally:
        if wanted:
            object.__delattr__(decoder, ATTRIBUTE)


def joined(decoder: Any) -> JoinedLayers | None:
    """How packed rows go through the layers of a decoder now; None = as transformers wrote them."""
    found: JoinedLayers | None = vars(decoder).get(ATTRIBUTE)
    return found
