"""How fast does a verifier train on a CPU beside TRL's SFTTrainer, and are the losses the same?

    pip install -c constraints.txt trl
    python experiments/benchmarks/trl_sft.py [--examples 512] [--repeats 5] [--threads 1]

One process, one model (scratch, the same first weights), one choice of rendered examples, one optimiser, schedule, batch and
number of threads; the arms take turns, so that a busy moment meets them all. Counted are real tokens of prompts, no padding,
over the time from the end of the first step to the end of the last. `ours` is `rmlab.training.supervised.train` as it is; the
arms below it switch one thing of it off each. TRL gets the answer as the one label of each example (all others -100).
"""

import argparse
import os
import platform
import statistics
from collections.abc import Mapping, Sequence

import torch

from experiments.benchmarks._trl_sft_arms import Timed, arms, read_job
from rmlab.benchmark import BenchmarkRow, processor, run_script


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Times every arm in turns; SystemExit where they do not compute the same."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--examples", type=int, default=512, help="a multiple of the batch size (32), two batches at least"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    job = read_job(options.examples, options.threads)
    batch = job.settings.training.batch_size
    if options.examples % batch or options.examples < 2 * batch:
        raise SystemExit(
            f"--examples must be a multiple of {batch}, two batches at least: the speed is of the steps behind the first"
        )
    import transformers
    import trl as library

    print(
        f"{processor()}, {options.threads} thread(s), load before "
        f"{os.getloadavg()[0]:.1f}, Python {platform.python_version()}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}, trl {library.__version__}"
    )
    print(
        f"{options.examples} examples, {sum(len(e.ids) for e in job.examples):,} tokens, {options.repeats} repeats, taking turns\n"
    )
    todo = arms(job)
    found: dict[str, list[Timed]] = {name: [] for name in todo}
    for turn in range(options.repeats):
        names = list(todo)
        for name in names if turn % 2 == 0 else names[::-1]:
            found[name].append(todo[name]())
    print(table(found))
    print("\n" + agreement(found["ours"][0].losses, found["TRL, our batches"][0].losses))
    base = statistics.median(t.speed for t in found["TRL"])
    return [
        BenchmarkRow(
            f"{name}, {options.examples} examples, {options.threads} threads",
            "tokens/s",
            statistics.median(t.speed for t in times),
            theirs=base,
        )
        for name, times in found.items()
        if not name.startswith("TRL")
    ]


def table(found: Mapping[str, Sequence[Timed]]) -> str:
    """Medians with the least and the most, and how many times `TRL`'s speed."""
    base = statistics.median(t.speed for t in found["TRL"])
    rows = ["| arm | tokens/s, median (least - most) | of TRL's | whole call |", "|---|---|---|---|"]
    for name, times in found.items():
        speeds = sorted(t.speed for t in times)
        rows.append(
            f"| {name} | {statistics.median(speeds):,.0f} ({speeds[0]:,.0f} - {speeds[-1]:,.0f}) | "
            f"{statistics.median(speeds) / base:.2f} | {statistics.median(t.seconds for t in times):.1f} s |"
        )
    return "\n".join(rows)


def agreement(a: Sequence[float], b: Sequence[float]) -> str:
    """How far two series of losses are apart. Raises SystemExit where they are not one computation."""
    if len(a) != len(b):
        raise SystemExit(f"{len(a)} and {len(b)} steps: the arms did not do the same")
    apart = [abs(x - y) for x, y in zip(a, b, strict=True)]
    if apart[0] > 1e-5 or max(apart) > 0.02:
        raise SystemExit(f"the losses differ: {apart[0]:.2g} at the first step, up to {max(apart):.2g}")
    return (
        f"losses of `ours` and `TRL, our batches` differ by {apart[0]:.1g} at the first step and at most {max(apart):.1g} "
        f"in {len(a)} steps"
    )


if __name__ == "__main__":
    run_script(main)
