"""`rmlab runs ...`: tracked runs."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Tracked runs.")

StoreOption = Annotated[
    str | None, typer.Option("--store", help="A store: URL or sqlite URI. Default: the project's own.")
]


@app.callback()
def group() -> None:
    """Tracked runs."""


@app.command("list", epilog="Example: `rmlab runs list --sweep data_scale --sort auc_task`")
def list_runs(
    sweep: Annotated[str | None, typer.Option(help="Only runs of this sweep.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Only runs of this kind: verifier, policy, collection, summary, ...")
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="By a metric, a parameter, name, started or minutes: largest first.")
    ] = None,
    ascending: Annotated[bool, typer.Option("--ascending", help="Smallest first.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="So many runs at most.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Everything as CSV: all parameters and metrics.")] = False,
    store: Annotated[
        str | None, typer.Option("--store", help="A store: URL or sqlite URI, or a bundle. Default: the project's own.")
    ] = None,
) -> None:
    """Tracked runs as a table, newest first."""
    from rmlab.tracking.listing import show_runs

    show_runs(store, sweep, kind=kind, sort=sort, ascending=ascending, limit=limit, as_csv=as_csv)


@app.command(
    "export",
    epilog="Example: `rmlab runs export --sweep data_scale --without-models -o data_scale.zip`. For the page of a study: "
    "`rmlab runs export --study --sweep label_ratio --preset demo -o experiments/studies/label_ratio/runs.zip`",
)
def export_runs(
    output: Annotated[Path, typer.Option("--out", "-o", help="The bundle to write: one zip file.")],
    run: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...", help="Ids of runs, or their beginnings. Default: all that ended.", show_default=False
        ),
    ] = None,
    sweep: Annotated[str | None, typer.Option(help="Only runs of this sweep.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Only runs of this kind: verifier, policy, collection, summary, ...")
    ] = None,
    without_models: Annotated[
        bool, typer.Option("--without-models", help="Leave model weights out; the rest fits into a few MB.")
    ] = False,
    preset: Annotated[str | None, typer.Option(help="Only runs of this preset.")] = None,
    control: Annotated[str | None, typer.Option(help="Only runs of this control hash, or its beginning.")] = None,
    study: Annotated[
        bool,
        typer.Option(
            "--study",
            help="What figures, tables and comparisons read, small enough for the repository: the newest finished run of each cell, "
            "no weights, no pages, no path, host or user name. The same runs give the same bytes.",
        ),
    ] = False,
    store: StoreOption = None,
) -> None:
    """Write runs into one file that carries them to another machine's store, with their artifacts and hashes."""
    from rmlab.tracking.listing import show_export

    show_export(
        output,
        run or [],
        sweep=sweep,
        kind=kind,
        preset=preset,
        control=control,
        models=not without_models,
        study=study,
        uri=store,
    )


@app.command("import", epilog="Example: `rmlab runs import data_scale.zip`")
def import_runs(
    bundles: Annotated[list[Path], typer.Argument(metavar="BUNDLE...", help="Files that `rmlab runs export` wrote.")],
    store: StoreOption = None,
    without_summary: Annotated[
        bool,
        typer.Option(
            "--without-summary",
            help="Make no summary runs: quick, where the runs are only to be found as finished by `rmlab sweep`.",
        ),
    ] = False,
) -> None:
    """Add the runs of bundles to the store. Hashes are checked first; runs that are there already are left alone. A sweep that
    comes without its summary run, as a study's bundle does, gets one: table, figures, which levels differ. A cell that came finished
    is finished for `rmlab sweep` too, with or without its model."""
    from analysis.summaries import summarise_imported
    from rmlab.tracking.listing import show_import
    from rmlab.tracking.store import Store

    sweeps = {name for bundle in bundles for name in show_import(bundle, store)}
    for done in summarise_imported(Store.open(store), sweeps) if not without_summary else ():
        print(f"summary run with table and figures: {done}")
