"""The layers of a Qwen3 decoder in float32 on a CPU, with norms and rotary positions in one pass each, sequence by sequence.

transformers writes every product of a norm or a rotation of a whole batch to memory and reads it again. Here what one sequence
needs in between stays in the processor's cache, and less is kept for the gradient. The products and sums are transformers' own
in their own order, so that outputs and gradients are the same to the last bit (tested), and no hash has to know of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention, silu

Pair = tuple[torch.Tensor, torch.Tensor]


@contextmanager
def cpu_layers(model: Any) -> Iterator[None]:
    """Within the block the layers of a language model (or of one with a scalar head) are computed as above, where they can be:
    Qwen3's own layers with full attention and weights in float32 on a CPU, outside autocast."""
    layers = [layer for layer in language_layers(model) if _is_known(layer)]
    for layer in layers:
        layer.forward = partial(_forward, layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward  # the method of its class is there again


def language_layers(model: Any) -> list[Any]:
    """The layers of the decoder that `last_hidden` reads; none where the model has no such list."""
    from rmlab.models.heads import language_model

    return list(getattr(language_model(model).get_decoder(), "layers", []))


def _is_known(layer: Any) -> bool:
    from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer, Qwen3MLP

    weights = list(layer.parameters())
    return (
        type(layer) is Qwen3DecoderLayer
        and "forward" not in vars(layer)
        and type(layer.mlp) is Qwen3MLP
        and layer.mlp.config.hidden_act == "silu"
        and layer.self_attn.config._attn_implementation == "sdpa"
        and layer.self_attn.sliding_window is None
        and not layer.self_attn.attention_dropout
        and all(weight.device.type == "cpu" and weight.dtype == torch.float32 for weight in weights)
    )


def _forward(
    layer: Any,
    hidden_BTH: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    position_embeddings: Pair | None = None,
    **more: Any,
) -> torch.Tensor:
    """As Qwen3DecoderLayer.forward. Whatever `last_hidden` does not ask for (a mask, a cache, autocast) is left to the class."""
    extra = any(value is not None for name, value in more.items() if name != "position_ids")
    if extra or attention_mask is not None or position_embeddings is None or torch.is_autocast_enabled("cpu"):
        whole: torch.Tensor = type(layer).forward(
            layer, hidden_BTH, attention_mask=attention_mask, position_embeddings=position_embeddings, **more
        )
        return whole
    attention, mlp = layer.self_attn, layer.mlp
    shape = (*hidden_BTH.shape[:-1], -1, attention.head_dim)
    normed_BTH, hidden_BTH = _norm(layer.input_layernorm, hidden_BTH)
    query, key = attention.q_proj(normed_BTH).view(shape), attention.k_proj(normed_BTH).view(shape)
    value_BKTD = attention.v_proj(normed_BTH).view(shape).transpose(1, 2)
    mixed_BQTD = scaled_dot_product_attention(
        _turned(attention.q_norm, query, *position_embeddings).transpose(1, 2),
        _turned(attention.k_norm, key, *position_embeddings).transpose(1, 2),
        value_BKTD,
        is_causal=hidden_BTH.shape[1] > 1,
        scale=attention.scaling,
        enable_gqa=query.shape[2] != key.shape[2],
    )
    hidden_BTH = attention.o_proj(mixed_BQTD.transpose(1, 2).flatten(2)).add_(hidden_BTH)
    normed_BTH, hidden_BTH = _norm(layer.post_attention_layernorm, hidden_BTH)
    inner_BTI = silu(mlp.gate_proj(normed_BTH)) * mlp.up_proj(normed_BTH)
    out_BTH: torch.Tensor = mlp.down_proj(inner_BTI).add_(hidden_BTH)
    return out_BTH


def _norm(norm: Any, hidden_BTH: torch.Tensor) -> Pair:
    """The normed states, and the states themselves for the residual connection."""
    both: Pair = _Norm.apply(hidden_BTH, norm.weight, norm.variance_epsilon)  # type: ignore[no-untyped-call]
    return both


def _turned(norm: Any, heads_BTKD: torch.Tensor, cosine_1TD: torch.Tensor, sine_1TD: torch.Tensor) -> torch.Tensor:
    """Heads normed and turned by their positions."""
    turned: torch.Tensor = _NormTurn.apply(heads_BTKD, norm.weight, norm.variance_epsilon, cosine_1TD[0], sine_1TD[0])  # type: ignore[no-untyped-call]
    return turned


def _scale(states: torch.Tensor, epsilon: float, out: torch.Tensor) -> torch.Tensor:
    """1 / root mean square over the last axis, as Qwen3RMSNorm takes it."""
    return torch.mean(states.pow(2), -1, keepdim=True, out=out).add_(epsilon).rsqrt_()


def _norm_gradient(
    states: torch.Tensor, scale: torch.Tensor, weight: torch.Tensor, gradient: torch.Tensor, weight_out: torch.Tensor
) -> Pair:
    """What the product with the scale and what the mean of squares give to the states' gradient; autograd adds them one after the other.

    weight_out: takes what the weight's gradient is the sum of.
    """
    torch.mul(states, scale, out=weight_out).mul_(gradient)
    through = gradient * weight
    of_scale = (through * states).sum(-1, keepdim=True).mul_(-0.5).mul_(scale.pow(3)).div_(states.shape[-1])
    return through.mul_(scale), (states * 2).mul_(of_scale)


class _Norm(torch.autograd.Function):
    """(weight · x / rms(x), x)."""

    @staticmethod
    def forward(ctx: Any, hidden_BTH: torch.Tensor, weight: torch.Tensor, epsilon: float) -> Pair:
        normed_BTH = torch.empty_like(hidden_BTH)
        scale_BT1 = hidden_BTH.new_empty((*hidden_BTH.shape[:-1], 1))
        for states, scale, normed in zip(hidden_BTH, scale_BT1, normed_BTH, strict=True):
            torch.mul(states, _scale(states, epsilon, scale), out=normed).mul_(weight)
        ctx.save_for_backward(hidden_BTH, weight, scale_BT1)
        return normed_BTH, hidden_BTH

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        hidden_BTH, weight, scale_BT1 = ctx.saved_tensors
        of_normed, of_hidden = gradients
        of_weight, total = torch.empty_like(hidden_BTH), torch.empty_like(hidden_BTH)
        for row, states in enumerate(hidden_BTH):
            first, second = _norm_gradient(states, scale_BT1[row], weight, of_normed[row], of_weight[row])
            torch.add(of_hidden[row], first, out=total[row]).add_(second)
        return total, of_weight.sum((0, 1)), None


class _NormTurn(torch.autograd.Function):
    """The norm of each head, turned: x · cosine + (-x₂, x₁) · sine of its halves x₁, x₂."""

    @staticmethod
    def forward(
        ctx: Any,
        heads_BTKD: torch.Tensor,
        weight: torch.Tensor,
        epsilon: float,
        cosine_TD: torch.Tensor,
        sine_TD: torch.Tensor,
    ) -> torch.Tensor:
        half = heads_BTKD.shape[-1] // 2
        cosine_T1D, sine_T1D = cosine_TD[:, None], sine_TD[:, None]
        scale_BTK1 = heads_BTKD.new_empty((*heads_BTKD.shape[:-1], 1))
        turned_BTKD = torch.empty_like(heads_BTKD)
        for heads, scale, turned in zip(heads_BTKD, scale_BTK1, turned_BTKD, strict=True):
            normed = torch.mul(heads, _scale(heads, epsilon, scale)).mul_(weight)
            torch.mul(normed, cosine_T1D, out=turned)
            turned[..., :half] -= normed[..., half:] * sine_T1D[..., :half]
            turned[..., half:] += normed[..., :half] * sine_T1D[..., half:]
        ctx.save_for_backward(heads_BTKD, weight, scale_BTK1, cosine_T1D, sine_T1D)
        return turned_BTKD

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None, None]:
        heads_BTKD, weight, scale_BTK1, cosine_T1D, sine_T1D = ctx.saved_tensors
        (of_turned,) = gradients
        half = heads_BTKD.shape[-1] // 2
        total = torch.empty_like(heads_BTKD)
        of_weight = torch.empty_like(heads_BTKD.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
        for row, heads in enumerate(heads_BTKD):
            gradient = of_turned[row] * cosine_T1D
            across = of_turned[row] * sine_T1D
            gradient[..., :half] += across[..., half:]
            gradient[..., half:] -= across[..., :half]
            first, second = _norm_gradient(heads, scale_BTK1[row], weight, gradient, of_weight[row])
            torch.add(first, second, out=total[row])
        return total, of_weight.sum((0, 1, 2)), None, None, None
