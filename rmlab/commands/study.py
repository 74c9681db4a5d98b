"""`rmlab study`: several sweeps of one preset as one study: which cells are finished, and one table and figure of all sweeps."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from rmlab.paths import runs_folder

app = typer.Typer()


@app.command(
    epilog="Example: `rmlab study experiments/studies/language_verifiers --ledger`. With the page's files written again: "
    "`rmlab study experiments/studies/language_verifiers --page`"
)
def study(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a study: study.yaml, and bundles of its runs below it.")
    ],
    source: Annotated[
        str | None,
        typer.Option("--from", help="Runs from here instead: a store's URL or file, a bundle, a folder with bundles."),
    ] = None,
    ledger: Annotated[
        bool,
        typer.Option(
            "--ledger",
            help="Say only which cells are finished, missing and to be run next; --page writes all its files all the same.",
        ),
    ] = False,
    page: Annotated[
        bool, typer.Option("--page", help="Write into FOLDER itself: ledger, table, overview, and the page results.md.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder. Default: figures/NAME/ in the runs folder.")
    ] = None,
) -> list[Path]:
    """Say which cells of a study are finished, and write one table and one figure of all its sweeps. Useful while it runs."""
    from analysis.planned_study import ledger_lines, open_study
    from analysis.style import csv_text
    from rmlab.commands.figures import onto_page
    from rmlab.errors import UsageError
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
            from analysis import study_overview, study_page, study_table

            with tempfile.TemporaryDirectory(prefix="rmlab-study-") as scratch:
                drawn = Path(scratch) if page else into
                files = [*study_table.draw(planned, drawn), *study_overview.draw(planned, drawn)]
                written += onto_page(files, folder) if page else files
            written += study_page.write(planned, folder) if page else []
    for path in written:
        print(path)
    return written
