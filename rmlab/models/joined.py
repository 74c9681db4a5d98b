"""The layers of a Qwen3 or Llama decoder as a GPU trains through them: fewer and larger matrix products, and less that is moved.

Queries, keys and values are one product, gate and up another. What a layer adds to the residual stream is added where the next
layer reads it. The weights are the model's own and get its gradients; as under autocast the stream and the norms are float32, so
the numbers are the model's but for rounding.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import linear, pad, silu
from torch.utils.checkpoint import checkpoint

from rmlab.models.packed import Spans, attend, sent

DECODERS = ("Qwen3Model", "LlamaModel")
ATTRIBUTE = "_rmlab_joined"
GRAPHS = True
MOST_GRAPHS = 16
FILL = 128  # tokens of the sequences that fill up a row
GRAPHED_TOKENS = 1 << 16
"""Of a row, up to which both passes are CUDA graphs: the kernels of a longer one take longer than the CPU needs to ask for them."""


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
        heads_TAD = linear(normed_TH, torch.cat([w.to(dtype) for w in parts])).unflatten(-1, (-1, self.head_dim))
        query, key, value = heads_TAD.split([queries, keys, keys], dim=1)
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


class _Stack(torch.nn.Module):
    """Layers one behind the other, for rows whose longest sequence has at most `longest` tokens."""

    def __init__(self, layers: list[JoinedLayer], dtype: torch.dtype, longest: int, checkpointing: bool = False):
        super().__init__()
        self.layers, self.dtype, self.longest = torch.nn.ModuleList(layers), dtype, longest
        self.checkpointing = checkpointing

    def forward(
        self,
        hidden_TH: torch.Tensor,
        cosine_TD: torch.Tensor,
        sine_TD: torch.Tensor,
        starts_S1: torch.Tensor,
        border_B1: torch.Tensor | None = None,
    ) -> torch.Tensor:
        stream = hidden_TH.float().clone()  # no view, as behind later layers
        added = (stream - stream).to(
            self.dtype
        )  # nothing, of which a gradient is known: one compiled function serves all
        for layer in self.layers:
            told = (stream, added, cosine_TD, sine_TD, starts_S1, self.longest, border_B1)
            if self.checkpointing and torch.is_grad_enabled():
                stream, added = checkpoint(layer, *told, use_reentrant=False)
            else:
                stream, added = layer(*told)
        return stream + added


class JoinedLayers:
    """All layers of a decoder but the last. checkpointing: activations within a layer are made again in the backward pass.

    compiled: by torch.compile with this backend, once for all layers and rows of any length. On a GPU rows of short sequences are then
    also filled up to one of few shapes, for each of which both passes are CUDA graphs: their kernels are so short that a CPU
    could not ask for them as fast.
    """

    def __init__(self, decoder: Any, compiled: bool, checkpointing: bool, backend: Any = "inductor"):
        self.layers = [JoinedLayer(layer) for layer in decoder.layers[:-1]]
        self.checkpointing, self.graphed = checkpointing, compiled and not checkpointing and GRAPHS
        self.graphs: dict[tuple[int, int, int, torch.dtype], Any] = {}
        self.pool: Any = None
        self.accumulators: list[Any] = []
        for layer in self.layers if compiled else ():
            layer.compile(dynamic=True, backend=backend)

    def __call__(
        self, hidden_TH: torch.Tensor, cosine_TD: torch.Tensor, sine_TD: torch.Tensor, spans: Spans
    ) -> torch.Tensor:
        """hidden_TH in float32 behind them."""
        kind = hidden_TH.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden_TH.dtype
        told = (cosine_TD.float(), sine_TD.float(), spans.starts_S1)
        with torch.autocast(kind, enabled=False):
            short = spans.border_B1 is None and len(hidden_TH) <= GRAPHED_TOKENS
            if self.graphed and short and hidden_TH.is_cuda and hidden_TH.requires_grad:
                return self._replayed(hidden_TH, told, spans, dtype)
            stack = _Stack(self.layers, dtype, spans.longest, self.checkpointing)
            return stack(hidden_TH, *told, spans.border_B1)  # type: ignore[no-any-return]

    def _replayed(
        self, hidden_TH: torch.Tensor, told: tuple[torch.Tensor, ...], spans: Spans, dtype: torch.dtype
    ) -> torch.Tensor:
        """The same by the CUDA graphs of the row's shape, which are made where it is new."""
        cosine_TD, sine_TD, starts_S1 = told
        tokens, step = len(hidden_TH), _step(len(hidden_TH))
        width, borders = _up(tokens, step), _up(len(starts_S1) + step // FILL, 32)
        rows = [pad(states, (0, 0, 0, width - tokens)) for states in (hidden_TH, cosine_TD, sine_TD)]
        more = [min(tokens + FILL * (i + 1), width) for i in range(borders - len(starts_S1))]
        filled = torch.cat([starts_S1, sent(torch.tensor(more, dtype=torch.int32), starts_S1.device)])
        given, longest = (*rows, filled), _up(spans.longest, _step(spans.longest))
        key = (width, borders, longest, dtype)
        if key not in self.graphs and len(self.graphs) == MOST_GRAPHS:
            return _Stack(self.layers, dtype, spans.longest)(hidden_TH, *told)  # type: ignore[no-any-return]
        if key not in self.graphs:
            self.graphs[key] = self._captured(given, longest, dtype)
        graph, parameters = self.graphs[key]
        # a gradient that is not there yet would become the graph's own, which its next replay changes
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        return graph(*given)[:tokens]  # type: ignore[no-any-return]

    def _captured(
        self, given: tuple[torch.Tensor, ...], longest: int, dtype: torch.dtype
    ) -> tuple[Any, list[torch.nn.Parameter]]:
        """Graphs of both passes for rows of this shape, and whose gradients they make."""
        stack = _Stack(self.layers, dtype, longest).train()
        parameters = list(stack.parameters())
        if self.pool is None:
            self.pool = torch.cuda.graph_pool_handle()
            self.accumulators = [_accumulator(parameter) for parameter in parameters]
        hidden_TH, *others = given
        sample = (hidden_TH.detach().clone().requires_grad_(), *(tensor.clone() for tensor in others))
        return torch.cuda.make_graphed_callables(stack, sample, num_warmup_iters=2, pool=self.pool), parameters


def _accumulator(parameter: torch.nn.Parameter) -> Any:
    """What adds up its gradient, made on the present stream: made while a graph is captured it would make streams wait for each other."""
    function = parameter.expand_as(parameter).grad_fn
    assert function is not None
    return function.next_functions[0][0]


def _step(number: int) -> int:
    """Between sizes that are told apart: eight of them from one power of two to the next."""
    return max(128, 1 << max(number.bit_length() - 4, 0))


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


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
