"""`rmlab import`: trajectories in the wild, and the labels beside them, into one set."""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmlab.errors import DataError, UsageError
from rmlab.files import check_output

if TYPE_CHECKING:
    from rmlab.trajectories.ingest.assemble import Settled
    from rmlab.trajectories.ingest.importing import Found, Reader

app = typer.Typer()

HUB = "hf:"


@app.command("import", epilog="Example: `rmlab import auto ../20240623_moatless.zip -o runs/real.parquet`")
def import_trajectories(
    format_name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="auto, or one of mini-swe-agent, swe-agent, openhands-output, openhands-completions, openhands-events, moatless, "
            "moatless-nodes, r2e-gym, chat, rmlab (its own sets).",
        ),
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
    from rmlab.progress import progress
    from rmlab.trajectories.ingest.assemble import settle
    from rmlab.trajectories.ingest.drafts import Spool
    from rmlab.trajectories.ingest.importing import Reader, Reading
    from rmlab.trajectories.ingest.locations import Place, roots
    from rmlab.trajectories.ingest.summary import lines, summary
    from rmlab.trajectories.readers.registry import formats_named

    labels = labels or []
    if leaks not in ("report", "drop"):
        raise UsageError(f"--leaks {leaks!r}: it is report (name them) or drop (leave such attempts out)")
    if any(not name.removeprefix(HUB).strip() for name in paths):
        raise UsageError("a path is empty (a variable without a value?): name what to read")
    check_output(out, [Path(name) for name in paths if not name.startswith(HUB)] + labels)
    spool = Spool()
    try:
        reader = Reader(Reading(formats_named(format_name), strict, leaks == "drop"), spool)
        here = [Path(name) for name in paths if not name.startswith(HUB)]
        called = dict(zip([*here, *labels], roots([*here, *labels]), strict=True))
        twice = [name for number, name in enumerate(paths) if _same(name) in map(_same, paths[:number])]
        for number, name in enumerate(paths):
            if _same(name) in map(_same, paths[:number]):
                continue
            if name.startswith(HUB):
                reader.rows(_hub_rows(name.removeprefix(HUB)), Place(name, ""))
            else:
                _read(reader, Path(name), called[Path(name)])
        for number, path in enumerate(labels):
            if _same(str(path)) in map(_same, map(str, labels[:number])):
                twice.append(str(path))
                continue
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
        if settled.rows:
            with progress("Writing", len(settled.rows), "trajectories") as step:
                settled.write(out, _origin(paths, settled), step)
        result = summary(settled)
    finally:
        spool.close()
    result["notes"] += [f"{name} is named twice and was read once" for name in dict.fromkeys(twice)]
    end = [f"written to {out}"] if settled.rows else []
    print(json.dumps(result) if as_json else "\n".join([*lines(result, leaks == "drop"), *end]))
    if not settled.rows:
        kept = f"{out} stays as it was" if out.exists() else f"{out} is not written"
        raise DataError(f"no trajectory was read, and {kept}. {_what_is_there(settled.found, format_name)}")
    return result


def _origin(paths: Sequence[str], settled: "Settled") -> dict[str, str]:
    """What the set says of its origin: this command; where it is one of our own sets read again, what that one says."""
    from rmlab.trajectories.store import read_metadata

    if len(paths) == 1 and Path(paths[0]).is_file() and settled.rows and all(d.fixed for d in settled.found.drafts):
        with contextlib.suppress(DataError):  # rows as JSON lines, or packed, state no origin
            return read_metadata(paths[0])
    return {"command": "rmlab import", "from": ", ".join(Path(p).name for p in paths)}


def _same(name: str) -> str:
    """What is read by a name on the line: two spellings of one path are one."""
    return name if name.startswith(HUB) else os.path.normpath(Path(name).absolute())


def _what_is_there(found: "Found", format_name: str) -> str:
    """What was read in place of trajectories, and what can be done with it."""
    from rmlab.trajectories.ingest.importing import LEAKS

    tables = [report for report in found.reports if report.place.name.endswith(".json") and report.kind != "rows"]
    if found.skipped[LEAKS]:
        return f"All of them hold an outcome in their prompt and were left out ({found.skipped[LEAKS]:,}): --leaks report keeps them."
    if format_name != "auto" and (found.skipped or found.reports or found.predictions):
        return f"Nothing there is of the format {format_name}: `rmlab import auto` tries all."
    if found.predictions and not found.reports:
        return (
            f"{found.predictions[0].place} holds predictions, patches without the turns that led to them: "
            "name the trajectories of their run too."
        )
    if tables:
        return (
            f"Reports alone make no set: name the trajectories too. For pass@k of reports, `rmlab evaluate` takes the files themselves "
            f"({tables[0].place} is one), not their folder."
        )
    if found.reports:
        return f"Reports alone make no set ({found.reports[0].place} is one): name the trajectories too."
    return "`rmlab import --help` names the formats; a table of scores is a file for `rmlab evaluate`."


def _read(reader: "Reader", path: Path, root: str) -> None:
    """Reads a path. A report that is named on the line is meant for what is read, as if it stood behind --labels."""
    from rmlab.trajectories.ingest.archives import is_archive

    reports, drafts = len(reader.found.reports), len(reader.found.drafts)
    reader.read(path, progress=_bar, root=root)
    if path.is_file() and not is_archive(path.name) and len(reader.found.drafts) == drafts:
        for report in reader.found.reports[reports:]:
            report.explicit = True


@contextmanager
def _bar(title: str, size: float) -> Iterator[Any]:
    from rmlab.progress import progress

    with progress(f"Reading {title}", round(size / 1e6, 1), "MB") as advance:
        yield lambda amount: advance(amount / 1e6)


def _hub_rows(name: str) -> Iterator[dict[str, Any]]:
    """The rows of a public data set, one at a time. NAME or NAME@SPLIT. Raises DataError where it cannot be reached."""
    import datasets

    from rmlab.trajectories.readers.chat import names_patch

    name, _, split = name.partition("@")
    try:
        loaded = datasets.load_dataset(name, split=split or None, streaming=True)
        parts = [loaded] if split else [loaded[part] for part in loaded]
        for part in parts:
            for row in part:
                yield {key: value for key, value in row.items() if value is not None or names_patch(key)}
    except (OSError, ValueError, RuntimeError) as error:  # no network, no such set, no such split
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"hf:{name} cannot be read ({first[:160]}). Check the name and the network, or name a local folder or file "
            "of the same columns."
        ) from error
