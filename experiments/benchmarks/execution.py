"""How many programs and calls a second does the sandbox run on this machine, at each level of isolation?

    python experiments/benchmarks/execution.py [--workers 2] [--seconds 5] [--calls 20]

Quick functions (microseconds each), one process per program, every level that the machine allows. The best of three
parts is taken, since other work on the machine can only slow it down; for the same reason the load is printed, and the
CPU time that a program costs in all the sandbox's processes, which other work changes less.
"""

import argparse
import os
import platform
import time
from collections.abc import Sequence

import psutil  # type: ignore[import-untyped]  # it ships no types

from rmlab.benchmark import BenchmarkRow, processor, run_script
from rmlab.microswe.sandbox import LEVELS, Program, Sandbox, default_workers

CODE = """
def f(xs, k):
    out = []
    for x in xs:
        if x % k:
            out.append(x * k)
    return sorted(out)
"""


def programs(count: int, calls: int) -> list[Program]:
    """Programs that differ in their inputs; each gives lists of integers."""
    return [
        Program("import math", CODE, "f", tuple(f"([{n}, 5, 7, 9], {k + 2})" for k in range(calls)))
        for n in range(count)
    ]


def cpu_seconds(sandbox: Sandbox) -> float:
    """CPU time so far of the sandbox's processes and of all programs that have run, and of this process."""
    times = [psutil.Process().cpu_times()]
    for worker in sandbox.workers:
        process = psutil.Process(worker.process.pid)
        times += [member.cpu_times() for member in (process, *process.children())]
    return float(sum(t.user + t.system + t.children_user + t.children_system for t in times))


def measure(sandbox: Sandbox, calls: int, seconds: float, parts: int = 3) -> tuple[float, float]:
    """Programs a second in the best of some parts of `seconds / parts` each, and CPU milliseconds a program.

    Raises ValueError if a result is wrong.
    """
    batch = programs(50 * len(sandbox.workers), calls)
    expected = tuple(str(sorted(x * k for x in (0, 5, 7, 9) if x % k)).replace(" ", "") for k in range(2, calls + 2))
    if not sandbox.run(batch)[0].passed(expected):
        raise ValueError("the benchmark's own function gave a wrong result")
    best, total, before = 0.0, 0, cpu_seconds(sandbox)
    for _ in range(parts):
        done, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds / parts:
            sandbox.run(batch)
            done += len(batch)
        best, total = max(best, done / spent), total + done
    return best, 1000 * (cpu_seconds(sandbox) - before) / total


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Measures each level of isolation that this machine allows."""
    parser = argparse.ArgumentParser(description="programs and calls a second in the sandbox")
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--seconds", type=float, default=5.0, help="for each level")
    parser.add_argument("--calls", type=int, default=20, help="of each program")
    options = parser.parse_args(arguments)
    found: list[BenchmarkRow] = []
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    print(f"{processor()}, {default_workers()} cores, Python {platform.python_version()}, load before {load}")
    print(f"{options.workers} workers")
    for name in LEVELS:
        with Sandbox(workers=options.workers, at_most=name) as sandbox:
            if sandbox.isolation.name != name:
                print(f"{name}: not here ({'; '.join(sandbox.isolation.reasons)})")
                continue
            print(sandbox.isolation)
            for calls in (options.calls, 1):
                rate, cost = measure(sandbox, calls, options.seconds)
                print(
                    f"    {calls:3} calls each: {rate:6,.0f} programs/s, {rate * calls:7,.0f} calls/s, {cost:.1f} ms CPU a program"
                )
                what = f"{name}, programs of {calls} calls, {options.workers} workers"
                found += [BenchmarkRow(what, "programs/s", rate), BenchmarkRow(f"{what}: CPU a program", "ms", cost)]
    return found


if __name__ == "__main__":
    run_script(main)
