"""A Qwen3-shaped model of random initialisation.

Each weight has a random stream of its own, named by seed and parameter: the first weights do not depend on global state,
on the order of construction or on the version of transformers, and two shapes share what they have in common.
"""

import math
from typing import Any

from rmlab.errors import UsageError
from rmlab.fingerprint import fingerprint
from rmlab.models.config import ModelConfig


def scratch_model(config: ModelConfig, vocab_size: int, seed: int) -> Any:
    """A `Qwen3ForCausalLM` in float32 on the CPU, input and output embeddings tied.

    Linear weights are drawn from N(0, 1 / inputs), norms start at 1. Raises UsageError for a shape that is impossible.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    if config.heads % config.kv_heads:
        raise UsageError(f"model.heads={config.heads} must be a multiple of model.kv_heads={config.kv_heads}")
    if config.head_dim % 2:
        raise UsageError(f"model.head_dim={config.head_dim} must be even (rotary positions)")
    shape = Qwen3Config(
        vocab_size=vocab_size, hidden_size=config.hidden_size, num_hidden_layers=config.layers,
        num_attention_heads=config.heads, num_key_value_heads=config.kv_heads, head_dim=config.head_dim,
        intermediate_size=config.intermediate_size, max_position_embeddings=config.max_positions,
        tie_word_embeddings=True, use_cache=False,
    )
    with torch.random.fork_rng(devices=[]):
        model = Qwen3ForCausalLM(shape)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            if parameter.ndim == 1:
                parameter.fill_(1.0)
            else:
                stream = torch.Generator().manual_seed(int(fingerprint([seed, name]), 16) % 2**63)
                parameter.normal_(0.0, 1 / math.sqrt(parameter.shape[1]), generator=stream)
    return model
