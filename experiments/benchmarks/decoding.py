"""How long do a decoding step and a reading of the rollout engine take, and how far is that from what memory and arithmetic allow?

    python experiments/benchmarks/decoding.py [--device cuda --dtype bfloat16 --slots 512]

A model of SmolLM2-135M's shape and random start (no weights are needed: the time does not depend on them). Steps are measured as
they run, as CUDA graphs where there is a GPU; readings kernel by kernel and as graphs. The floor of a step is the larger of its bytes
(weights once, keys and values of the span) over the card's memory bandwidth, and its operations over the arithmetic's rate; both rates
are measured here, by a copy and by a product of matrices.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from rmlab.benchmark import BenchmarkRow, run_script

SHAPE = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
}


def timed(what: Callable[[], Any], device: str, repeats: int) -> float:
    """Seconds, the median of `repeats` after two that warm up."""
    found = []
    for _ in range(repeats + 2):
        if device == "cuda":
            torch.cuda.synchronize()
        before = time.perf_counter()
        what()
        if device == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - before)
    return statistics.median(found[2:])


def rates(device: str, dtype: torch.dtype, repeats: int) -> tuple[float, float]:
    """Bytes a second of a copy (read and written), operations a second of a product of matrices."""
    side = 8192 if device == "cuda" else 1024
    source = torch.randn(side, side, device=device, dtype=dtype)
    target = torch.empty_like(source)
    copied = 2 * source.numel() * source.element_size() / timed(lambda: target.copy_(source), device, repeats)
    return copied, 2 * side**3 / timed(lambda: source @ target, device, repeats)


@torch.inference_mode()
def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Measures on this machine."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--capacity", type=int, default=768)
    parser.add_argument("--layers", type=int, default=SHAPE["num_hidden_layers"])
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args(arguments)
    from transformers import LlamaConfig, LlamaForCausalLM

    from rmlab.models.generation import CapturedReads, SlotDecoder

    cuda, dtype = given.device == "cuda", getattr(torch, given.dtype)
    torch.manual_seed(0)
    with torch.inference_mode(False):
        config = LlamaConfig(
            **{**SHAPE, "num_hidden_layers": given.layers}, vocab_size=8000, max_position_embeddings=2048, head_dim=64
        )
        model = LlamaForCausalLM(config).to(given.device)
    decoder = SlotDecoder(model, given.slots, given.capacity, 1, given.device, dtype, graphs=cuda)
    name = torch.cuda.get_device_name() if cuda else "cpu"
    bandwidth, arithmetic = rates(given.device, dtype, given.repeats)
    print(
        f"{name}, {given.dtype}, {model.num_parameters():,} parameters; a copy moves {bandwidth / 1e12:.2f} TB/s, a product "
        f"computes {arithmetic / 1e12:.0f} TFLOP/s"
    )
    decoder.last_B.fill_(given.capacity - 1)
    found: list[BenchmarkRow] = []
    weights = model.num_parameters() * dtype.itemsize
    for width in (w for w in (64, 256, 512) if w <= given.slots):
        for span in (256, 384):

            def step(width: int = width, span: int = span) -> None:
                decoder.position_B.fill_(span - 20)
                decoder.active_B.fill_(True)
                for _ in range(8):
                    decoder._step(width, span)

            took = timed(step, given.device, given.repeats) / 8
            cache = 2 * given.layers * width * decoder.cached.kv_heads * span * decoder.cached.head_dim * dtype.itemsize
            floor = max((weights + cache) / bandwidth, 2 * model.num_parameters() * width / arithmetic)
            print(
                f"step of {width} slots, span {span}: {took * 1e3:.2f} ms, floor {floor * 1e3:.2f} ms; {width / took:,.0f} tokens/s"
            )
            found.append(BenchmarkRow(f"step of {width} slots, span {span}", "ms", took * 1e3, floor * 1e3))
    reads = CapturedReads(decoder.cached, capture=cuda)
    for rows, width, span in (
        (16, 16, 256),
        (64, 16, 256),
        (128, 16, 256),
        (128, 32, 384),
        (512, 32, 256),
        (64, 176, 256),
    ):
        if rows > given.slots:
            continue
        ids = torch.randint(2, 8000, (rows, width), device=given.device)
        row = torch.arange(rows, device=given.device)
        start, length = torch.full_like(row, span - width - 8), torch.full_like(row, width)
        plain = timed(lambda: decoder.cached.read(ids, row, start, length, span), given.device, given.repeats)  # noqa: B023
        graph = timed(lambda: reads.read(ids, row, start, length, span), given.device, given.repeats)  # noqa: B023
        floor = max(weights / bandwidth, 2 * model.num_parameters() * rows * width / arithmetic)
        print(
            f"reading of {rows} × {width}, span {span}: kernel by kernel {plain * 1e3:.2f} ms, as the engine does it "
            f"{graph * 1e3:.2f} ms, floor {floor * 1e3:.2f} ms"
        )
        found.append(
            BenchmarkRow(f"reading of {rows} × {width}, span {span}", "ms", graph * 1e3, floor * 1e3, plain * 1e3)
        )
    if cuda:
        _kernels(decoder, given.slots)
    return found


def _kernels(decoder: Any, width: int) -> None:
    """Where a step's time goes, by kernel."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as traced:
        for _ in range(3):
            decoder._draw(width, 256)
        torch.cuda.synchronize()
    print(
        traced.key_averages()
        .table(sort_by="cuda_time_total", row_limit=16, max_name_column_width=60)
        .split("Self CUDA time total")[0]
    )


if __name__ == "__main__":
    run_script(main)
