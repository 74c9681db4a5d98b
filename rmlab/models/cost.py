"""How many weights has a model of this shape, and how many operations does it take to read and to train on a text?

Pure arithmetic over a shape, no torch: `rmlab plan` and the benchmarks count alike. An operation is a multiplication or an addition:
a product of an m × k and a k × n matrix has 2mkn. Attention is causal and counts the pairs that are seen, n (n + 1) / 2 of n tokens,
which is what kernels compute. Norms, rotary positions and activation functions are left out (below 1 % of the operations).
The backward pass of a weight that is trained takes twice its forward pass, once for the gradient of the input and once for its own
(Kaplan et al. 2020, arXiv 2001.08361, section 2.1; Chowdhery et al. 2022, arXiv 2204.02311, appendix B, whose MFU is the one here).
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from rmlab.errors import DataError
from rmlab.models.config import ModelConfig

LONG_MEAN = 1024
"""Tokens of a packed row's sequences in the mean from which on cuDNN attends in training: lengths are rounded up, so that its plans are
few (`rmlab.models.attention`)."""
LONG_SEQUENCE = 32_768
"""Tokens of a single sequence from which on cuDNN attends in scoring: 1.7 times as fast as FlashAttention (131,072 tokens of 32 heads of
128 on an H200: 587 and 351 TFLOP/s), but it plans every new length anew."""
GRAPHED_WORK = 2e12
"""Parameters × tokens of a row up to which CUDA graphs of updates pay. What is larger keeps the device busy, and its activations are not to
be held."""


@dataclass(frozen=True)
class ModelShape:
    """What weights and operations follow from. intermediate_size: of a dense layer, 0 where every layer has experts.

    experts: of every layer, 0 = dense; a token goes through experts_per_token of them, each of expert_size. tied: the head is the
    embedding. head_norms: queries and keys are normalised (Qwen3). projection_bias: queries, keys and values have one (Qwen2).
    """

    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocabulary: int
    experts: int = 0
    experts_per_token: int = 0
    expert_size: int = 0
    tied: bool = True
    head_norms: bool = True
    projection_bias: bool = False
    positions: int = 0

    @property
    def queries(self) -> int:
        """Width of all query heads."""
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        """Width of all key heads, and of all value heads."""
        return self.kv_heads * self.head_dim

    @property
    def attention_weights(self) -> int:
        """Of one layer's four projections."""
        return self.hidden_size * (2 * self.queries + 2 * self.keys) + (
            (self.queries + 2 * self.keys) if self.projection_bias else 0
        )

    @property
    def feed_forward_weights(self) -> int:
        """Of one layer: gate, up and down, of every expert, and the router."""
        if self.experts:
            return self.experts * self.hidden_size * (3 * self.expert_size + 1)
        return 3 * self.hidden_size * self.intermediate_size

    @property
    def active_feed_forward_weights(self) -> int:
        """Those that one token meets."""
        if self.experts:
            return self.hidden_size * (3 * self.experts_per_token * self.expert_size + self.experts)
        return self.feed_forward_weights

    @property
    def embedding_weights(self) -> int:
        """One row for each token of the vocabulary."""
        return self.vocabulary * self.hidden_size

    @property
    def weights(self) -> int:
        """All of them."""
        norms = self.layers * (2 * self.hidden_size + (2 * self.head_dim if self.head_norms else 0)) + self.hidden_size
        layer = self.attention_weights + self.feed_forward_weights
        return self.layers * layer + norms + self.embedding_weights * (1 if self.tied else 2)

    @property
    def active_weights(self) -> int:
        """Those that one token is multiplied with, the head among them, the embedding (a look-up) not."""
        return (
            self.layers * (self.attention_weights + self.active_feed_forward_weights)
            + self.vocabulary * self.hidden_size
        )

    def adapter_weights(self, rank: int) -> int:
        """Of LoRA adapters of that rank on every projection that `rmlab.models.lora` names; experts have none."""
        attention = 2 * (self.hidden_size + self.queries) + 2 * (self.hidden_size + self.keys)
        feed_forward = 0 if self.experts else 3 * (self.hidden_size + self.intermediate_size)
        return self.layers * rank * (attention + feed_forward)


