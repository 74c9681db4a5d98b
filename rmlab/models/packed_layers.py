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

from rmlab.models.attention import Segments, attend
from rmlab.models.layer import LayerParts, has_plain_matrices, is_dense, joined

ATTRIBUTE = "_rmlab_packed_layers"


def has_packed_layers(decoder: Any) -> bool:
    """Whether a transformers decoder's layers are of a kind that is written here: plain matrices without bias or adapters, SiLU gates."""
    return is_dense(decoder) and has_plain_matrices(decoder, bias=False)


class PackedLayer(torch.nn.Module):
    """One decoder layer of transformers, its weights read together."""

    def __init__(self, layer: Any):
        super().__init__()
        self.parts = LayerParts(layer)
        self.epsilon = float(layer.input_layernorm.variance_epsilon)  # one number: compiled code takes each as an input

    def forward(
        self,
        stream_TH: torch.Tensor,
        added_TH: torch.Tensor,
        cosine_TD: torch.Tensor,
        sine_TD: torch.Tensor,
        cu_seqlens: torch.Tensor,
        max_seqlen: int,
        cu_seqlens_cudnn: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(stream_TH, added_TH) for the next layer. added_TH: what the layer before adds to the stream, in the arithmetic of products."""
        parts, dtype = self.parts, added_TH.dtype
        queries, keys = parts.query_heads, parts.key_heads
        stream_TH = stream_TH + added_TH
        normed_TH = self._normed(stream_TH, parts.input_norm).to(dtype)
        heads_TAD = linear(normed_TH, *joined(parts.projections, dtype)).view(-1, queries + 2 * keys, parts.head_dim)
        query, key, value = torch.split(heads_TAD, [queries, keys, keys], dim=1)
        if parts.head_norms:
            query, key = self._normed(query, parts.head_norms[0]), self._normed(key, parts.head_norms[1])
        query, key = (_rotated(states, cosine_TD[:, None], sine_TD[:, None]).to(dtype) for states in (query, key))
        segments = Segments(cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, cu_seqlens_cudnn)
        mixed_TQD = attend(query, key, value, segments, parts.scaling)
        stream_TH = stream_TH + linear(mixed_TQD.flatten(1), *joined([parts.attention.o_proj], dtype))
        normed_TH = self._normed(stream_TH, parts.feed_forward_norm).to(dtype)
        gate, up = linear(normed_TH, *joined([parts.mlp.gate_proj, parts.mlp.up_proj], dtype)).chunk(2, dim=-1)
        return stream_TH, linear(silu(gate) * up, *joined([parts.mlp.down_proj], dtype))

    def _normed(self, states: torch.Tensor, norm: Any) -> torch.Tensor:
        wide = states.float()
        normed: torch.Tensor = norm.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon))
        return normed


def _rotated(states: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """As `rmlab.models.layer.rotated`, in float32. The halves are put together again for the compiler's sake: the other form, which
    copies less, trained 8 % slower where it was compiled (SmolLM2's shape on an H200, one run of each)."""
    first, second = states.float().chunk(2, dim=-1)
    return torch.cat([first, second], dim=-1) * cosine + torch.cat([-second, first], dim=-1) * sine


class PackedLayers:
    """All layers of a decoder but the last. checkpointing: activations within a layer are made again in the backward pass.
    compiled: by torch.compile with this backend, once for all layers and rows of any length.
    """

    def __init__(self, decoder: Any, compiled: bool, checkpointing: bool, backend: Any = "inductor"):
        self.layers = [PackedLayer(layer) for layer in decoder.layers[:-1]]
        self.checkpointing = checkpointing
        for layer in self.layers if compiled else ():
            layer.compile(dynamic=True, backend=backend)

    def __call__(
        self, hidden_TH: torch.Tensor, cosine_TD: torch.Tensor, sine_TD: torch.Tensor, segments: Segments
    ) -> torch.Tensor:
        """hidden_TH in float32 behind them."""
        kind = hidden_TH.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden_TH.dtype
        borders = (segments.cu_seqlens_q, segments.max_seqlen_q, segments.cu_seqlens_cudnn)
        common = (cosine_TD.float(), sine_TD.float(), *borders)
        with torch.autocast(kind, enabled=False):
            stream = hidden_TH.float().clone()  # no view, as behind later layers
            added = (stream - stream).to(
                dtype
            )  # nothing, of which a gradient is known: one compiled function serves all
            for layer in self.layers:
                if self.checkpointing and torch.is_grad_enabled():
                    stream, added = checkpoint(layer, stream, added, *common, use_reentrant=False)
                else:
                    stream, added = layer(stream, added, *common)
            return stream + added


@contextmanager
def packed_layers(
    model: Any, wanted: bool, compiled: bool = False, checkpointing: bool = False, backend: Any = "inductor"
) -> Iterator[None]:
    """Where `wanted`, packed rows go through a transformers language model's layers as they are written here; see `PackedLayers`."""
    decoder = model.get_decoder()
    if wanted:
        object.__setattr__(decoder, ATTRIBUTE, PackedLayers(decoder, compiled, checkpointing, backend))
    try:
        yield
    finally:
        if wanted:
            object.__delattr__(decoder, ATTRIBUTE)


def packed_layers_of(decoder: Any) -> PackedLayers | None:
    """How packed rows go through the layers of a decoder now; None = as transformers wrote them."""
    layers: PackedLayers | None = vars(decoder).get(ATTRIBUTE)
    return layers
