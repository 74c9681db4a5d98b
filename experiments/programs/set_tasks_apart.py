"""Deals a file of further RL tasks into two by whole clusters: tasks for demonstrations, and those that stay."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import rmlab
from rmlab.errors import UsageError
from rmlab.files import check_output
from rmlab.microswe.build.parts import counted, demonstration_split
from rmlab.microswe.task import Task, read_tasks, write_tasks


def main(source: Path, beside: Path, supervised: Path, rest: Path, share: float, seed: int) -> None:
    """Writes both files and says what is in them. `rest` may be `source` itself."""
    tasks, metadata = read_tasks(source)
    there, about = read_tasks(beside)
    if metadata.get("beside") != about.get("fingerprint"):
        raise UsageError(f"{source} was not built beside {beside}: name the file that it was built beside")
    if "set_apart" in metadata:
        raise UsageError(
            f"{source} has been set apart already ({metadata['set_apart']}): what went to the other file is no more in it. "
            "Build the whole file again first."
        )
    if len({path.resolve() for path in (supervised, rest, beside)}) < 3:
        raise UsageError("the two files that are written and the one that the tasks were built beside must be three")
    check_output(supervised, [source, beside])
    check_output(rest, [beside])
    stay, going = demonstration_split(tasks, there, share, seed)
    command = shlex.join(
        [
            "rmlab",
            "tasks",
            "apart",
            source.name,
            "--beside",
            beside.name,
            "--supervised",
            supervised.name,
            "--rest",
            rest.name,
            "--share",
            str(share),
            "--seed",
            str(seed),
        ]
    )
    for path, own in ((supervised, going), (rest, stay)):
        write_tasks(
            path, own, metadata | {"set_apart": command, "counts": _counts(own), "rmlab_version": rmlab.__version__}
        )
        functions, clusters = len({t.function_id for t in own}), len({t.cluster for t in own})
        print(f"{path}: {len(own):,} tasks of {functions:,} functions in {clusters:,} clusters")


def _counts(tasks: Sequence[Task]) -> str:
    counts = counted(tasks)
    return json.dumps({key: counts[key] for key in ("tasks", "functions", "clusters", "by_source")})
