"""`rmlab import`: trajectories in the wild, and the labels beside them, into one set."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmlab.errors import DataError, UsageError
from rmlab.files import check_output
from rmlab.trajectories.ingest.importing import HUB, import_trajectories
from rmlab.trajectories.ingest.reading import LEAKS, ImportedRecords, ImportOptions
from rmlab.trajectories.ingest.summary import lines
from rmlab.trajectories.readers.registry import formats_named


def main(
    format_name: str,
    paths: Sequence[str],
    out: Path,
    labels: Sequence[Path] = (),
    strict: bool = False,
    as_json: bool = False,
    leaks: str = "report",
    source: str = "",
) -> dict[str, Any]:
    """Reads, joins, writes; prints and returns the summary. Raises DataError and UsageError as the readers do, and DataError where
    no trajectory was read: nothing is written then, and what stood at `out` stays."""
    if leaks not in ("report", "drop"):
        raise UsageError(f"--leaks {leaks!r}: it is report (name them) or drop (leave such attempts out)")
    if any(not name.removeprefix(HUB).strip() for name in paths):
        raise UsageError("a path is empty (a variable without a value?): name what to read")
    check_output(out, [Path(name) for name in paths if not name.startswith(HUB)] + list(labels))
    options = ImportOptions(formats_named(format_name), strict, leaks == "drop")
    result, shown = import_trajectories(paths, out, labels, options, source)
    end = [f"written to {out}"] if result.rows else []
    print(json.dumps(shown) if as_json else "\n".join([*lines(shown, leaks == "drop"), *end]))
    if not result.rows:
        kept = f"{out} stays as it was" if out.exists() else f"{out} is not written"
        raise DataError(f"no trajectory was read, and {kept}. {_what_is_there(result.imported, format_name)}")
    return shown


def _what_is_there(imported: ImportedRecords, format_name: str) -> str:
    """What was read in place of trajectories, and what can be done with it."""
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
