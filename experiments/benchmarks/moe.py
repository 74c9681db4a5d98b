"""How fast are mixtures of experts trained and scored, beside the dense model of equal active size?

    python experiments/benchmarks/moe.py [--device cuda --dtype bfloat16]

Verifiers of random start, prompts of 512 tokens: a dense one, and two mixtures whose tokens go through as many weights (feed-forward
blocks of 8 experts with 2 a token, and of 32 with 4). Each is trained by our loop and scored; the mixtures also with the experts as
transformers computes them over float32 weights under autocast (grouped products that autocast does not convert), and one expert
after the other (`eager`). Floor: the dense model's rate. Of each arm the second of two runs counts.
"""

import argparse
import time
from typing import Any

import numpy as np
import torch

from rmlab.models.config import ModelConfig
from rmlab.models.load import scratch_model
from rmlab.models.moe import GROUPED, experts_of
from rmlab.training.config import Dtype, MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.training.device import accelerator
from rmlab.training.supervised import Example, train
from rmlab.verifiers.answer import AnswerTokens
from rmlab.verifiers.scoring import score_ids

TOKENS, BATCH, VOCABULARY = 512, 64, 8192


def shapes(hidden: int, layers: int, inner: int) -> dict[str, ModelConfig]:
    """A dense model and mixtures of equal active size (but for their routers)."""

    def shape(experts: int, each: int) -> ModelConfig:
        size = inner // each if experts else 1
        heads = hidden // 64
        return ModelConfig(
            hidden_size=hidden,
            layers=layers,
            heads=heads,
            kv_heads=max(heads // 2, 1),
            head_dim=64,
            intermediate_size=inner,
            experts=experts,
            experts_per_token=each,
            expert_size=size,
        )

    return {"dense": shape(0, 2), "8 experts, 2 a token": shape(8, 2), "32 experts, 4 a token": shape(32, 4)}


def main() -> None:
    """Measures on this machine."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--inner", type=int, default=3072)
    parser.add_argument("--steps", type=int, default=10)
    given = parser.parse_args()
    name = torch.cuda.get_device_name() if given.device == "cuda" else "cpu"
    print(f"{name}, torch {torch.__version__}, {given.dtype}", flush=True)
    rng = np.random.default_rng(0)
    ids = rng.integers(3, VOCABULARY, (given.steps * BATCH, TOKENS)).astype(np.int32)
    dense: tuple[float, float, float] | None = None
    for title, shape in shapes(given.hidden, given.layers, given.inner).items():
        model = scratch_model(shape, VOCABULARY, 0).to(given.device)
        ways = [GROUPED, "grouped_mm", "eager"] if experts_of(model) else [""]
        for way in ways:
            if way:
                model.set_experts_implementation(way)
            found = measured(model, ids, given.device, Dtype(given.dtype))
            dense = dense or found
            print(
                f"{title}{', ' + way if way else ''} ({sum(p.numel() for p in model.parameters()):,} parameters): training "
                f"{found[0]:,.0f} tokens/s ({found[0] / dense[0]:.2f} of dense), scoring {found[1]:,.0f} "
                f"({found[1] / dense[1]:.2f}), {found[2]:.1f} GiB",
                flush=True,
            )
        del model


def measured(model: Any, ids: np.ndarray, device: str, dtype: Dtype) -> tuple[float, float, float]:
    """Tokens a second of training and of scoring, and the most GiB."""
    training = TrainingConfig(epochs=1, batch_size=BATCH, micro_batch_size=BATCH // 2, dtype=dtype)
    runtime = MicroBatchRuntimeConfig(device=device, progress=False)
    accelerated = accelerator(training, runtime)
    examples = [Example(row.tolist(), 1 + i % 2) for i, row in enumerate(ids)]
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        took = train(
            model, examples, 0, accelerated, optimizer=OptimizerConfig(), training=training, runtime=runtime, seed=0
        )
    for _ in range(2):
        start = time.perf_counter()
        score_ids(model, list(ids), AnswerTokens(1, 2), 0, batch_tokens=65536, autocast=accelerated.autocast)
        seconds = time.perf_counter() - start
    memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
    return took.tokens / took.seconds, ids.size / seconds, memory


if __name__ == "__main__":
    main()
