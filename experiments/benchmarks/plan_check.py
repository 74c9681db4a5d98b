"""How far are memory and time of real training and scoring steps from what `rmlab plan` says?

    python experiments/benchmarks/plan_check.py [--device cuda] [--cases NAME ...] [--seconds 120]

Models of random start and the shapes of SmolLM2-135M, Qwen3-0.6B and Qwen3-4B train for a few steps by
`rmlab.training.supervised.train`, or score by `rmlab.verifiers.scoring`; lengths are drawn once. In the table `ours` is measured, `theirs`
is the plan: a ratio of 1 is a plan that is right. Memory is torch's largest of allocated bytes; beside it the parts that can be told
apart: what lies there before training, and what the forward pass of a micro-batch leaves for its backward pass.
"""

import argparse
import gc
import math
import statistics
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rmlab.benchmark import BenchmarkRow, random_model, run_script
from rmlab.models.config import LoraConfig
from rmlab.models.cost import KNOWN, ModelShape, mfu, reading, training_flops
from rmlab.models.lora import with_adapters
from rmlab.planning.cards import CARDS, Card, card_called
from rmlab.planning.estimate import Seconds, scoring_seconds, step_seconds
from rmlab.planning.memory import GIB, Memory, TrainingMemory, scoring_memory, training_memory
from rmlab.planning.phases import SLACK, every_position, is_packed, through_packed_layers
from rmlab.training.batching import batches_by_tokens, plan_batches
from rmlab.training.config import Dtype, MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.training.device import accelerator
from rmlab.training.supervised import Example, answer_loss, train
from rmlab.verifiers.answer import AnswerTokens
from rmlab.verifiers.scoring import score_ids

PAD = 1


@dataclass(frozen=True)
class Case:
    """shape: a name of KNOWN. lengths: shortest and longest. batch: examples a step; micro: padded tokens of a micro-batch.

    rank: of adapters. scored: the case scores, with weights in bfloat16, as `rmlab score --dtype bfloat16` does.
    """

    shape: str
    lengths: tuple[int, int]
    batch: int
    micro: int
    rank: int = 0
    checkpointing: bool = False
    scored: bool = False
    steps: int = 5

    @property
    def words(self) -> str:
        """What a row is called."""
        how = (
            [f"rank {self.rank}"] * bool(self.rank) + ["checkpointing"] * self.checkpointing + ["scoring"] * self.scored
        )
        low, high = self.lengths
        return ", ".join(
            [self.shape, f"{low}-{high} tokens" if low < high else f"{high} tokens", f"{self.micro} at once", *how]
        )


CASES = {
    "smollm2": Case("SmolLM2-135M", (300, 500), 256, 32768),
    "qwen_1k5": Case("Qwen3-0.6B", (1000, 2000), 32, 24576),
    "qwen_8k": Case("Qwen3-0.6B", (6000, 8192), 4, 16384),
    "qwen_8k_ck": Case("Qwen3-0.6B", (6000, 8192), 4, 16384, checkpointing=True),
    "qwen_8k_lora": Case("Qwen3-0.6B", (6000, 8192), 4, 16384, rank=16),
    "qwen_32k_lora_ck": Case("Qwen3-0.6B", (32768, 32768), 2, 32768, rank=16, checkpointing=True, steps=3),
    "score_4b_32k": Case("Qwen3-4B", (32768, 32768), 2, 32768, scored=True),
    "score_4b_131k": Case("Qwen3-4B", (131072, 131072), 1, 131072, scored=True),
    "score_06b_2k": Case("Qwen3-0.6B", (1000, 2000), 64, 65536, scored=True),
    "smollm2_ck": Case("SmolLM2-135M", (300, 500), 256, 32768, checkpointing=True),
    "smollm2_small": Case("SmolLM2-135M", (300, 500), 64, 8192),
    "smollm2_lora": Case("SmolLM2-135M", (300, 500), 256, 32768, rank=16),
    "qwen_1k5_ck": Case("Qwen3-0.6B", (1000, 2000), 32, 24576, checkpointing=True),
    "qwen_1k5_small": Case("Qwen3-0.6B", (1000, 2000), 8, 4096),
    "qwen_4b_lora_ck": Case("Qwen3-4B", (6000, 8192), 4, 8192, rank=16, checkpointing=True, steps=3),
}
SMALL = {
    "tiny": Case("tiny", (20, 40), 4, 64, steps=3),
    "tiny_lora_ck": Case("tiny", (20, 40), 4, 64, rank=2, checkpointing=True, steps=3),
    "tiny_score": Case("tiny", (20, 40), 4, 64, scored=True),
}
"""For a machine without a GPU: shows that everything runs."""
TINY = ModelShape(32, 2, 2, 1, 16, 64, 256, positions=4096)


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Measures one case after the other; a case that fails is printed and left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--cases", nargs="+", metavar="NAME", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--seconds", type=float, default=600.0, help="no case begins later than this")
    asked = parser.parse_args(arguments)
    known = CASES if asked.device == "cuda" else SMALL
    card = this_card(asked.device)
    rows: list[BenchmarkRow] = []
    started = time.monotonic()
    for name in asked.cases or known:
        if time.monotonic() - started > asked.seconds:
            print(f"{name}: no time left", flush=True)
            continue
        try:
            case = known[name]
            rows += (measure_scoring if case.scored else measure_training)(case, asked.device, card)
        except Exception:  # the other cases are worth having
            print(f"{name} failed:\n{traceback.format_exc(limit=6)}", flush=True)
        gc.collect()
        if asked.device == "cuda":
            torch.cuda.empty_cache()
    return rows


