"""`rmlab tasks ...`: the micro-SWE tasks."""

from pathlib import Path
from typing import Annotated

import typer

from rmlab.commands.common import Overrides, program
from rmlab.microswe.sandbox import default_workers

app = typer.Typer(no_args_is_help=True, help="The micro-SWE tasks.")


@app.callback()
def group() -> None:
    """The micro-SWE tasks."""


@app.command("build", epilog="Example: `rmlab tasks build seed=1`")
def build(overrides: Overrides = None) -> None:
    """Build the micro-SWE tasks file from installed packages (needs the extra `tasks`)."""
    program("build_tasks").main(overrides or [])


@app.command(
    "apart",
    epilog="Example: `rmlab tasks apart more.parquet --beside rmlab/starter/tasks.parquet --supervised shown.parquet "
    "--rest practised.parquet`",
)
def apart(
    source: Annotated[Path, typer.Argument(help="A file that was built with beside=FILE.")],
    beside: Annotated[Path, typer.Option(help="That FILE.")],
    supervised: Annotated[Path, typer.Option(help="Written: tasks for demonstrations.")],
    rest: Annotated[Path, typer.Option(help="Written: what stays for RL; may be SOURCE.")],
    share: Annotated[float, typer.Option(help="Of the tasks, by whole clusters.")] = 0.4,
    seed: Annotated[int, typer.Option(help="Of the order of clusters.")] = 0,
) -> None:
    """Set whole clusters of further RL tasks apart, to collect demonstrations on them."""
    program("set_tasks_apart").main(source, beside, supervised, rest, share, seed)


@app.command(
    "check",
    epilog="Example: `rmlab tasks check rmlab/starter/tasks.parquet rmlab/starter/tasks_rl.parquet -o runs/fewer`",
)
def check(
    files: Annotated[list[Path], typer.Argument(help="Tasks files; those built beside one another together.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the files without such tasks, and dropped.json.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that run programs.")] = default_workers(),
) -> None:
    """Say which tasks may not stand in a set: answers that can be imported, originals near the limits."""
    program("check_tasks").main(files, output, workers)
