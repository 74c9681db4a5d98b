"""An import from end to end: read every path, assemble records and their labels, write the set; and what it did, in numbers and places."""

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rmlab.errors import DataError
from rmlab.progress import progress
from rmlab.trajectories.ingest.archives import is_archive
from rmlab.trajectories.ingest.assemble import ImportResult, assemble
from rmlab.trajectories.ingest.drafts import Spool
from rmlab.trajectories.ingest.locations import Location, roots
from rmlab.trajectories.ingest.reading import LEAKS, Importer, ImportOptions
from rmlab.trajectories.readers.chat import names_patch
from rmlab.trajectories.store import read_metadata
from rmlab.wording import counted

SHOWN = 20  # places of one kind that a summary names; all are counted


def summary(result: ImportResult, notes: Sequence[str] = ()) -> dict[str, Any]:
    """The object of `rmlab import --json`. notes: what else is to be said, one line each."""
    imported, joined = result.imported, result.joined
    labels = [joined.label.get(i) for i in result.rows]
    return {
        "trajectories": len(result.rows),
        "tasks": len({result.task[i] for i in result.rows}),
        "labelled": sum(label is not None for label in labels),
        "resolved": sum(label is not None and label[0] for label in labels),
        "policies": dict(sorted(Counter(result.policy[i] for i in result.rows).items())),
        "duplicates": result.duplicates,
        "skipped": dict(sorted(imported.skipped.items())),
        "formats": dict(sorted(Counter(imported.drafts[i].format for i in result.rows).items())),
        "exit_statuses": dict(sorted(Counter(imported.drafts[i].exit_status for i in result.rows).items())),
        "without_patch": sum(not imported.has_patch[i] and i not in result.patch for i in result.rows),
        "removed": dict(sorted(imported.removed.items())),
        "reports": _reports(result),
        "predictions": [
            {"place": str(p.location), "tasks": len(p.patch), "empty": sum(not t.strip() for t in p.patch.values())}
            for p in imported.predictions
        ],
        "conflicts": len(joined.conflicts),
        "ambiguous": len(joined.ambiguous),
        "not_evaluated": dict(sorted(joined.unfinished.items())),
        "mended": len(imported.mended),
        "notes": [*(f"{r.location}: {r.note}" for r in imported.reports if r.note), *joined.notes, *notes],
        "outcomes_in_prompts": len(imported.leaks),
        "hidden_tests_named": len(result.hidden_seen),
        "places": {
            "skipped": [f"{one.location}: {one.reason}" for one in imported.skips[:SHOWN]],
            "duplicates": [
                f"{imported.drafts[i].location} = {', '.join(others)}"
                for i, others in list(result.also.items())[:SHOWN]
            ],
            "conflicts": joined.conflicts[:SHOWN],
            "ambiguous": joined.ambiguous[:SHOWN],
            "mended": imported.mended[:SHOWN],
            "outcomes_in_prompts": imported.leaks[:SHOWN],
            "hidden_tests_named": result.hidden_seen[:SHOWN],
        },
    }


