"""How much faster do several GPUs train one verifier than one, and are the losses the same?

    python experiments/benchmarks/multi_gpu.py [--shape 0.6b] [--gpus 1 2] [--steps 12 --skip 6] [--shortest 1536 --longest 8192]
    python experiments/benchmarks/multi_gpu.py --shape 30b-a3b --layers 8 --gpus 2 --shortest 32768 --longest 32768 --batch 4

A model of random start, examples of random tokens whose lengths lie between two bounds, `rmlab.training.supervised.train` as it is,
in processes that `rmlab.launchers.rank_processes` starts. Counted are real tokens, over the time from the end of step `--skip` to the end
of the last: every length that is new to a GPU costs it a plan of its attention, once, and several GPUs do not share these. Memory is the
most that torch held on one GPU. Each line is printed as soon as it is known.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rmlab.benchmark import BenchmarkRow, random_model, run_script
from rmlab.launchers.rank_processes import run_ranks
from rmlab.models.cost import KNOWN, ModelShape
from rmlab.models.moe import use_grouped_experts

SHAPES = {
    "tiny": ModelShape(64, 3, 4, 2, 16, 128, 512),
    "tiny-moe": ModelShape(64, 3, 4, 2, 16, 0, 512, experts=4, experts_per_token=2, expert_size=32, tied=False),
    "0.6b": KNOWN["Qwen3-0.6B"],
    "30b-a3b": KNOWN["Qwen3-30B-A3B"],
}
"""Two of Qwen3, and two that any machine trains in seconds."""


@dataclass(frozen=True)
class Measured:
    """Of one number of GPUs. losses: of every step. memory: GiB, the most on rank 0. parameters: of the model."""

    tokens_per_second: float
    losses: list[float]
    memory: float
    parameters: int
    card: str


def model_of(shape: ModelShape, context: int, device: str) -> Any:
    """A model of random start, made on the device; the same on every call."""
    model = random_model(shape, device, context)
    if shape.experts:
        use_grouped_experts(model)
    return model


def measure(asked: argparse.Namespace) -> Measured:
    """What one rank does; rank 0's answer counts."""
    import torch

    from rmlab.training.batching import plan_batches
    from rmlab.training.config import Dtype, MicroBatchRuntimeConfig, OptimizerConfig, Parallel, TrainingConfig
    from rmlab.training.device import accelerator, device_name
    from rmlab.training.ranks import Ranks
    from rmlab.training.replicas import spread
    from rmlab.training.supervised import Example, train

    shape = SHAPES[asked.shape]
    shape = replace(shape, layers=asked.layers or shape.layers)
    training = TrainingConfig(
        epochs=1,
        batch_size=asked.batch,
        micro_batch_size=asked.micro,
        dtype=Dtype(asked.dtype),
        threads=asked.threads,
        checkpointing=asked.checkpointing,
    )
    runtime = MicroBatchRuntimeConfig(
        device=asked.device, progress=False, offload=asked.offload, compiled=asked.compiled
    )
    if asked.sharded and "RANK" not in os.environ:
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    device = accelerator(training, runtime)
    ranks = Ranks.of(device)
    rng = np.random.default_rng(0)
    lengths = rng.integers(asked.shortest, asked.longest + 1, size=asked.batch * asked.steps)
    examples = [
        Example(rng.integers(10, shape.vocabulary, size=n).astype(np.int32), int(1 + i % 2))
        for i, n in enumerate(lengths)
    ]
    whole = model_of(shape, asked.longest, str(ranks.device)) if ranks.is_first else None
    parameters = sum(p.numel() for p in whole.parameters()) if whole is not None else 0
    model = whole
    if ranks.number > 1 or asked.sharded:
        model = spread(whole, training.dtype, ranks, Parallel.fsdp if asked.sharded else Parallel(asked.parallel))
    del whole
    if ranks.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    ends = list[float]()  # of steps
    took = train(
        model,
        examples,
        0,
        device,
        optimizer=OptimizerConfig(learning_rate=asked.rate),
        training=training,
        runtime=runtime,
        seed=0,
        log=lambda *_: ends.append(time.perf_counter()),
    )
    counted = [int(lengths[i]) for batch in plan_batches(lengths.tolist(), training, 0)[asked.skip :] for i in batch]
    speed = sum(counted) / (ends[-1] - ends[asked.skip - 1]) if ranks.is_first else 0.0
    memory = torch.cuda.max_memory_allocated() / 2**30 if ranks.device.type == "cuda" else 0.0
    return Measured(speed, [row[1] for row in took.history], memory, parameters, device_name(ranks.device.type))


def compare(asked: argparse.Namespace) -> dict[int, Measured]:
    """By number of GPUs; a line each."""
    found: dict[int, Measured] = {}
    for gpus in asked.gpus:
        with tempfile.TemporaryDirectory() as folder:
            found[gpus] = one = run_ranks(
                partial(measure, asked), gpus, Path(folder) / "ranks.log", ["torch", "transformers", "accelerate"]
            )
        first = found[asked.gpus[0]]
        print(
            f"{gpus} x {one.card}, {asked.shape}, {one.parameters / 1e9:.2f} B parameters: {one.tokens_per_second:,.0f} tokens/s "
            f"({one.tokens_per_second / first.tokens_per_second:.2f} of the first line), {one.memory:.1f} GiB a GPU, losses "
            f"{' '.join(f'{loss:.4f}' for loss in one.losses)}, at most {apart(one, first):.1e} from the first line's",
            flush=True,
        )
    return found


def apart(one: Measured, other: Measured) -> float:
    """The largest difference of their losses, step by step."""
    return max(abs(a - b) for a, b in zip(one.losses, other.losses, strict=True))


def options(given: Sequence[str]) -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shape", choices=list(SHAPES), default="0.6b")
    parser.add_argument("--layers", type=int, default=0, help="in place of the shape's own")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--skip", type=int, default=6, help="steps that are not counted, at least 1")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--micro", type=int, default=4)
    parser.add_argument("--shortest", type=int, default=1536)
    parser.add_argument("--longest", type=int, default=8192)
    parser.add_argument("--rate", type=float, default=1e-5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--offload", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--parallel", choices=["auto", "ddp", "fsdp"], default="auto")
    parser.add_argument(
        "--sharded", action="store_true", help="fsdp, on one GPU too, to see what sharding costs by itself"
    )
    asked = parser.parse_args(given)
    if not 1 <= asked.skip < asked.steps:
        parser.error(f"--skip {asked.skip} of {asked.steps} steps: leave out at least 1 and count at least 1")
    return asked


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Of each number of GPUs: its speed beside that of the first, the memory of one GPU, and how far its losses lie apart."""
    asked = options(arguments)
    found = compare(asked)
    first = found[asked.gpus[0]]
    shape = f"{asked.shape}, {asked.shortest} to {asked.longest} tokens"
    rows = []
    for gpus, one in found.items():
        rows += [
            BenchmarkRow(f"{gpus} GPUs, {shape}", "tokens/s", one.tokens_per_second, theirs=first.tokens_per_second),
            BenchmarkRow(f"{gpus} GPUs, {shape}: of one GPU", "GiB", one.memory, theirs=first.memory),
            BenchmarkRow(f"{gpus} GPUs, {shape}: losses apart", "nats", apart(one, first)),
        ]
    return rows


if __name__ == "__main__":
    run_script(main)
