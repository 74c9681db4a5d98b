"""`rmlab import`: trajectories in other formats, with their labels, into one set."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmlab.errors import DataError, UsageError
from rmlab.files import PARQUET, check_output
from rmlab.fingerprint import fingerprint
from rmlab.trajectories.readers.registry import format_names, formats_named

if TYPE_CHECKING:
    from rmlab.trajectories.ingest.reading import ImportedRecords

app = typer.Typer()


@app.command("import", epilog="Example: `rmlab import auto ../20240623_moatless.zip -o runs/real.parquet`")
def import_trajectories(
    format_name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT", help=f"auto, or one of {', '.join(format_names())}; rmlab means its own sets."
        ),
    ],
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Folders, files, .zip, .tar (plain, .gz, .zst, .bz2, .xz), or hf:NAME for a data set on the hub.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The trajectory set to write (Parquet).")],
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            help="Reports that lie outside the paths; those inside are found anyway. May be given several times."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first record that is skipped, repaired or in conflict.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as one JSON object on standard output.")] = False,
    leaks: Annotated[
        str, typer.Option(help="What to do with attempts whose prompt holds the outcome: report or drop.")
    ] = "report",
    source: Annotated[
        str,
        typer.Option(
            help="The source to record for all of them. Default: inferred from the task id (swe-bench, swe-smith, ...)."
        ),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the output even if another request made it.")] = False,
) -> dict[str, Any]:
    """Read trajectories in other formats and join them with the labels stored beside them."""
    from rmlab.made_before import made_before
    from rmlab.trajectories.ingest import importing
    from rmlab.trajectories.ingest.importing import lines
    from rmlab.trajectories.ingest.reading import ImportOptions

    labels = labels or []
    if leaks not in ("report", "drop"):
        raise UsageError(f"--leaks {leaks!r}: must be report (list them) or drop (leave such attempts out)")
    if any(not name.removeprefix(importing.HUB).strip() for name in paths):
        raise UsageError("a path is empty (a variable without a value?): name what to read")
    check_output(out, [Path(name) for name in paths if not name.startswith(importing.HUB)] + labels, PARQUET)
    options = ImportOptions(formats_named(format_name), strict, leaks == "drop")
    request = fingerprint(
        ["import", format_name, sorted(map(_where, paths)), sorted(_where(str(path)) for path in labels), leaks, source]
    )
    if not force:
        made_before(out, request)  # refuses what another request made; the same one may find more than it did
    result, shown = importing.import_trajectories(paths, out, labels, options, source, {"config_hash": request})
    end = [f"written to {out}"] if result.rows else []
    print(json.dumps(shown) if as_json else "\n".join([*lines(shown, leaks == "drop"), *end]))
    if not result.rows:
        kept = f"{out} stays as it was" if out.exists() else f"{out} is not written"
        raise DataError(f"no trajectory was read, and {kept}. {_what_is_there(result.imported, format_name)}")
    return shown


def _where(name: str) -> str:
    """What is read, wherever the command is given."""
    from rmlab.trajectories.ingest.importing import HUB

    return name if name.startswith(HUB) else str(Path(name).resolve())


def _what_is_there(imported: "ImportedRecords", format_name: str) -> str:
    """What was read instead of trajectories, and what can be done with it."""
    from rmlab.trajectories.ingest.reading import LEAKS

    tables = [report for report in imported.reports if report.location.name.endswith(".json") and report.kind != "rows"]
    if imported.skipped[LEAKS]:
        return f"All of them hold the outcome in their prompt and were left out ({imported.skipped[LEAKS]:,}): --leaks report keeps them."
    if format_name != "auto" and (imported.skipped or imported.reports or imported.predictions):
        return f"Nothing there has the format {format_name}: `rmlab import auto` tries all formats."
    if imported.predictions and not imported.reports:
        return (
            f"{imported.predictions[0].location} holds only predictions, which are patches without the turns that led to them: "
            "name the trajectories of their run too."
        )
    if tables:
        return (
            f"Reports alone make no set: name the trajectories too. For pass@k from reports, give `rmlab evaluate` the files themselves "
            f"(such as {tables[0].location}), not their folder."
        )
    if imported.reports:
        return f"Reports alone make no set ({imported.reports[0].location} is one): name the trajectories too."
    return "`rmlab import --help` lists the formats; for a table of scores, use `rmlab evaluate`."
