"""The longest example that one card trains on, and what a step takes: the 0.6B shape, weights, gradients and moments included.

    python experiments/benchmarks/long_context.py [--gib 78] [--first 32768] [--arm checkpointing ...]

One example a step, bfloat16 arithmetic over float32 weights. Lengths double from `--first` until memory is used up, then the last gap
is halved until it is `--grain`. `--gib` bounds what the process may take, as on a smaller card: one of 80 GB leaves 78 GiB.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rmlab.benchmark import BenchmarkRow, run_script
from rmlab.configuration import load_file
from rmlab.training import supervised
from rmlab.training.config import Dtype, MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.training.device import accelerator

ARMS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "checkpointing": {"checkpointing": True},
    "checkpointing, compiled": {"checkpointing": True, "compiled": True},
}


def step(model: Any, shape: Any, length: int, arm: dict[str, Any], device: str) -> tuple[float, float]:
    """Seconds of one step on an example of `length` tokens, and GiB at the peak."""
    examples = replace(shape, lengths=(length, length)).examples(1)
    training = TrainingConfig(
        epochs=1.0,
        batch_size=1,
        micro_batch_size=1,
        dtype=Dtype.bfloat16,
        checkpointing=arm.get("checkpointing", False),
    )
    runtime = MicroBatchRuntimeConfig(
        device=device, progress=False, compiled=arm.get("compiled", False), checkpoint_seconds=1e9
    )
    ends = [time.perf_counter()]
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    supervised.train(
        model, examples, 0, accelerator(training, runtime), optimizer=OptimizerConfig(learning_rate=1e-6), training=training,
        runtime=runtime, seed=0, log=lambda *_: ends.append(time.perf_counter()),
    )  # fmt: skip
    return ends[-1] - ends[-2], torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else float("nan")


def fits(trial: Callable[[int], None], length: int) -> bool:
    """Whether a trial of this length goes through; what it left is given back."""
    try:
        trial(length)
    except torch.OutOfMemoryError:
        print(f"| {length:,} | out of memory | | | |", flush=True)
        return False
    finally:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return True


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Measures on this machine."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shape", default="qwen3_0.6b")
    parser.add_argument("--arm", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--gib", type=float, default=78.0)
    parser.add_argument("--first", type=int, default=32_768)
    parser.add_argument("--most", type=int, default=1 << 20)
    parser.add_argument("--grain", type=int, default=65_536)
    options = parser.parse_args(arguments)
    training = load_file(Path(__file__).with_name("training.py"))
    shape, cuda = training.SHAPES[options.shape], options.device == "cuda"
    name = torch.cuda.get_device_name() if cuda else "cpu"
    if cuda:
        whole = torch.cuda.get_device_properties(0).total_memory / 2**30
        torch.cuda.set_per_process_memory_fraction(min(options.gib / whole, 1.0))
    print(f"{name}, at most {options.gib:.0f} GiB, torch {torch.__version__}, {options.shape}", flush=True)
    rows = []
    for arm in options.arm:
        model = shape.model(options.device)
        print(f"\n{arm}\n| tokens | s a step | tokens/s | MFU | GiB |\n|---|---|---|---|---|", flush=True)

        def trial(length: int, arm: str = arm, model: Any = model) -> None:
            seconds, memory = step(model, shape, length, ARMS[arm], options.device)
            share = shape.operations([length]) / seconds / training.peak(options.device)
            print(f"| {length:,} | {seconds:.2f} | {length / seconds:,.0f} | {share:.3f} | {memory:.1f} |", flush=True)

        step(model, shape, 2048, ARMS[arm], options.device)  # compiles, and loads what is loaded once
        low, high = 0, options.first
        while high <= options.most and fits(trial, high):
            low, high = high, 2 * high
        while high - low > options.grain and low and high <= options.most:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(trial, middle) else (low, middle)
        print(f"longest: {low:,}", flush=True)
        if low:
            rows.append(
                BenchmarkRow(f"{options.shape}, longest example in {options.gib:.0f} GiB, {arm}", "tokens", float(low))
            )
    return rows


if __name__ == "__main__":
    run_script(main)
