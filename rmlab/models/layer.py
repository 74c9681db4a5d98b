"""A decoder layer of Qwen3 or Llama: its parts by name, which models have such layers, and what all readings of one share.

    hidden += output(attention(turned(norm(queries)), turned(norm(keys)), values)) of norm(hidden)
    hidden += down(silu(gate) · up) of norm(hidden)

Queries, keys and values are projections of the normed hidden states; Qwen3 norms the heads of queries and keys, Llama does not. Who
reads a layer does so in the order and the precision that its purpose needs: as a GPU trains (`packed_layers`), as it scores
(`prefix_decoder`), as it decodes (`decoder`, `decoder_kernels`), to the bit of transformers on a CPU (`cpu_layers`), and at the
answers alone (`heads`).
"""

from collections.abc import Sequence
from typing import Any

import torch

DENSE = ("Qwen3Model", "LlamaModel")
"""Classes of transformers whose layers are these, with one feed-forward block for all tokens."""


class LayerParts:
    """The modules of a transformers layer, and its numbers. head_norms: of queries and of keys; None where they are not normed (Llama)."""

    def __init__(self, layer: Any):
        self.attention, self.mlp = layer.self_attn, layer.mlp
        self.input_norm, self.feed_forward_norm = layer.input_layernorm, layer.post_attention_layernorm
        self.projections = [self.attention.q_proj, self.attention.k_proj, self.attention.v_proj]
        self.head_norms = (self.attention.q_norm, self.attention.k_norm) if hasattr(self.attention, "q_norm") else None
        self.head_dim, self.scaling = int(self.attention.head_dim), float(self.attention.scaling)
        self.query_heads, self.key_heads, _ = (p.out_features // self.head_dim for p in self.projections)


def is_dense(decoder: Any) -> bool:
    """Whether all layers of a transformers decoder are of this kind, without experts, and each token sees all before it."""
    return type(decoder).__name__ in DENSE and has_full_attention(decoder)


def has_full_attention(decoder: Any) -> bool:
    """Whether a token sees all before it, in every layer."""
    return set(getattr(decoder.config, "layer_types", None) or ["full_attention"]) == {"full_attention"}


def has_plain_matrices(decoder: Any, bias: bool = True) -> bool:
    """Whether the matrices of layers are known here: no adapters, which would be left out, and SiLU gates. bias: they may have one."""
    projections = [m for name, m in decoder.layers[0].named_modules() if name.endswith("_proj")]
    plain = all(type(p) is torch.nn.Linear and (bias or p.bias is None) for p in projections)
    return plain and decoder.config.hidden_act == "silu"


def joined(projections: Sequence[Any], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor | None]:
    """One matrix and one bias, in `dtype`, of projections of the same states."""
    matrices = [p.weight.to(dtype) for p in projections]
    biases = [p.bias.to(dtype) for p in projections if p.bias is not None]
    matrix = torch.cat(matrices) if len(matrices) > 1 else matrices[0]
    return matrix, torch.cat(biases) if biases else None


def rotated(states: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Heads turned by their positions: x · cosine + (-x₂, x₁) · sine of the halves x₁, x₂ of each."""
    first, second = states.chunk(2, dim=-1)
    return states * cosine + torch.cat([-second, first], dim=-1) * sine


def rotated_at_once(states: torch.Tensor, cosine: torch.Tensor, signed_sine: torch.Tensor) -> torch.Tensor:
    """The same in fewer kernels, where no gradient is asked for. signed_sine: see `signed`."""
    return torch.addcmul(states * cosine, states.roll(states.shape[-1] // 2, -1), signed_sine)


def signed(sine_SD: torch.Tensor) -> torch.Tensor:
    """The sine with its first half negated, so that turning is one shift and two products."""
    half = sine_SD.shape[-1] // 2
    return torch.cat([-sine_SD[..., :half], sine_SD[..., half:]], dim=-1)