KNOWN: dict[str, ModelShape] = {
    "SmolLM2-135M": ModelShape(576, 30, 9, 3, 64, 1536, 49152, head_norms=False, positions=8192),
    "SmolLM2-360M": ModelShape(960, 32, 15, 5, 64, 2560, 49152, head_norms=False, positions=8192),
    "SmolLM2-1.7B": ModelShape(2048, 24, 32, 32, 64, 8192, 49152, head_norms=False, positions=8192),
    "Qwen3-0.6B": ModelShape(1024, 28, 16, 8, 128, 3072, 151936, positions=40960),
    "Qwen3-1.7B": ModelShape(2048, 28, 16, 8, 128, 6144, 151936, positions=40960),
    "Qwen3-4B": ModelShape(2560, 36, 32, 8, 128, 9728, 151936, positions=40960),
    "Qwen3-8B": ModelShape(4096, 36, 32, 8, 128, 12288, 151936, tied=False, positions=40960),
    "Qwen3-14B": ModelShape(5120, 40, 40, 8, 128, 17408, 151936, tied=False, positions=40960),
    "Qwen3-32B": ModelShape(5120, 64, 64, 8, 128, 25600, 151936, tied=False, positions=40960),
    "Qwen3-30B-A3B": ModelShape(2048, 48, 32, 4, 128, 0, 151936, 128, 8, 768, tied=False, positions=40960),
}
"""Shapes of open models, by the name of their repository: from their config.json. So a plan needs no weights."""


def known_shape(name: str) -> tuple[ModelShape, str] | None:
    """Shape and name of the open model that a name means: `Qwen/Qwen3-0.6B`, `hf:Qwen/Qwen3-0.6B@main`, `models/qwen3_0.6b`,
    `Qwen3-4B-Instruct-2507`; None for another word."""
    plain = re.sub(r"[^a-z0-9]", "", name.partition("@")[0].rstrip("/").rpartition("/")[2].removeprefix("hf:").lower())
    fitting = [known for known in KNOWN if plain.startswith(re.sub(r"[^a-z0-9]", "", known.lower()))]
    return (KNOWN[longest], longest) if (longest := max(fitting, key=len, default="")) else None


def shape_of(model: ModelConfig) -> ModelShape:
    """The shape of a model of random start, as `rmlab.models.load.scratch_model` builds it."""
    return ModelShape(
        **{
            name: getattr(model, name) for name in ("hidden_size", "layers", "heads", "kv_heads", "head_dim", "experts")
        },
        intermediate_size=0 if model.experts else model.intermediate_size,
        vocabulary=model.tokenizer.vocab_size,
        experts_per_token=model.experts_per_token if model.experts else 0,
        expert_size=model.expert_size if model.experts else 0,
        positions=model.max_positions,
    )


