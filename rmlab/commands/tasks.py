"""`rmlab tasks ...`: builds, checks and sets apart the micro-SWE tasks."""

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import rmlab
from rmlab.commands.common import Overrides, of_program
from rmlab.errors import DataError, UsageError
from rmlab.files import PARQUET, check_output, write_text

if TYPE_CHECKING:
    from rmlab.microswe.task import Task

app = typer.Typer(no_args_is_help=True, help="Build, check and set apart the micro-SWE tasks.")

DROPPED = "dropped.json"


@app.command("build", epilog="Example: `rmlab tasks build seed=1`")
@of_program("build_tasks")
def build(
    overrides: Overrides = None,
    force: Annotated[bool, typer.Option("--force", help="Build even if the output exists, and replace it.")] = False,
) -> None:
    """Build the micro-SWE tasks file from installed packages (needs the extra `tasks`). A finished file is not built again."""
    from experiments.programs import build_tasks

    build_tasks.main(overrides or [], force)


@app.command(
    "apart",
    epilog="Example: `rmlab tasks apart more.parquet --beside rmlab/starter/tasks.parquet --supervised shown.parquet "
    "--rest practised.parquet`",
)
def apart(
    source: Annotated[Path, typer.Argument(help="A file that was built with beside=FILE.")],
    beside: Annotated[Path, typer.Option(help="The FILE that it was built beside.")],
    supervised: Annotated[Path, typer.Option(help="Output: tasks for demonstrations.")],
    rest: Annotated[Path, typer.Option(help="Output: tasks that stay for RL; may be SOURCE itself.")],
    share: Annotated[float, typer.Option(help="Share of the tasks to set apart, in whole clusters.")] = 0.4,
    seed: Annotated[int, typer.Option(help="Seed for the order of the clusters.")] = 0,
) -> None:
    """Set whole clusters of additional RL tasks apart, for collecting demonstrations."""
    from rmlab.microswe.build.clusters import demonstration_split
    from rmlab.microswe.task import read_tasks, write_tasks

    tasks, metadata = read_tasks(source)
    there, about = read_tasks(beside)
    if metadata.get("beside") != about.get("fingerprint"):
        raise UsageError(f"{source} was not built beside {beside}: name the file that it was built beside")
    if "set_apart" in metadata:
        raise UsageError(
            f"{source} has been set apart already ({metadata['set_apart']}): the tasks in the other file are no longer in it. "
            "Build the whole file again first."
        )
    if len({path.resolve() for path in (supervised, rest, beside)}) < 3:
        raise UsageError("--supervised, --rest and --beside must be three different files")
    check_output(supervised, [source, beside], PARQUET)
    check_output(rest, [beside], PARQUET)
    stay, going = demonstration_split(tasks, there, share, seed)
    named = ["--beside", beside.name, "--supervised", supervised.name, "--rest", rest.name]
    command = shlex.join(["rmlab", "tasks", "apart", source.name, *named, "--share", str(share), "--seed", str(seed)])
    for path, own in ((supervised, going), (rest, stay)):
        write_tasks(
            path,
            own,
            _without_request(metadata)
            | {"set_apart": command, "counts": _apart_counts(own), "rmlab_version": rmlab.__version__},
        )
        functions, clusters = len({t.function_id for t in own}), len({t.cluster for t in own})
        print(f"{path}: {len(own):,} tasks of {functions:,} functions in {clusters:,} clusters")


@app.command(
    "check",
    epilog="Example: `rmlab tasks check rmlab/starter/tasks.parquet rmlab/starter/tasks_rl.parquet -o runs/fewer`",
)
def check(
    files: Annotated[
        list[Path], typer.Argument(help="Tasks files; name files that were built beside one another together.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder to write the files without such tasks to, and dropped.json."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that run programs. Default: one per core.")] = None,
) -> None:
    """Find tasks that are unfit for use: answers that can be imported, originals near the limits."""
    from rmlab.microswe.sandbox import default_workers
    from rmlab.microswe.task import read_tasks, tasks_fingerprint, write_tasks

    names = [path.name for path in files]
    if len(set(names)) < len(names):
        raise UsageError(
            f"two of the files have the same name ({', '.join(names)}), but all are written into one folder"
        )
    read = [read_tasks(path) for path in files]
    dropped = [_dropped(tasks, default_workers() if workers is None else workers) for tasks, _ in read]
    for path, (tasks, _), out in zip(files, read, dropped, strict=True):
        reasons = Counter(about["reason"] for about in out.values())
        words = "; ".join(f"{number:,}: {reason}" for reason, number in reasons.most_common()) or "all are fit for use"
        print(f"{path}: {len(out):,} of {len(tasks):,} tasks are unfit for use" if out else str(path), words, sep=": ")
    if output is None:
        if any(dropped):
            raise DataError("some tasks are unfit for use: `-o FOLDER` writes the files without them")
        return
    for name in (*names, DROPPED):
        check_output(output / name, files)
    kept = [[t for t in tasks if t.task_id not in out] for (tasks, _), out in zip(read, dropped, strict=True)]
    # a file names the one that it was built beside by its fingerprint, which changes where both are written anew
    fingerprints = {about["fingerprint"]: tasks_fingerprint(own) for (_, about), own in zip(read, kept, strict=True)}
    command = shlex.join(["rmlab", "tasks", "check", *names])
    for path, (_, about), own, out in zip(files, read, kept, dropped, strict=True):
        beside = {"beside": fingerprints.get(about["beside"], about["beside"])} if "beside" in about else {}
        checked = {"checked": command, "counts": _checked_counts(about, own, out)} if out else {}
        write_tasks(output / path.name, own, _without_request(about) | beside | checked)
        print(f"{output / path.name}: {len(own):,} tasks, fingerprint {tasks_fingerprint(own)}")
    by_file = dict(zip(names, dropped, strict=True))
    write_text(output / DROPPED, json.dumps(by_file, indent=1, sort_keys=True) + "\n")


def _without_request(about: dict[str, str]) -> dict[str, str]:
    """The metadata of a file, for one of fewer tasks: without the hash of the request that `rmlab tasks build` was given."""
    return {name: value for name, value in about.items() if name != "config_hash"}


def _apart_counts(tasks: "Sequence[Task]") -> str:
    from rmlab.microswe.build.clusters import counted

    counts = counted(tasks)
    return json.dumps({key: counts[key] for key in ("tasks", "functions", "clusters", "by_source")})


def _dropped(tasks: "Sequence[Task]", workers: int) -> dict[str, dict[str, str]]:
    """task_id → function and reason, of the tasks that are unfit for use."""
    from rmlab.microswe.build.extension import BaseTasks, functions_of
    from rmlab.microswe.build.fitness import unfit

    reasons = unfit(functions_of(BaseTasks(tuple(tasks))), workers)
    return {
        task.task_id: {"function": task.function_id, "reason": reasons[task.function_id]}
        for task in tasks
        if task.function_id in reasons
    }


def _checked_counts(about: dict[str, str], kept: "Sequence[Task]", dropped: dict[str, dict[str, str]]) -> str:
    """The counts that the file stated, those that its tasks give counted again, and what was dropped."""
    from rmlab.microswe.build.clusters import counted

    stated = json.loads(about.get("counts", "{}"))
    now = counted(kept)
    again = {key: now.get(key, value) for key, value in stated.items()}
    return json.dumps(again | {"dropped": Counter(entry["reason"] for entry in dropped.values())})
