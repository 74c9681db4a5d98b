"""`rmlab import`: trajectories in the wild, and the labels beside them, into one set."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmlab.errors import DataError, UsageError
from rmlab.files import check_output
from rmlab.trajectories.readers.registry import format_names, formats_named

if TYPE_CHECKING:
    from rmlab.trajectories.ingest.reading import ImportedRecords

app = typer.Typer()


@app.command("import", epilog="Example: `rmlab import auto ../20240623_moatless.zip -o runs/real.parquet`")
def import_trajectories(
    format_name: Annotated[
        str,
        typer.Argument(metavar="FORMAT", help=f"auto, or one of {', '.join(format_names())}; rmlab is its own sets."),
    ],
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Folders, files, .zip, .tar (plain, .gz, .zst, .bz2, .xz), or hf:NAME of a hub's set.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The trajectory set to write (Parquet).")],
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            help="Reports that stand elsewhere; those within the paths are found anyway. May be given several times."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first record that is skipped, mended or in conflict.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as one JSON object on standard output.")] = False,
    leaks: Annotated[
        str, typer.Option(help="Attempts whose prompt holds an outcome: report them, or drop them.")
    ] = "report",
    source: Annotated[
        str, typer.Option(help="The source of all records. Default: by the task's id (swe-bench, swe-smith, ...).")
    ] = "",
) -> dict[str, Any]:
    """Read trajectories in the wild and join the labels that lie beside them."""
    from rmlab.trajectories.ingest import importing
    from rmlab.trajectories.ingest.importing import lines
    from rmlab.trajectories.ingest.reading import ImportOptions

    labels = labels or []
    if leaks not in ("report", "drop"):
        raise UsageError(f"--leaks {leaks!r}: it is report (name them) or drop (leave such attempts out)")
    if any(not name.removeprefix(importing.HUB).strip() for name in paths):
        raise UsageError("a path is empty (a variable without a value?): name what to read")
    check_output(out, [Path(name) for name in paths if not name.startswith(importing.HUB)] + labels)
    options = ImportOptions(formats_named(format_name), strict, leaks == "drop")
    result, shown = importing.import_trajectories(paths, out, labels, options, source)
    end = [f"written to {out}"] if result.rows else []
    print(json.dumps(shown) if as_json else "\n".join([*lines(shown, leaks == "drop"), *end]))
    if not result.rows:
        kept = f"{out} stays as it was" if out.exists() else f"{out} is not written"
        raise DataError(f"no trajectory was read, and {kept}. {_what_is_there(result.imported, format_name)}")
    return shown


def _what_is_there(imported: "ImportedRecords", format_name: str) -> str:
    """What was read in place of trajectories, and what can be done with it."""
    from rmlab.trajectories.ingest.reading import LEAKS

    tables = [report for report in imported.reports if report.location.name.endswith(".json") and report.kind != "rows"]
    if imported.skipped[LEAKS]:
        return f"All of them hold an outcome in their prompt and were left out ({imported.skipped[LEAKS]:,}): --leaks report keeps them."
    if format_name != "auto" and (imported.skipped or imported.reports or imported.predictions):
        return f"Nothing there is of the format {format_name}: `rmlab import auto` tries all."
    if imported.predictions and not imported.reports:
        return (
            f"{imported.predictions[0].location} holds predictions, patches without the turns that led to them: "
            "name the trajectories of their run too."
        )
    if tables:
        return (
            f"Reports alone make no set: name the trajectories too. For pass@k of reports, `rmlab evaluate` takes the files themselves "
            f"({tables[0].location} is one), not their folder."
        )
    if imported.reports:
        return f"Reports alone make no set ({imported.reports[0].location} is one): name the trajectories too."
    return "`rmlab import --help` names the formats; a table of scores is a file for `rmlab evaluate`."