def read_shape(folder: Path) -> ModelShape:
    """The shape that a folder's config.json states. Raises DataError where it states none."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        return _shape_from(config)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path} does not say what shape the model has ({error}). Name a folder with a model of transformers, or one of "
            f"{', '.join(KNOWN)}."
        ) from error


def _shape_from(config: Mapping[str, Any]) -> ModelShape:
    heads = int(config["num_attention_heads"])
    experts = int(config.get("num_experts") or config.get("num_local_experts") or 0)
    family = str(config.get("model_type", ""))
    return ModelShape(
        hidden_size=int(config["hidden_size"]),
        layers=int(config["num_hidden_layers"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or config["hidden_size"] // heads),
        intermediate_size=0 if experts else int(config["intermediate_size"]),
        vocabulary=int(config["vocab_size"]),
        experts=experts,
        experts_per_token=int(config["num_experts_per_tok"]) if experts else 0,
        expert_size=int(config.get("moe_intermediate_size") or config["intermediate_size"]) if experts else 0,
        tied=bool(config.get("tie_word_embeddings", False)),
        head_norms=family.startswith("qwen3"),
        projection_bias=family == "qwen2",
        positions=int(config.get("max_position_embeddings") or 0),
    )


@dataclass(frozen=True)
class Reading:
    """What is read, as far as operations depend on it. tokens, pairs (of a token with each that it sees): sums over sequences.

    answers: positions whose logits are computed; every_position: the last layer is computed at all positions, not at the answers alone.
    """

    sequences: int
    tokens: int
    pairs: int
    answers: int
    every_position: bool = False

    def scaled(self, times: float) -> "Reading":
        """The same so many times over."""
        return replace(
            self, **{name: round(getattr(self, name) * times) for name in ("sequences", "tokens", "pairs", "answers")}
        )


def reading(lengths: Iterable[int], answers: int | None = None, every_position: bool = False) -> Reading:
    """Of sequences of these lengths. answers: positions with logits, None = the last of each sequence."""
    length_N = list(lengths)
    pairs = sum(n * (n + 1) // 2 for n in length_N)
    return Reading(len(length_N), sum(length_N), pairs, len(length_N) if answers is None else answers, every_position)


@dataclass(frozen=True)
class Flops:
    """Operations. projections: matrix products of the layers. attention: scores and their mixtures. head: logits.

    recomputed: forward passes done again under checkpointing, which an MFU does not count.
    """

    projections: float = 0.0
    attention: float = 0.0
    head: float = 0.0
    recomputed: float = 0.0

    @property
    def model(self) -> float:
        """What the model asks for, however it is computed: the numerator of an MFU."""
        return self.projections + self.attention + self.head

    @property
    def total(self) -> float:
        """All that is executed."""
        return self.model + self.recomputed

    def __add__(self, other: "Flops") -> "Flops":
        return Flops(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Flops)))


def forward_flops(shape: ModelShape, read: Reading) -> Flops:
    """Of one forward pass without a key-value cache.

    A dense model of random start or of Qwen3 computes its last layer at the answers alone, but for keys and values
    (`rmlab.models.heads`).
    """
    layer = shape.attention_weights + shape.active_feed_forward_weights
    whole = shape.layers if read.every_position else shape.layers - 1
    last = 0.0 if read.every_position else read.tokens * 2 * shape.hidden_size * shape.keys
    projections = 2.0 * (whole * read.tokens * layer + last)
    attention = 4.0 * shape.queries * whole * read.pairs
    if not read.every_position:
        projections += 2.0 * read.answers * (layer - 2 * shape.hidden_size * shape.keys)
        attention += 4.0 * shape.queries * read.answers * (read.tokens / max(read.sequences, 1))
    return Flops(projections, attention, 2.0 * read.answers * shape.embedding_weights)


def training_flops(shape: ModelShape, read: Reading, rank: int = 0, checkpointing: bool = False) -> Flops:
    """Of forward and backward passes. rank: of LoRA adapters, 0 = all weights are trained; frozen weights need no gradient."""
    forward = forward_flops(shape, read)
    every = 2.0 * read.tokens * shape.layers * (shape.attention_weights + shape.active_feed_forward_weights)
    adapters = 2.0 * shape.adapter_weights(rank) * read.tokens * forward.projections / max(every, 1.0)
    passes = 2 if rank else 3
    return Flops(
        projections=passes * forward.projections + 3 * adapters,
        attention=3 * forward.attention,
        head=passes * forward.head,
        recomputed=(forward.projections + forward.attention + adapters) if checkpointing else 0.0,
    )


def mfu(flops: Flops, seconds: float, peak: float) -> float:
    """Model FLOPs utilisation: the share of a device's peak (operations a second) that the model's own operations make."""
    return flops.model / seconds / peak
