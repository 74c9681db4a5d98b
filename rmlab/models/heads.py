"""Logits behind the last real token of right-padded sequences, and only there.

A verifier reads one position a sequence, so the head (hidden × vocabulary a token) is applied there alone, and so is the last
layer: of the other positions it needs keys and values only. With two layers this halves the arithmetic; the numbers are the
model's own but for rounding. Under causal attention no real token sees the padding behind it: right padding needs no mask,
and attention takes its fast path.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.nn.functional import linear, scaled_dot_product_attention

from rmlab.errors import DataError
from rmlab.fingerprint import fingerprint
from rmlab.models.attention import attend
from rmlab.models.layer import LayerParts, is_dense, rotated
from rmlab.models.moe import Routing
from rmlab.models.packed import PackedRow
from rmlab.models.packed_layers import packed_layers_of


def pad_right(sequences: Sequence[Sequence[int] | NDArray[np.int32]], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """ids_BT (int64, filled with pad_id) and length_B (int64) of B sequences of at least one token each."""
    length_B = np.array([len(s) for s in sequences])
    ids_BT = np.full((len(sequences), int(length_B.max())), pad_id, dtype=np.int64)
    for row, sequence in zip(ids_BT, sequences, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(ids_BT), torch.from_numpy(length_B)


def last_logits(
    model: Any, ids_BT: torch.Tensor, ends: torch.Tensor | PackedRow, routing: Routing | None = None
) -> torch.Tensor:
    """logits_BV in float32 of the token that follows each sequence's last real token.

    model: a transformers causal language model. The others: see `last_hidden`.
    """
    return float_logits(model, last_hidden(model, ids_BT, ends, routing))


def float_logits(model: Any, hidden_NH: torch.Tensor) -> torch.Tensor:
    """logits_NV of the head, in float32 whatever arithmetic the rest has: at 16 bfloat16 knows steps of 0.125 only, which is more than a
    policy's log-probability moves in an update, and makes ties of verifiers' scores."""
    head = model.get_output_embeddings()
    with torch.autocast(hidden_NH.device.type, enabled=False):
        return linear(hidden_NH.float(), head.weight.float(), None if head.bias is None else head.bias.float())


def last_hidden(
    model: Any, ids_BT: torch.Tensor, ends: torch.Tensor | PackedRow, routing: Routing | None = None
) -> torch.Tensor:
    """hidden_BH behind each sequence's last real token, after the final norm.

    ends: length_B, real tokens of each right-padded row; or where B sequences lie in the one row, which the model has to know of
    (`rmlab.models.packed.packed_rows`). routing: takes what the routers of a mixture of experts did, while it trains; a dense
    model has none.
    """
    decoder = model.get_decoder()
    if isinstance(ends, PackedRow):
        return _behind_row(decoder, ids_BT, ends, routing)
    last_B = ends - 1
    row_B = torch.arange(len(last_B), device=ids_BT.device)
    if _is_plain_qwen3(decoder):
        position_1T = torch.arange(ids_BT.shape[1], device=ids_BT.device)[None]
        seen_B11T = (position_1T <= last_B[:, None])[:, None, None]

        def mix(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
            groups = key.shape[1] != query.shape[1]
            key = key.to(query.dtype)
            return scaled_dot_product_attention(query, key, value, seen_B11T, scale=scaling, enable_gqa=groups)

        return _last_hidden(decoder, ids_BT, {"position_ids": position_1T}, row_B, last_B, mix)
    hidden_BTH = _by_the_decoder(decoder, ids_BT, {}, ends, routing)
    return hidden_BTH[row_B, last_B]


def _behind_row(decoder: Any, ids_1T: torch.Tensor, row: PackedRow, routing: Routing | None) -> torch.Tensor:
    if is_dense(decoder):

        def mix(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
            by_token = (key[0].transpose(0, 1), value[0].transpose(0, 1))
            return attend(query[:, :, 0], *by_token, row.segments.last_alone(), scaling)[:, :, None]

        row_S, layers = torch.zeros_like(row.last_S), packed_layers_of(decoder)
        through = None if layers is None else lambda hidden, cos, sin: layers(hidden[0], cos, sin, row.segments)[None]
        return _last_hidden(decoder, ids_1T, row.decoder_arguments, row_S, row.last_S, mix, through)[: row.count]
    length_1 = row.segments.cu_seqlens_q[row.count, None]
    hidden_1TH = _by_the_decoder(decoder, ids_1T, row.decoder_arguments, length_1, routing)
    return hidden_1TH[0, row.last_S[: row.count]]


def _by_the_decoder(
    decoder: Any, ids_BT: torch.Tensor, arguments: Mapping[str, Any], length_B: torch.Tensor, routing: Routing | None
) -> torch.Tensor:
    """hidden_BTH by a decoder's own forward pass. length_B: tokens of each row whose routing counts."""
    more = {} if routing is None else {"output_router_logits": True}
    output = decoder(input_ids=ids_BT, use_cache=False, **arguments, **more)
    if routing is not None:
        routing.add(output.router_logits, length_B)
    hidden_BTH: torch.Tensor = output.last_hidden_state
    return hidden_BTH


