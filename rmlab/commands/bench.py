"""`rmlab bench`: runs the scripts of experiments/benchmarks and tracks their results as runs of the experiment `benchmarks`."""

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rmlab.benchmark import RECORD, BenchmarkRecord, BenchmarkRow, benchmark_table, read_record
from rmlab.errors import RmlabError, UsageError
from rmlab.paths import BENCHMARKS, REPOSITORY
from rmlab.wording import near

app = typer.Typer()


def benchmark_names(incomplete: str = "") -> list[str]:
    """The scripts that begin so, without .py."""
    return sorted(path.stem for path in BENCHMARKS.glob(f"{incomplete}*.py") if not path.name.startswith("_"))


@app.command(
    epilog="Example: `rmlab bench execution seconds=2 workers=2`. Everything after `--` is passed to the script unchanged: "
    "`rmlab bench decoding -- --device cuda --dtype bfloat16`; `rmlab bench decoding -- --help` shows its options."
)
def bench(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]... [KEY=VALUE]...",
            help="Scripts in experiments/benchmarks, without .py. Default: list them. KEY=VALUE is passed on as --KEY VALUE.",
            show_default=False,
            autocompletion=benchmark_names,
        ),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the benchmarks without running any.")] = False,
    track: Annotated[
        bool, typer.Option("--track/--no-track", help="Store the result as a run in the experiment `benchmarks`.")
    ] = True,
) -> None:
    """Run benchmarks on this machine: floor, ours, theirs and the ratio, all measured in one run."""
    names, options = split_arguments(arguments or [])
    if listing or not names:
        if options:
            raise UsageError(
                f"{options[0]}: name the benchmark that the option is for, one of {', '.join(benchmark_names())}"
            )
        width = max(map(len, benchmark_names()))
        for name in benchmark_names():
            print(f"{name:<{width}}  {question(name)}")
        return
    if options and len(names) > 1:
        raise UsageError(
            f"{' '.join(options)}: options apply to one script; run {' and '.join(names)} in separate commands"
        )
    for name in names:
        record, output = run_benchmark(name, options)
        if track and record is not None:
            print(f"tracked as run {tracked(name, options, record, output)} of the experiment benchmarks")


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names of benchmarks, and the options of a script: `workers=2` is `--workers 2`, `ways=[a,b]` `--ways a b`, `fast=true` `--fast`.

    Raises UsageError for a name that is none.
    """
    names: list[str] = []
    options: list[str] = []
    known = benchmark_names()
    for text in arguments:
        key, equals, value = text.partition("=")
        if text.startswith("-") or (not equals and (options or (names and Path(text).is_file()))):  # behind `--`
            options.append(text)
        elif equals:
            options.append(f"--{key.replace('_', '-')}")
            options += [] if value == "true" else value[1:-1].split(",") if value.startswith("[") else [value]
        elif text in known:
            names.append(text)
        else:
            raise UsageError(f"there is no benchmark {text!r}{near(text, known)}; there are: {', '.join(known)}")
    return names, options


def question(name: str) -> str:
    """The first line of a script's docstring. The script is read, not run."""
    tree = ast.parse((BENCHMARKS / f"{name}.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def run_benchmark(name: str, options: Sequence[str]) -> tuple[BenchmarkRecord | None, str]:
    """Runs a script in a process of its own and shows what it prints; its record, and all that it printed.

    The record is None where the script left none (it only prints, or was asked for --help). Raises RmlabError where it ends with an
    error, behind what it printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.json"
        environment = {**os.environ, RECORD: str(path), "PYTHONUNBUFFERED": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(REPOSITORY), environment.get("PYTHONPATH")]))
        command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *options]
        printed = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as script:
            assert script.stdout is not None
            for line in script.stdout:
                print(line, end="", flush=True)
                printed.append(line)
        if script.returncode:
            raise RmlabError(
                f"benchmark {name} ended with code {script.returncode}, for the reason above. Its options: rmlab bench {name} -- --help"
            )
        return read_record(path) if path.exists() else None, "".join(printed)


def tracked(name: str, options: Sequence[str], record: BenchmarkRecord, output: str) -> str:
    """Keeps a result as a finished run: options and machine as parameters, rows as metrics, the table as artifact. The run's id."""
    from rmlab.tracking.run import RunLogger
    from rmlab.tracking.store import Store

    card = record.machine.get("card", record.machine["processor"])
    with RunLogger.start(
        Store.open(None),
        "benchmarks",
        f"{name} {card}",
        kind="benchmark",
        tags={"benchmark": name, "device": card},
        params={"benchmark": name, "options": " ".join(options)[:250] or None, **record.machine},
    ) as logger:
        for row in record.rows:
            logger.metrics(row_metrics(row))
        logger.text("table.md", benchmark_table(record.rows) + "\n")
        logger.text("output.txt", output)
        logger.json("rows.json", [vars(row) for row in record.rows])
    return logger.run_id


def row_metrics(row: BenchmarkRow) -> dict[str, float | None]:
    """`ours/NAME UNIT` and beside it floor, theirs and ratio where they are there; NAME is `what` in letters that MLflow takes."""
    unit = row.unit.replace("/", " per ")
    name = re.sub(r"[^A-Za-z0-9_\-. ]+", " ", f"{row.what.replace('×', 'x')} {unit}")
    name = re.sub(r" +", " ", name).strip(" .-")[:200]
    return {
        f"{column}/{name}": value
        for column, value in (("ours", row.ours), ("floor", row.floor), ("theirs", row.theirs), ("ratio", row.ratio))
    }
