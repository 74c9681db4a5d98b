"""How fast does `rmlab import` read, and in how much memory?

    python experiments/benchmarks/importing.py [--megabytes 1000] [--kind folder|jsonl|zip|tar.gz|parquet]

Writes mini-SWE-agent v1 documents of a real run's sizes (median 180,000 bytes, a few of 2 MB; half of each is the model's raw
answer, which is read and not kept), with a report a document, and imports them in a process of its own on one core. Parquet is
rows of chat messages in a single group of rows, the worst case for memory. Prints
MB a second of input and the largest resident memory, and stops with an error below 20 MB/s or above 1 GB.
"""

import argparse
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rmlab.benchmark import BenchmarkRow, run_script

LEAST_MB_PER_SECOND, MOST_MB = 20.0, 1000.0
KINDS = ("folder", "jsonl", "zip", "tar.gz", "parquet")


def document(number: int, rng: random.Random, words: list[str]) -> bytes:
    """One attempt as mini-SWE-agent writes it: thoughts with a command, observations, the answer's raw response."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You fix."},
        {"role": "user", "content": f"<pr_description>Issue {number}: {_text(rng, words, 300)}"},
    ]
    size = rng.lognormvariate(11.5, 0.6) if rng.random() > 0.01 else 1_000_000
    while size > 0:
        said = f"THOUGHT: {_text(rng, words, 60)}\n\n```bash\nsed -n '{rng.randrange(900)},20p' src/module_{rng.randrange(50)}.py\n```"
        seen = f"<returncode>0</returncode>\n<output>\n{_text(rng, words, rng.choice([20, 200, 900]))}\n</output>"
        response = {
            "id": f"gen-{rng.random()}",
            "created": 1763511546,
            "choices": [{"message": {"role": "assistant", "content": said}}],
        }
        messages += [
            {"role": "assistant", "content": said, "extra": {"response": response}},
            {"role": "user", "content": seen},
        ]
        size -= 2 * len(said) + len(seen) + 150
    patch = f"diff --git a/x.py b/x.py\n+{number}\n"
    messages += [
        {"role": "assistant", "content": "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"},
        {"role": "user", "content": patch},
    ]
    return json.dumps(
        {
            "info": {
                "exit_status": "Submitted",
                "submission": patch,
                "config": {"model": {"model_name": "a/model"}},
                "mini_version": "1.15.0",
            },
            "messages": messages,
            "trajectory_format": "mini-swe-agent-1",
            "instance_id": f"owner__name-{number}",
        }
    ).encode()


def _text(rng: random.Random, words: list[str], n: int) -> str:
    start = rng.randrange(len(words) - n)
    return " ".join(words[start : start + n])


def files(megabytes: float) -> Iterator[tuple[str, bytes]]:
    """Documents and their reports, until so many megabytes are reached."""
    rng = random.Random(0)
    words = [
        f"{rng.choice('abcdefgh')}{rng.randrange(10_000)}{rng.choice(['(', ')', ':', '.py', chr(10), ' =', '_x'])}"
        for _ in range(200_000)
    ]
    written, number = 0, 0
    while written < megabytes * 1e6:
        data = document(number, rng, words)
        written += len(data)
        task = f"owner__name-{number}"
        yield f"trajs/{task}/{task}.traj.json", data
        yield (
            f"logs/{task}/report.json",
            json.dumps({"patch_exists": True, "resolved": number % 2 == 0, "tests_status": {}}).encode(),
        )
        number += 1


def write(kind: str, folder: Path, megabytes: float) -> tuple[Path, int]:
    """Writes the input; its path and its bytes, unpacked."""
    size = 0
    path = folder / ("run" if kind == "folder" else f"run.{kind}")
    if kind == "jsonl":
        with path.open("wb") as file:
            for name, data in files(megabytes):
                if name.startswith("trajs"):
                    size += file.write(data + b"\n")
    elif kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows: list[dict[str, Any]] = []
        for name, data in files(megabytes):
            if name.startswith("trajs"):
                size += len(data)
                read = json.loads(data)
                messages = [{**m, "extra": json.dumps(m.get("extra"))} for m in read["messages"]]
                rows.append({"instance_id": read["instance_id"], "messages": messages, "resolved": len(rows) % 2 == 0})
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=len(rows), use_dictionary=False)
    elif kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, data in files(megabytes):
                archive.writestr(name, data)
                size += len(data)
    elif kind == "tar.gz":
        with tarfile.open(path, "w:gz", compresslevel=1) as tar:
            for name, data in files(megabytes):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
                size += len(data)
    else:
        for name, data in files(megabytes):
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            size += (path / name).write_bytes(data)
    return path, size


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Measures one kind of input on one core; SystemExit where it is too slow or too large."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=float, default=1000)
    parser.add_argument("--kind", choices=KINDS, default="folder")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        # in a process of its own: a child's largest memory counts what its parent held when it started
        with ProcessPoolExecutor(1, get_context("spawn")) as writer:
            path, size = writer.submit(write, asked.kind, Path(temporary), asked.megabytes).result()
        cores = {min(os.sched_getaffinity(0))} if hasattr(os, "sched_setaffinity") else None
        start = time.perf_counter()
        with (Path(temporary) / "summary.json").open("w+", encoding="utf-8") as summary:
            importing = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "rmlab.cli",
                    "import",
                    "auto",
                    str(path),
                    "-o",
                    str(Path(temporary) / "out.parquet"),
                    "--json",
                ],
                cwd=Path(__file__).resolve().parents[2],
                stdout=summary,
                preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, cores),
            )
            _, status, used = os.wait4(importing.pid, 0)  # of this process alone
            seconds = time.perf_counter() - start
            if status:
                sys.exit(f"the import ended with status {os.waitstatus_to_exitcode(status)}")
            summary.seek(0)
            found = json.load(summary)
        memory, cpu = used.ru_maxrss / 1024, used.ru_utime + used.ru_stime
    rate = size / 1e6 / cpu  # of the core's own time: other work on the machine does not count
    print(
        f"one core: {asked.kind} of {size / 1e6:,.0f} MB, "
        f"{found['trajectories']:,} trajectories, "
        f"{found['labelled']:,} labelled: "
        f"{seconds:.1f} s, {cpu:.1f} s of CPU, {rate:.1f} MB/s, {memory:,.0f} MB of memory"
    )
    if rate < LEAST_MB_PER_SECOND or memory > MOST_MB:
        sys.exit(f"below {LEAST_MB_PER_SECOND} MB/s or above {MOST_MB} MB")
    what = f"{asked.kind} of {asked.megabytes:,.0f} MB"
    return [BenchmarkRow(f"{what}, of CPU time", "MB/s", rate), BenchmarkRow(f"{what}, memory", "MB", memory)]


if __name__ == "__main__":
    run_script(main)
