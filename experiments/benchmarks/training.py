"""How fast does a verifier train on one GPU, in how much memory, beside a plain loop, TRL's SFTTrainer and the card's own floor?

    python experiments/benchmarks/training.py [--shape smollm2 qwen3_0.6b] [--arm ours before ...] [--steps 12] [--profile]

Models of random start, examples of random tokens and lengths drawn once, bfloat16 arithmetic over float32 weights, the same optimiser.
Counted are real tokens, no padding, from the end of step `--skip` (by then all is compiled) to the end of the last.

MFU: the operations of the model (`rmlab.models.cost`: every layer at every position, attention causal, the head at the answer) over
the card's nominal peak, for all arms alike. We compute the last layer at the answer alone, which is credited as if it were done
everywhere (1/28 to 1/30 of the layers). Nothing is counted that is computed again. The floor is the speed at an MFU of 1.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from experiments.benchmarks._training_arms import ARMS, SHAPES, THEIRS, Clock, Job
from rmlab.benchmark import BenchmarkRow, run_script
from rmlab.planning.cards import card_called


def peak(device: str) -> float:
    """Nominal operations a second of this card, NaN where they are not known."""
    card = card_called(torch.cuda.get_device_name()) if device == "cuda" else None
    return card.flops if card else float("nan")


@dataclass(frozen=True)
class Measured:
    """Tokens and operations a second, GiB at the peak, and a row of the printed table."""

    speed: float
    operations: float
    memory: float
    row: str


def measured(name: str, job: Job) -> Measured:
    """One arm; its row has the profile below where asked for."""
    cuda = job.device == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    clock = Clock(job, [], [])
    began = time.perf_counter()
    seen = ARMS[name](job, clock)
    if cuda:
        torch.cuda.synchronize()
    if clock.profiler:
        clock.profiler.stop()
    counted = seen[job.skip :]
    seconds = clock.ends[-1] - clock.ends[job.skip - 1]
    tokens = sum(map(sum, counted))
    operations = sum(map(job.shape.operations, counted))
    memory = torch.cuda.max_memory_allocated() / 2**30 if cuda else float("nan")
    reserved = torch.cuda.max_memory_reserved() / 2**30 if cuda else float("nan")
    row = (
        f"| {name} | {tokens / seconds:,.0f} | {operations / seconds / peak(job.device):.3f} | {seconds / len(counted) * 1e3:.1f} ms | "
        f"{memory:.1f} ({reserved:.1f}) | {clock.ends[0] - began:.1f} s | {time.perf_counter() - began:.1f} s | "
        f"{clock.losses[0]:.3f} {clock.losses[-1]:.3f} |"
    )
    row += "\n" + clock.shown() if clock.profiler else ""
    return Measured(tokens / seconds, operations / seconds, memory, row)


def compared(found: Mapping[str, Measured], job: Job, shape: str) -> list[BenchmarkRow]:
    """Our arms beside the faster of the others, as far as they were measured."""
    others = [found[name] for name in THEIRS if name in found]
    best = max(others, key=lambda one: one.speed) if others else None
    rows = []
    for name, one in found.items():
        if name in THEIRS:
            continue
        what, most = f"{shape}, {name}", peak(job.device)
        floor = one.speed * most / one.operations if most == most else None
        rows.append(BenchmarkRow(what, "tokens/s", one.speed, floor, best.speed if best else None))
        if most == most:
            rows.append(BenchmarkRow(what, "MFU", one.operations / most, 1.0, best.operations / most if best else None))
            rows.append(BenchmarkRow(what, "GiB", one.memory, None, best.memory if best else None))
    return rows


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Measures on this machine."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=["smollm2", "qwen3_0.6b"])
    parser.add_argument("--arm", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=12, help="optimiser steps of an arm")
    parser.add_argument("--skip", type=int, default=4, help="steps that are not counted")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--batch", type=int, help="examples a step")
    parser.add_argument("--micro-tokens", type=int, help="tokens of one pass")
    options = parser.parse_args(arguments)
    rows = []
    for key in options.shape:
        shape = SHAPES[key]
        shape = replace(
            shape, batch=options.batch or shape.batch, micro_tokens=options.micro_tokens or shape.micro_tokens
        )
        job = Job(shape, options.device, options.steps, options.skip, options.profile)
        title = f"{key}, {shape.lengths[0]} to {shape.lengths[1]} tokens"
        print(f"\n{title}, {shape.batch} examples a step, {shape.micro_tokens} tokens a pass")
        print("| arm | tokens/s | MFU | step | GiB (reserved) | first step | whole | loss |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        found: dict[str, Measured] = {}
        for arm in options.arm:
            try:
                found[arm] = measured(arm, job)
            except (RuntimeError, ImportError, TypeError, ValueError, AttributeError) as error:
                print(f"| {arm} | {type(error).__name__}: {str(error).splitlines()[0][:300]} |", flush=True)
            else:
                print(found[arm].row, flush=True)
        rows += compared(found, job, title)
    return rows


if __name__ == "__main__":
    run_script(main)
