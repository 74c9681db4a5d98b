"""Reading trajectories in the wild: every file of every path, one record at a time.

Nothing stops the reading of the rest: what is no trajectory, or cannot be read, is skipped, counted by its reason and named
with its location. Under `strict` the first of them is an error.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rmlab.errors import DataError
from rmlab.trajectories.ingest.compression import plain_name
from rmlab.trajectories.ingest.containers import batches
from rmlab.trajectories.ingest.documents import RawRecord, documents, units
from rmlab.trajectories.ingest.drafts import Draft, Spool
from rmlab.trajectories.ingest.entries import ImportLimits, SourceFile
from rmlab.trajectories.ingest.json_text import as_dict
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.ingest.skipped import Skipped
from rmlab.trajectories.labels.documents import reports
from rmlab.trajectories.labels.rows import csv_report, markdown_report
from rmlab.trajectories.labels.statement import Predictions, Report, predictions
from rmlab.trajectories.leakage import outcome_texts, without_repeated_patch
from rmlab.trajectories.readers.protocol import STATISTICS, Format
from rmlab.trajectories.readers.registry import FORMATS, drafted

UNKNOWN, LEAKS = "no known format", "the prompt holds an outcome"
STATISTICS_KEYS = (
    "metrics", "patch_generated", "patch_length", "exit_status", "cost", "instance_cost", "duration", "model_stats",
)  # fmt: skip


@dataclass
class ImportedRecords:
    """All that was read, texts in the spool. drafts: without their messages and patches; keys and contents in their order."""

    spool: Spool
    drafts: list[Draft] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    has_patch: list[bool] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    predictions: list[Predictions] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    skips: list[Skipped] = field(default_factory=list)
    removed: Counter[str] = field(default_factory=Counter)
    mended: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ImportOptions:
    """How to read. formats: those that are asked. strict: stop at the first skip. drop_leaks: leave out attempts whose
    prompt holds an outcome, instead of only naming them."""

    formats: tuple[Format, ...] = FORMATS
    strict: bool = False
    drop_leaks: bool = False
    limits: ImportLimits = field(default_factory=ImportLimits)


class Importer:
    """Reads paths into one ImportedRecords. Each record is an attempt (`_attempt`), or states labels or patches
    (`_statement`), or is skipped (`_skip`)."""

    def __init__(self, options: ImportOptions, spool: Spool):
        self.options = options
        self.imported = ImportedRecords(spool)
        self._open: dict[tuple[Any, ...], Report | Predictions] = {}
        self._unknown_rows: set[str] = set()

    def read(
        self, path: Path, labels_only: bool = False, progress: Callable[[str, float], Any] | None = None, root: str = ""
    ) -> None:
        """All of a path. labels_only: only reports and predictions are taken, and they are taken as named by the user.
        root: what the path is called; "" = its last part, which is enough where no other path ends alike.

        Raises DataError where the path is not there, and under `strict`.
        """
        for batch in batches(path, self.options.limits, root):
            self._take((one for one in batch if isinstance(one, Skipped)), labels_only)
            together = units([one for one in batch if isinstance(one, SourceFile)])
            if progress is None:
                for unit in together:
                    self._take(documents(unit), labels_only)
                continue
            with progress(path.name, sum(unit.size for unit in together)) as advance:
                for unit in together:
                    self._take(documents(unit), labels_only)
                    advance(unit.size)

    def rows(self, rows: Iterable[dict[str, Any]], location: Location) -> None:
        """Rows that come from elsewhere (a hub)."""
        self._take((RawRecord(location.at_line(n), row, True) for n, row in enumerate(rows, 1)), labels_only=False)

    def _take(self, records: Iterable[RawRecord | Skipped], labels_only: bool) -> None:
        for record in records:
            if isinstance(record, Skipped):
                if not labels_only:
                    self._skip(record)
                continue
            if record.mended:
                self._note_mended(record)
            if labels_only:
                self._statement(record, explicit=True)
            elif not self._attempt(record) and not self._statement(record, explicit=False):
                self._unknown(record)

    def _note_mended(self, record: RawRecord) -> None:
        self.imported.mended.append(f"{record.location}: {record.mended}")
        if self.options.strict:
            raise DataError(
                f"{record.location} is not strict JSON ({record.mended}). Fix it, or import without --strict."
            )

    def _attempt(self, record: RawRecord) -> bool:
        """Whether the record is of a trajectory's format; it is then kept, or skipped where it holds no attempt."""
        if not isinstance(record.value, (dict, list)):
            return False
        try:
            draft = drafted(record.value, record.location, self.options.formats)
        except Skipped as skipped:
            self._skip(skipped.at(record.location))
            return True
        if draft is not None:
            self.add(draft)
        return draft is not None

    def add(self, draft: Draft) -> None:
        """Keeps a draft, its text in the spool; a record of our own as it is."""
        imported, draft = self.imported, as_kept(draft)
        leaks = [f"{draft.location}, message {number}: {text!r}" for number, text in outcome_texts(draft.messages)]
        imported.leaks += leaks
        if leaks and self.options.drop_leaks:
            self._skip(Skipped(LEAKS, draft.location))
            return
        imported.removed.update(draft.removed)
        key, content = imported.spool.put(draft.messages, draft.patch)
        imported.keys.append(key)
        imported.contents.append(content)
        imported.has_patch.append(draft.patch is not None)
        imported.drafts.append(replace(draft, messages=[], patch=None))

    def _statement(self, record: RawRecord, explicit: bool) -> bool:
        """Whether the record states labels or holds predictions; it is then kept. explicit: the user named its file."""
        statements = _statements(record)
        for one in statements:
            if isinstance(one, Report):
                one.explicit = explicit
            self._join_rows(one)
        return bool(statements)

    def _join_rows(self, one: Report | Predictions) -> None:
        """Rows of one file are one report."""
        key = (str(one.location), explicit_key(one))
        known = self._open.get(key)
        if known is None:
            self._open[key] = one
            (self.imported.reports if isinstance(one, Report) else self.imported.predictions).append(one)  # type: ignore[arg-type]
        elif isinstance(one, Report) and isinstance(known, Report):
            known.merge(one)
        elif isinstance(one, Predictions) and isinstance(known, Predictions):
            known.patch.update(one.patch)
            known.model.update(one.model)

    def _unknown(self, record: RawRecord) -> None:
        """A record of no known format: statistics of a run, or anything else. Every row counts; their file is named once."""
        value, reason = as_dict(record.value), UNKNOWN
        if record.row:
            file = str(replace(record.location, line=None))
            if file in self._unknown_rows:
                self.imported.skipped[UNKNOWN] += 1
                return
            self._unknown_rows.add(file)
        elif "instance_id" in value and any(key in value for key in STATISTICS_KEYS):
            reason = STATISTICS
        self._skip(Skipped(reason, record.location))

    def _skip(self, skipped: Skipped) -> None:
        """Counts and names it; an error under `strict`, except files of other kinds, which lie beside every run."""
        if self.options.strict and skipped.reason != UNKNOWN:
            raise DataError(
                f"{skipped.location}: {skipped.reason}. Fix or remove it, or import without --strict, which skips and counts it."
            )
        self.imported.skipped[skipped.kind] += 1
        self.imported.skips.append(skipped)


def as_kept(draft: Draft) -> Draft:
    """The draft without last turns that only repeat its patch, which are counted; a record of our own as it is."""
    if draft.fixed is not None:
        return draft
    messages, removed = without_repeated_patch(draft.messages, draft.patch)
    return replace(draft, messages=messages, removed=removed + draft.removed)


def _statements(record: RawRecord) -> Sequence[Report | Predictions]:
    """The reports or predictions that a record holds: a table or a list in Markdown where it is text."""
    location, value = replace(record.location, line=None), record.value
    if isinstance(value, str):
        is_list = plain_name(location.name).lower().endswith((".md", ".txt"))
        table = markdown_report(value, location) if is_list else csv_report(value, location)
        return [table] if table else []
    if submitted := predictions(value, location):
        return [submitted]
    stated = reports([value] if record.row else value, location)
    return reports(value, location) if record.row and not stated else stated


def explicit_key(one: Report | Predictions) -> tuple[Any, ...]:
    """What tells reports of one file apart."""
    return (one.kind, one.system, one.names, one.explicit) if isinstance(one, Report) else ("predictions",)