def _reports(result: ImportResult) -> list[dict[str, Any]]:
    """Each report's own counts; those of single instances are added up by their folder."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for report in result.imported.reports:
        single = report.kind == "report.json"
        location = str(report.location).rsplit("/", 2)[0] + "/*/report.json" if single else str(report.location)
        row = rows.setdefault(
            (location, report.kind, report.system),
            {
                "place": location,
                "kind": report.kind,
                "system": report.system or None,
                "stated": 0,
                "resolved": 0,
                "not_evaluated": 0,
                "contradictions": 0,
            },
        )
        row["stated"] += len(report.outcome)
        row["resolved"] += report.resolved
        row["not_evaluated"] += len(report.unfinished)
        row["contradictions"] += len(report.contradictions)
    return list(rows.values())


def lines(result: dict[str, Any], leaks_dropped: bool = False) -> list[str]:
    """The summary for people. leaks_dropped: attempts whose prompt holds an outcome were left out, as was asked."""

    def listed(counts: dict[str, int]) -> str:
        return (
            ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
            or "none"
        )

    shown = [
        f"{counted(result['trajectories'], 'trajectory', 'trajectories')} of {counted(result['tasks'], 'task')}: "
        f"{result['labelled']:,} labelled, {result['resolved']:,} resolved",
        f"policies: {listed(result['policies'])}",
        f"formats: {listed(result['formats'])}; ended: {listed(result['exit_statuses'])}; without a patch: {result['without_patch']:,}",
        f"copies kept once: {result['duplicates']:,}; skipped: {listed(result['skipped'])}",
    ]
    if result["removed"]:
        shown.append(f"removed from what was read: {listed(result['removed'])}")
    stated = sum(r["stated"] for r in result["reports"])
    if result["reports"]:
        reports = counted(len(result["reports"]), "report states", "reports state")
        shown.append(f"labels found: {reports} {counted(stated, 'outcome')}")
    elif result["trajectories"] > result["labelled"]:
        shown.append("labels found: none beside the trajectories; name reports that lie elsewhere with --labels")
    if result["predictions"]:
        patches = sum(p["tasks"] for p in result["predictions"])
        files = counted(len(result["predictions"]), "file lists", "files list")
        empty = sum(p["empty"] for p in result["predictions"])
        shown.append(f"predictions found: {files} {counted(patches, 'patch', 'patches')} ({empty:,} empty)")
    if leaks_dropped:
        dropped = result["skipped"].get(LEAKS, 0)
        shown.append(f"attempts left out because their prompt holds an outcome: {dropped:,}")
    leaks = "outcomes in prompts " + (
        "(their attempts were left out)"
        if leaks_dropped
        else "(training refuses them; --leaks drop leaves the attempts out)"
    )
    if result["not_evaluated"]:
        shown.append(f"named in a report without an outcome (unlabelled): {listed(result['not_evaluated'])}")
    for kind, words in (
        ("conflicts", "labels in conflict (unlabelled)"),
        ("ambiguous", "labels that could mean several attempts (unlabelled)"),
        ("mended", "files that are not strict JSON"),
        ("outcomes_in_prompts", leaks),
        ("hidden_tests_named", "hidden tests named in prompts"),
    ):
        if result[kind]:
            shown.append(f"{words}: {result[kind]:,}, first {result['places'][kind][0]}")
    shown += [f"note: {note}" for note in result["notes"]]
    for location in result["places"]["skipped"][:3]:
        shown.append(f"skipped {location}")
    return shown


HUB = "hf:"


def import_trajectories(
    paths: Sequence[str],
    out: Path,
    labels: Sequence[Path] = (),
    options: ImportOptions | None = None,
    source: str = "",
    made_by: Mapping[str, str] | None = None,
) -> tuple[ImportResult, dict[str, Any]]:
    """What was imported, and its summary. Nothing is written where no trajectory was read.

    paths: folders, files, archives, or `hf:NAME` of a hub's set. labels: reports that stand elsewhere. source: of all records,
    "" = by the task's id. made_by: what the set says of this request.
    Raises DataError where a path is not there, labels are none, and under `strict`.
    """
    options = options or ImportOptions()
    with contextlib.closing(Spool()) as spool:
        importer = Importer(options, spool)
        named_twice = _read(importer, paths, labels)
        result = assemble(importer.imported, source)
        if options.strict:
            _check_labels(result)
        if result.rows:
            with progress("Writing", len(result.rows), "trajectories") as step:
                result.write(out, {**_origin(paths, result), **(made_by or {})}, step)
    notes = [f"{name} is named twice and was read once" for name in named_twice]
    return result, summary(result, notes)


def _read(importer: Importer, paths: Sequence[str], labels: Sequence[Path]) -> list[str]:
    """Reads all paths, then all labels; the names that were given more than once."""
    once, twice = _once(paths)
    labels_once, labels_twice = _once([str(path) for path in labels])
    local = [Path(name) for name in (*paths, *map(str, labels)) if not name.startswith(HUB)]
    root_of = dict(zip(local, roots(local), strict=True))
    for name in once:
        if name.startswith(HUB):
            importer.rows(_hub_rows(name.removeprefix(HUB)), Location(name, ""))
        else:
            _read_path(importer, Path(name), root_of[Path(name)])
    for path in map(Path, labels_once):
        before = len(importer.imported.reports)
        importer.read(path, labels_only=True, root=root_of[path])
        if len(importer.imported.reports) == before:
            raise DataError(f"{path} contains no labels. Name a report, a list of ids, a table or a matrix.")
    return list(dict.fromkeys([*twice, *labels_twice]))


def _once(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names without those that repeat one before them, and the latter. Two spellings of one path are one."""
    first: dict[str, str] = {}
    twice = []
    for name in names:
        key = name if name.startswith(HUB) else os.path.normpath(Path(name).absolute())
        if key in first:
            twice.append(name)
        first.setdefault(key, name)
    return list(first.values()), twice


def _read_path(importer: Importer, path: Path, root: str) -> None:
    """Reads a path. A report that is named on the line is meant for what is read, as if it stood behind --labels."""
    imported = importer.imported
    reports, drafts = len(imported.reports), len(imported.drafts)
    importer.read(path, progress=_bar, root=root)
    if path.is_file() and not is_archive(path.name) and len(imported.drafts) == drafts:
        for report in imported.reports[reports:]:
            report.explicit = True


@contextlib.contextmanager
def _bar(title: str, size: float) -> Iterator[Any]:
    with progress(f"Reading {title}", round(size / 1e6, 1), "MB") as advance:
        yield lambda amount: advance(amount / 1e6)


def _check_labels(result: ImportResult) -> None:
    """Raises DataError where labels are in conflict, or could mean several attempts."""
    trouble = [*result.joined.conflicts, *result.joined.ambiguous]
    if trouble:
        raise DataError(
            f"{trouble[0]} ({len(trouble)} such). Remove one of the sources, or import without --strict, "
            "which leaves them unlabelled."
        )


def _origin(paths: Sequence[str], result: ImportResult) -> dict[str, str]:
    """What the set says of its origin: this command; where it is one of our own sets read again, what that one says."""
    if len(paths) == 1 and Path(paths[0]).is_file() and result.rows and all(d.fixed for d in result.imported.drafts):
        with contextlib.suppress(DataError):  # rows as JSON lines, or packed, state no origin
            return read_metadata(paths[0])
    return {"command": "rmlab import", "from": ", ".join(Path(p).name for p in paths)}


def _hub_rows(name: str) -> Iterator[dict[str, Any]]:
    """The rows of a public data set, one at a time. NAME or NAME@SPLIT. Raises DataError where it cannot be reached."""
    import datasets

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
