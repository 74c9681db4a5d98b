"""`rmlab runs ...`: tracked runs."""

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Tracked runs.")


@app.callback()
def group() -> None:
    """Tracked runs."""


@app.command("list", epilog="Example: `rmlab runs list --sweep data_scale`")
def list_runs(
    sweep: Annotated[str | None, typer.Option(help="Only runs of this sweep.")] = None,
    store: Annotated[str | None, typer.Option(help="A store: URL or sqlite URI. Default: the project's own.")] = None,
) -> None:
    """Tracked runs as a table, newest first."""
    from rmlab.tracking.listing import show_runs

    show_runs(store, sweep)