def this_card(device: str) -> Card:
    """The card of the table that this machine has; an H100 where it is another."""
    name = torch.cuda.get_device_name() if device == "cuda" else ""
    return card_called(name) or CARDS["h100"]


def shape_named(name: str) -> ModelShape:
    """Of a case."""
    return TINY if name == "tiny" else KNOWN[name]


def drawn(case: Case, count: int) -> list[Example]:
    """So many prompts of random tokens."""
    rng = np.random.default_rng(0)
    vocabulary = shape_named(case.shape).vocabulary
    low, high = case.lengths
    return [
        Example(rng.integers(2, vocabulary, int(rng.integers(low, high + 1))).astype(np.int32), 5) for _ in range(count)
    ]


class Peak:
    """Allocated bytes: before training, and behind the forward pass of the largest micro-batch."""

    def __init__(self, device: str) -> None:
        self.cuda = device == "cuda"
        self.kept = 0

    def now(self) -> int:
        """Allocated."""
        return int(torch.cuda.memory_allocated()) if self.cuda else 0

    def largest(self) -> int:
        """Allocated at once since `restart`."""
        return int(torch.cuda.max_memory_allocated()) if self.cuda else 0

    def restart(self) -> None:
        """Forgets the largest so far."""
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()

    def loss(self, model: Any, part: Sequence[Any], pad_id: int, device: Any, routing: Any = None) -> torch.Tensor:
        """The answer's loss, and what its forward pass leaves."""
        before = self.now()
        value = answer_loss(model, part, pad_id, device, routing)
        self.kept = max(self.kept, self.now() - before)
        return value


def measure_training(case: Case, device: str, card: Card) -> Iterator[BenchmarkRow]:
    """Memory and seconds of a step, measured and planned. The first step is left out of the time."""
    shape, training = shape_named(case.shape), training_of(case)
    runtime = MicroBatchRuntimeConfig(device=device, progress=False, micro_batch_tokens=case.micro)
    examples = drawn(case, case.batch * case.steps)
    peak = Peak(device)
    run = accelerator(training, runtime)
    model = random_model(shape, device).to(torch.bfloat16 if case.rank else torch.float32)
    model = with_adapters(model, LoraConfig(rank=case.rank), 0).train()
    weights = peak.now()

    def log(step: int, *_: float) -> None:
        if step == 1:  # by then moments are there
            peak.restart()

    took = train(
        model,
        examples,
        PAD,
        run,
        optimizer=OptimizerConfig(learning_rate=1e-5),
        training=training,
        runtime=runtime,
        seed=0,
        log=log,
        loss=peak.loss,
    )
    memory, times = planned(case, is_packed(training, runtime) and peak.cuda, card)
    read = reading([e.tokens for e in examples]).scaled(1 / case.steps)
    seconds = read.tokens / took.tokens_per_second
    flops = training_flops(shape, read, case.rank, case.checkpointing)
    show(case, memory, peak, weights)
    print(
        f"  step: {seconds * 1e3:.0f} ms measured, {times.total * 1e3:.0f} planned {times.words()}; "
        f"{read.tokens / seconds:,.0f} tokens/s, MFU {mfu(flops, seconds, card.flops):.3f}",
        flush=True,
    )
    yield from compared(case, peak, memory, seconds, times.total)


