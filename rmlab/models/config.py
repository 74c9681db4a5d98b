"""The shape of a language model, and its adapters."""

from dataclasses import dataclass, field

from rmlab.errors import UsageError
from rmlab.fingerprint import UNHASHED


@dataclass
class TokenizerConfig:
    """Byte-level BPE trained on the supervised part. vocab_size counts the special tokens too."""

    vocab_size: int = 2048


@dataclass
class ModelConfig:
    """A Qwen3-shaped causal language model (transformers' Qwen3 classes) with random initialisation.

    head_dim is independent in Qwen3 (not hidden_size / heads). max_positions limits the context in tokens.
    experts: number in every layer, 0 = dense. A token goes through experts_per_token of them, each of size expert_size (dense layers
    have intermediate_size); balance: weight of the balance loss (`rmlab.models.moe`).
    pretrained: a local folder with a model and its tokenizer; the shape and `tokenizer` above are then ignored.
    """

    name: str = "scratch"
    hidden_size: int = 128
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    intermediate_size: int = 384
    experts: int = 0
    experts_per_token: int = 2
    expert_size: int = 128
    balance: float = 0.01
    max_positions: int = 1024
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    pretrained: str | None = field(default=None, metadata=UNHASHED)

    def __post_init__(self) -> None:
        for name in ("hidden_size", "layers", "heads", "kv_heads", "head_dim", "intermediate_size", "max_positions"):
            if getattr(self, name) < 1:
                raise UsageError(f"model.{name}={getattr(self, name)}: must be at least 1")


@dataclass
class LoraConfig:
    """rank: rank of every adapter; 0 = no adapters, all weights are trained. alpha: the adapter's product is scaled by alpha / rank.

    A rank of 16 on all projections of SmolLM2-135M has 4.9 M weights: 9.8 MB in bfloat16.
    """

    rank: int = 0
    alpha: float = 32.0
    dropout: float = 0.0
