"""`rmlab import`: trajectories in the wild, and the labels beside them, into one set."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmlab.errors import DataError, UsageError
from rmlab.files import check_output
from rmlab.progress import progress
from rmlab.trajectories.archives import is_archive
from rmlab.trajectories.formats.registry import formats_named
from rmlab.trajectories.importing import Reader, Reading
from rmlab.trajectories.places import Place, roots
from rmlab.trajectories.settling import settle
from rmlab.trajectories.spool import Spool
from rmlab.trajectories.summary import lines, summary

HUB = "hf:"


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
    """Reads, joins, writes; prints and returns the summary. Raises DataError and UsageError as the readers do."""
    if leaks not in ("report", "drop"):
        raise UsageError(f"--leaks {leaks!r}: it is report (name them) or drop (leave such attempts out)")
    if any(not name.removeprefix(HUB).strip() for name in paths):
        raise UsageError("a path is empty (a variable without a value?): name what to read")
    check_output(out, [Path(name) for name in paths if not name.startswith(HUB)] + list(labels))
    spool = Spool()
    try:
        reader = Reader(Reading(formats_named(format_name), strict, leaks == "drop"), spool)
        here = [Path(name) for name in paths if not name.startswith(HUB)]
        called = dict(zip([*here, *labels], roots([*here, *labels]), strict=True))
        for name in paths:
            if name.startswith(HUB):
                reader.rows(_hub_rows(name.removeprefix(HUB)), Place(name, ""))
            else:
                _read(reader, Path(name), called[Path(name)])
        for path in labels:
            before = len(reader.found.reports)
            reader.read(path, labels_only=True, root=called[path])
            if len(reader.found.reports) == before:
                raise DataError(
                    f"{path}: no labels were found there. A report, an id list, a table or a matrix is needed."
                )
        settled = settle(reader.found, source)
        trouble = [*settled.joined.conflicts, *settled.joined.ambiguous]
        if strict and trouble:
            raise DataError(
                f"{trouble[0]} ({len(trouble)} such). Remove one of the sources, or import without --strict, "
                "which leaves them unlabelled."
            )
        with progress("Writing", len(settled.rows), "trajectories") as step:
            settled.write(out, {"command": "rmlab import", "from": ", ".join(Path(p).name for p in paths)}, step)
        result = summary(settled)
    finally:
        spool.close()
    print(json.dumps(result) if as_json else "\n".join([*lines(result), f"written to {out}"]))
    if not result["trajectories"]:
        print(
            f"rmlab: no trajectory was read; {out} is empty. "
            + (
                "Reports alone make no set: name the trajectories too, or give reports to `rmlab evaluate`."
                if settled.found.reports
                else "`rmlab import --help` names the formats; a table of scores is for `rmlab evaluate`."
            ),
            file=sys.stderr,
        )
    return result


def _read(reader: Reader, path: Path, root: str) -> None:
    """Reads a path. A report that is named on the line is meant for what is read, as if it stood behind --labels."""
    reports, drafts = len(reader.found.reports), len(reader.found.drafts)
    reader.read(path, progress=_bar, root=root)
    if path.is_file() and not is_archive(path.name) and len(reader.found.drafts) == drafts:
        for report in reader.found.reports[reports:]:
            report.explicit = True


@contextmanager
def _bar(title: str, size: float) -> Iterator[Any]:
    with progress(f"Reading {title}", round(size / 1e6, 1), "MB") as advance:
        yield lambda amount: advance(amount / 1e6)


def _hub_rows(name: str) -> Iterator[dict[str, Any]]:
    """The rows of a public data set, one at a time. NAME or NAME@SPLIT. Raises DataError where it cannot be reached."""
    import datasets

    name, _, split = name.partition("@")
    try:
        loaded = datasets.load_dataset(name, split=split or None, streaming=True)
        parts = [loaded] if split else [loaded[part] for part in loaded]
        for part in parts:
            for row in part:
                yield {key: value for key, value in row.items() if value is not None}
    except (OSError, ValueError, RuntimeError) as error:  # no network, no such set, no such split
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"hf:{name} cannot be read ({first[:160]}). Check the name and the network, or name a local folder or file "
            "of the same columns."
        ) from error
