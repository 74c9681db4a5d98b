"""`rmlab study`: several sweeps at one preset; which of their cells are finished, and one table and one figure of all of them."""

from pathlib import Path
from typing import Annotated

import typer

from rmlab.commands.figures import onto_page
from rmlab.errors import UsageError
from rmlab.paths import runs_folder
from rmlab.scratch import scratch_folder

app = typer.Typer()


@app.command(
    epilog="Example: `rmlab study experiments/studies/language_verifiers --ledger`. With the page's files written again: "
    "`rmlab study experiments/studies/language_verifiers --page`"
)
def study(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a study, with study.yaml and, below it, bundles of its runs.")
    ],
    source: Annotated[
        str | None,
        typer.Option(
            "--from", help="Read runs from here instead: a store's URL or file, a bundle, or a folder of bundles."
        ),
    ] = None,
    ledger: Annotated[
        bool,
        typer.Option(
            "--ledger",
            help="Only say which cells are finished, missing or next to run; with --page, all files are still written.",
        ),
    ] = False,
    page: Annotated[
        bool,
        typer.Option(
            "--page",
            help="Write into FOLDER itself: ledger, table, overview, the page results.md, and figures/README.md where figures of its "
            "sweeps lie beside it.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder. Default: figures/NAME/ in the runs folder.")
    ] = None,
) -> list[Path]:
    """Say which cells of a study are finished, and write one table and one figure of all its sweeps. Also works while it is running."""
    from analysis.presentation.style import csv_text
    from analysis.studies.ledger import ledger_lines
    from analysis.studies.planned_study import open_study
    from rmlab.files import write_text

    if page and out is not None:
        raise UsageError("name --page or --out, not both")
    with open_study(folder, source) as planned:
        print(*ledger_lines(planned), sep="\n")
        into = folder if page else out or runs_folder() / "figures" / planned.name
        if ledger and not page and out is None:
            return []
        written = [into / "ledger.csv"]
        write_text(written[0], csv_text([one.row for one in planned.cells]))
        if page or not ledger:
            from analysis.studies import study_overview, study_table
            from analysis.studies.page import write as write_page

            with scratch_folder() as scratch:
                drawn = scratch if page else into
                files = [*study_table.draw(planned, drawn), *study_overview.draw(planned, drawn)]
                written += onto_page(files, folder) if page else files
            written += write_page(planned, folder) if page else []
    for path in written:
        print(path)
    return written
