"""`rmlab tasks ...`: the micro-SWE tasks."""

import typer

from rmlab.commands.common import Overrides, program

app = typer.Typer(no_args_is_help=True, help="The micro-SWE tasks.")


@app.callback()
def group() -> None:
    """The micro-SWE tasks."""


@app.command("build", epilog="Example: `rmlab tasks build seed=1`")
def build(overrides: Overrides = None) -> None:
    """Build the micro-SWE tasks file from installed packages (needs the extra `tasks`)."""
    program("build_tasks").main(overrides or [])