def training_of(case: Case) -> TrainingConfig:
    """How the examples of a case are trained on."""
    return TrainingConfig(
        epochs=1.0,
        batch_size=case.batch,
        micro_batch_size=case.batch,
        dtype=Dtype.bfloat16,
        checkpointing=case.checkpointing,
    )


def planned(case: Case, packed: bool, card: Card) -> tuple[Memory, Seconds]:
    """Memory and time of a case as `rmlab plan` counts them: of a step, or of scoring everything."""
    shape = shape_named(case.shape)
    lengths = [e.tokens for e in drawn(case, case.batch * (1 if case.scored else case.steps))]
    if case.scored:
        rows = max(case.micro // case.lengths[1], 1)
        memory = scoring_memory(shape, True, True, case.micro, rows)
        return memory, scoring_seconds(shape, reading(lengths), card, case.micro)
    tokens, sequences, parts = largest_part(lengths, training_of(case), case.micro, packed)
    whole = every_position(shape, packed)
    run = TrainingMemory(
        True,
        case.rank,
        case.checkpointing,
        tokens,
        sequences,
        sequences,
        parts,
        every_position=whole,
        packed_layers=through_packed_layers(shape, packed, case.rank),
    )
    step = reading(lengths, every_position=whole).scaled(1 / case.steps)
    return training_memory(shape, run), step_seconds(shape, step, run, card)


def largest_part(lengths: Sequence[int], training: TrainingConfig, most: int, packed: bool) -> tuple[int, int, int]:
    """Tokens that the largest micro-batch of any step reads, padding included, its examples, and micro-batches a step."""
    found = []
    for batch in plan_batches(lengths, training, 0):
        of_step = [lengths[i] for i in batch]
        if packed:
            parts = max(math.ceil(SLACK * sum(of_step) / most), 1)
            found.append((math.ceil(sum(of_step) / parts), math.ceil(len(of_step) / parts), parts))
        else:
            rows = batches_by_tokens(of_step, most)
            found += [(max(of_step[i] for i in part) * len(part), len(part), len(rows)) for part in rows]
    tokens, examples, _ = max(found)
    return tokens, examples, math.ceil(statistics.mean(parts for *_, parts in found))


@torch.no_grad()
def measure_scoring(case: Case, device: str, card: Card) -> Iterator[BenchmarkRow]:
    """The same of scoring: the second time, all batches."""
    shape = shape_named(case.shape)
    model = random_model(shape, device).to(torch.bfloat16).eval()
    prompts = [example.ids for example in drawn(case, case.batch)]
    peak = Peak(device)
    weights, seconds = peak.now(), 0.0
    for _ in range(2):
        peak.restart()
        before = time.perf_counter()
        score_ids(
            model,
            prompts,
            AnswerTokens(3, 4),
            PAD,
            batch_tokens=case.micro,
            autocast=lambda: torch.autocast(device, torch.bfloat16),
        )
        seconds = time.perf_counter() - before
    memory, times = planned(case, False, card)
    show(case, memory, peak, weights)
    print(f"  {seconds:.2f} s measured, {times.total:.2f} planned {times.words()}", flush=True)
    yield from compared(case, peak, memory, seconds, times.total)


def show(case: Case, memory: Memory, peak: Peak, weights: int) -> None:
    """Prints memory by part, measured and planned, in GiB."""
    parts = ", ".join(f"{name} {value / GIB:.2f}" for name, value in memory.parts().items())
    print(
        f"{case.words}\n  measured: {peak.largest() / GIB:.2f} GiB at most, {weights / GIB:.2f} before, "
        f"{peak.kept / GIB:.2f} kept by a forward pass\n  planned:  {memory.total / GIB:.2f} GiB: {parts}",
        flush=True,
    )


def compared(case: Case, peak: Peak, memory: Memory, seconds: float, expected: float) -> Iterator[BenchmarkRow]:
    """The rows of a case."""
    if peak.cuda:
        yield BenchmarkRow(f"{case.words}: memory", "GiB", peak.largest() / GIB, theirs=memory.total / GIB)
        yield BenchmarkRow(f"{case.words}: time", "s", seconds, theirs=expected)
    else:
        yield BenchmarkRow(f"{case.words}: time", "s", seconds)


if __name__ == "__main__":
    run_script(main)