def _is_plain_qwen3(decoder: Any) -> bool:
    """Whether padded rows are read by `_last_hidden`. Llama's could be too, and are not: the numbers of runs that are shown stay what
    they are."""
    return type(decoder).__name__ == "Qwen3Model" and is_dense(decoder)


def _last_hidden(
    decoder: Any,
    ids_BT: torch.Tensor,
    arguments: Mapping[str, Any],
    row_B: torch.Tensor,
    last_B: torch.Tensor,
    mix: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor],
    through: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
) -> torch.Tensor:
    """hidden_BH of a decoder at position last_B of row_B, after its final norm.

    arguments: of each layer; position_ids (1 × T), and where sequences begin. mix: the last layer's attention of one query a sequence.
    through: all layers before, with cosines and sines of the positions; None = the model's own, one by one.
    """
    hidden_BTH = decoder.embed_tokens(ids_BT)
    cosine_1TD, sine_1TD = decoder.rotary_emb(hidden_BTH, arguments["position_ids"])
    *layers, last = decoder.layers
    if through:
        hidden_BTH = through(hidden_BTH, cosine_1TD[0], sine_1TD[0])
    else:
        for layer in layers:
            hidden_BTH = layer(hidden_BTH, attention_mask=None, position_embeddings=(cosine_1TD, sine_1TD), **arguments)
    parts = LayerParts(last)
    normed_BTH, attention = parts.input_norm(hidden_BTH), parts.attention
    query_norm, key_norm = parts.head_norms or (_as_it_is, _as_it_is)
    shape = (*ids_BT.shape, -1, parts.head_dim)
    key_BTKD = key_norm(attention.k_proj(normed_BTH).view(shape))
    key_BKTD = rotated(key_BTKD, cosine_1TD[:, :, None], sine_1TD[:, :, None]).transpose(1, 2)
    value_BKTD = attention.v_proj(normed_BTH).view(shape).transpose(1, 2)
    query_B1QD = query_norm(attention.q_proj(normed_BTH[row_B, last_B]).view(len(last_B), 1, -1, parts.head_dim))
    turn = cosine_1TD[0, last_B][:, None, None], sine_1TD[0, last_B][:, None, None]
    mixed_BQ1D = mix(rotated(query_B1QD, *turn).transpose(1, 2), key_BKTD, value_BKTD, parts.scaling)
    last_BH = hidden_BTH[row_B, last_B] + attention.o_proj(mixed_BQ1D.flatten(1))
    last_BH = last_BH + parts.mlp(parts.feed_forward_norm(last_BH))
    normed_BH: torch.Tensor = decoder.norm(last_BH)
    return normed_BH


def _as_it_is(states: torch.Tensor) -> torch.Tensor:
    return states


FILE = "scalar_head.safetensors"


class ScalarModel(torch.nn.Module):
    """model: a transformers causal language model, whose own head is not used. first weights: N(0, 1 / inputs) by seed, bias 0."""

    def __init__(self, model: Any, seed: int = 0) -> None:
        super().__init__()
        self.model = model
        hidden = int(model.get_input_embeddings().weight.shape[1])
        self.head = torch.nn.Linear(hidden, 1)
        with torch.no_grad():
            stream = torch.Generator().manual_seed(int(fingerprint([seed, "head.weight"]), 16) % 2**63)
            self.head.weight.normal_(0.0, 1 / math.sqrt(hidden), generator=stream)
            self.head.bias.zero_()

    @property
    def config(self) -> Any:
        """Of the language model."""
        return self.model.config

    def get_input_embeddings(self) -> Any:
        """Of the language model."""
        return self.model.get_input_embeddings()

    def save_head(self, folder: Path) -> None:
        """Writes the head beside a saved language model."""
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in self.head.state_dict().items()}, folder / FILE
        )


def language_model(model: Any) -> Any:
    """The causal language model that a scalar head stands on, or the model itself."""
    return model.model if isinstance(model, ScalarModel) else model


def last_scalar(
    model: ScalarModel, ids_BT: torch.Tensor, ends: torch.Tensor | PackedRow, routing: Routing | None = None
) -> torch.Tensor:
    """scalar_B in float32 behind each sequence's last real token. The arguments: see `last_hidden`."""
    scalar_B1: torch.Tensor = model.head(last_hidden(model.model, ids_BT, ends, routing))
    return scalar_B1.squeeze(-1).float()


def load_head(model: Any, folder: Path) -> ScalarModel:
    """A language model with the head that a folder holds. Raises DataError where there is none that fits it."""
    whole = ScalarModel(model)
    try:
        whole.head.load_state_dict(load_file(folder / FILE))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise DataError(
            f"{folder / FILE} is not the head of this model ({str(error).splitlines()[0]}). "
            "Fetch the whole folder again."
        ) from error
    return whole
