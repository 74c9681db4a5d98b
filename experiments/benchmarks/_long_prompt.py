"""The part `long` of `scoring.py`: one prompt through Qwen3-30B-A3B's shape, within the memory of an 80 GB card."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rmlab.benchmark import BenchmarkRow
from rmlab.verifiers.answer import AnswerTokens
from rmlab.verifiers.scoring import score_ids

CARD_BYTES = 79 * 2**30
"""Of an "80 GB" card that a process can have."""


def long(layers: int, prompt: Sequence[NDArray[np.int32]], answer: AnswerTokens, device: str) -> list[BenchmarkRow]:
    """Scores one prompt with the shape's first `layers` layers, of random start."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    if device == "cuda":
        torch.cuda.empty_cache()
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(CARD_BYTES / whole, 1.0))
    shape: dict[str, Any] = {
        "vocab_size": 151_936,
        "hidden_size": 2048,
        "num_hidden_layers": layers,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "norm_topk_prob": True,
        "max_position_embeddings": 262_144,
        "rope_theta": 10_000_000.0,
    }
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model: Any = Qwen3MoeForCausalLM(Qwen3MoeConfig(**shape))
    torch.set_default_dtype(torch.float32)
    held = torch.cuda.memory_allocated() / 2**30 if device == "cuda" else 0.0
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {held:.1f} GiB", flush=True)
    tokens = len(prompt[0])
    start = time.perf_counter()
    score = score_ids(model, prompt, answer, 0, batch_tokens=65536)[0]
    took = time.perf_counter() - start
    memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
    print(f"{tokens:,} tokens, {layers} layers: {took:.1f} s, {memory:.1f} GiB at most, score {score:.4f}", flush=True)
    name = f"scoring {tokens:,} tokens, Qwen3-30B-A3B's shape, {layers} layers"
    return [BenchmarkRow(name, "s", took), BenchmarkRow(f"{name}: memory", "GiB", memory)]
