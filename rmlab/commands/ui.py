"""`rmlab ui`: the MLflow UI for the project's store."""

import sys
from typing import Annotated

import typer

from rmlab.paths import SWEEPS
from rmlab.wording import counted

app = typer.Typer()


@app.command(epilog="Example: `rmlab ui --port 5005`")
def ui(
    port: Annotated[int | None, typer.Option(help="Default: the first free port from 5000 on.")] = None,
    store: Annotated[str | None, typer.Option(help="A sqlite URI. Default: the project's own store.")] = None,
) -> None:
    """Open the MLflow UI for the project's store, on 127.0.0.1."""
    from rmlab.pages.report_page import draw_missing
    from rmlab.tracking.store import Store
    from rmlab.tracking.ui import bring_up, choose_port, serve

    def prepare(opened: Store) -> None:
        completed = bring_up(opened, _descriptions())
        drawn = draw_missing(opened)
        done = [f"short metrics for {counted(completed, 'run')} of an earlier version"] if completed else []
        done += [f"reliability pictures for {counted(drawn, 'run')}"] if drawn else []
        if done:
            print(f"for the UI: {', '.join(done)}", file=sys.stderr)

    chosen = choose_port(port)
    serve(Store.open(store), chosen, prepare)


SINGLE = {
    "collections": "Trajectories of policies in micro-SWE, one run per set (rmlab collect)",
    "policies": "Policies: warm starts and reinforcement learning that no sweep launched (rmlab warm-start, rmlab rl)",
    "verifiers": "Verifiers that no sweep trained (rmlab train)",
}
"""Descriptions of the experiments that belong to no sweep."""


def _descriptions() -> dict[str, str]:
    """Of experiments by name: a sweep's is its question."""
    from rmlab.sweep.typed_yaml import plain_yaml

    specs = {path.stem: plain_yaml(path.read_text(encoding="utf-8")) for path in SWEEPS.glob("*.yaml")}
    return SINGLE | {name: spec["question"] for name, spec in specs.items()}
