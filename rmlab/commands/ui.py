"""`rmlab ui`: the MLflow UI over the project's store."""

from typing import Annotated

import typer

app = typer.Typer()


@app.command(epilog="Example: `rmlab ui --port 5005`")
def ui(
    port: Annotated[int | None, typer.Option(help="Default: the first free one from 5000 on.")] = None,
    store: Annotated[str | None, typer.Option(help="A sqlite URI. Default: the project's own store.")] = None,
) -> None:
    """Open the MLflow UI over the project's store, on 127.0.0.1."""
    from rmlab.tracking.store import Store
    from rmlab.tracking.ui import choose_port, serve

    chosen = choose_port(port)
    serve(Store.open(store), chosen)
