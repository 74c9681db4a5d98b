"""The layers of a Qwen3 or Llama decoder outside attention, in few kernels: a decoding step is bound by how many there are.

transformers' layers take about fifty small kernels each; at one token a conversation a GPU spends its time between them. Here
projections that read the same states are one product, norms are one kernel, residuals are added by the product that makes them.
"""

from typing import Any

import torch
from torch.nn.functional import linear, rms_norm


class DecoderLayer:
    """One layer's weights, as they stand in the model.

    joined: query, key and value projections (and gate and up) become views of one matrix each, so that one product reads the
    states once. The layer's parameters then share storage with it: written in place they stay in step. For a model of one's own alone.
    """

    def __init__(self, layer: Any, joined: bool):
        attention, mlp = layer.self_attn, layer.mlp
        self.layer, self.attention, self.mlp = layer, attention, mlp
        self.head_dim, self.scaling = int(attention.head_dim), float(attention.scaling)
        plain = all(
            p.bias is None for p in (attention.q_proj, attention.k_proj, attention.v_proj, mlp.gate_proj, mlp.up_proj)
        )
        joined = joined and plain
        self.query_key_value = _joined([attention.q_proj, attention.k_proj, attention.v_proj]) if joined else None
        self.gate_up = _joined([mlp.gate_proj, mlp.up_proj]) if joined else None
        sizes = [p.out_features // self.head_dim for p in (attention.q_proj, attention.k_proj, attention.v_proj)]
        self.query_heads, self.key_heads, self.value_heads = sizes

    def projected(
        self, hidden_BTH: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Rotated queries and keys, and values, as (rows, tokens, heads, size). cosine, sine: `rotation` at the tokens' positions."""
        normed_BTH, attention = _normed(self.layer.input_layernorm, hidden_BTH), self.attention
        shape = (*hidden_BTH.shape[:2], -1, self.head_dim)
        if self.query_key_value is None:
            turning = attention.q_proj(normed_BTH).view(shape), attention.k_proj(normed_BTH).view(shape)
            value = attention.v_proj(normed_BTH).view(shape)
        else:
            heads = linear(normed_BTH, self.query_key_value).view(shape)
            turned_heads = self.query_heads + self.key_heads
            value = heads[:, :, turned_heads:]
            if not hasattr(attention, "q_norm"):  # Llama: both are turned at once
                turned = _rotated(heads[:, :, :turned_heads], cosine, sine)
                return turned[:, :, : self.query_heads], turned[:, :, self.query_heads :], value
            turning = heads[:, :, : self.query_heads], heads[:, :, self.query_heads : turned_heads]
        if hasattr(attention, "q_norm"):  # Qwen3
            turning = _normed(attention.q_norm, turning[0]), _normed(attention.k_norm, turning[1])
        return _rotated(turning[0], cosine, sine), _rotated(turning[1], cosine, sine), value

    def finished(self, hidden_BTH: torch.Tensor, mixed_BTA: torch.Tensor) -> torch.Tensor:
        """The layer's output, given what attention mixed (heads side by side). hidden_BTH is written over."""
        hidden_BTH = _added(hidden_BTH, mixed_BTA, self.attention.o_proj)
        normed_BTH = _normed(self.layer.post_attention_layernorm, hidden_BTH)
        if self.gate_up is None:
            inner = self.mlp.act_fn(self.mlp.gate_proj(normed_BTH)) * self.mlp.up_proj(normed_BTH)
        else:
            gate, up = linear(normed_BTH, self.gate_up).chunk(2, dim=-1)
            inner = self.mlp.act_fn(gate) * up
        return _added(hidden_BTH, inner, self.mlp.down_proj)


def rotation(cosine_SD: torch.Tensor, sine_SD: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What `projected` turns heads with: the sine's first half negated, so that turning is one shift and two products."""
    half = sine_SD.shape[-1] // 2
    return cosine_SD, torch.cat([-sine_SD[..., :half], sine_SD[..., half:]], dim=-1)


def _rotated(states_BTKD: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    half = states_BTKD.shape[-1] // 2
    return torch.addcmul(states_BTKD * cosine, states_BTKD.roll(half, -1), sine).to(
        states_BTKD.dtype
    )  # turned in float32


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


def _joined(projections: list[Any]) -> torch.Tensor:
    whole = torch.cat([projection.weight.data for projection in projections])
    begin = 0
    for projection in projections:
        end = begin + projection.out_features
        projection.weight.data = whole[begin:end]
        begin = end
    return whole
