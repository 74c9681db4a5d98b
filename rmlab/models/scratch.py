"""A Qwen3-shaped model of random initialisation, dense or with experts.

Each weight has a random stream of its own, named by seed and parameter: the first weights do not depend on global state,
on the order of construction or on the version of transformers, and two shapes share what they have in common.
"""

import math
from typing import Any

from rmlab.errors import UsageError
from rmlab.fingerprint import fingerprint
from rmlab.models.config import ModelConfig


def scratch_model(config: ModelConfig, vocab_size: int, seed: int) -> Any:
    """A `Qwen3ForCausalLM`, or `Qwen3MoeForCausalLM` where there are experts, in float32 on the CPU; embeddings tied.

    Linear weights are drawn from N(0, 1 / inputs), norms start at 1. Raises UsageError for a shape that is impossible.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

    if config.heads % config.kv_heads:
        raise UsageError(f"model.heads={config.heads} must be a multiple of model.kv_heads={config.kv_heads}")
    if config.head_dim % 2:
        raise UsageError(f"model.head_dim={config.head_dim} must be even (rotary positions)")
    if config.experts and not 1 <= config.experts_per_token <= config.experts:
        raise UsageError(
            f"model.experts_per_token={config.experts_per_token} must be 1 to model.experts={config.experts}"
        )
    shape: dict[str, Any] = {
        "vocab_size": vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.intermediate_size,
        "max_position_embeddings": config.max_positions,
        "tie_word_embeddings": True,
        "use_cache": False,
    }
    with torch.random.fork_rng(devices=[]):
        if config.experts:
            model: Any = Qwen3MoeForCausalLM(
                Qwen3MoeConfig(
                    **shape,
                    num_experts=config.experts,
                    num_experts_per_tok=config.experts_per_token,
                    moe_intermediate_size=config.expert_size,
                    norm_topk_prob=True,
                    router_aux_loss_coef=config.balance,
                )
            )
        else:
            model = Qwen3ForCausalLM(Qwen3Config(**shape))
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            if parameter.ndim == 1:
                parameter.fill_(1.0)
            else:  # outputs × inputs, behind the expert's number where there are experts
                stream = torch.Generator().manual_seed(int(fingerprint([seed, name]), 16) % 2**63)
                parameter.normal_(0.0, 1 / math.sqrt(parameter.shape[-1]), generator=stream)
    return model
