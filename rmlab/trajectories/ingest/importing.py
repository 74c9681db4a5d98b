"""Reading trajectories in the wild: every file of every path, one record at a time; then labels, copies and attempts.

Nothing stops the import of the rest: what is no trajectory, or cannot be read, is skipped, counted by its reason and named
with its place. Under `strict` the first of them is an error.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rmlab.errors import DataError
from rmlab.trajectories.ingest.compression import plain_name
from rmlab.trajectories.ingest.containers import batches
from rmlab.trajectories.ingest.documents import Damaged, Document, documents, units
from rmlab.trajectories.ingest.drafts import Draft, NotATrajectory, Spool
from rmlab.trajectories.ingest.entries import Limits, Refusal
from rmlab.trajectories.ingest.json_text import as_dict
from rmlab.trajectories.ingest.locations import Place
from rmlab.trajectories.labels.documents import reports
from rmlab.trajectories.labels.rows import csv_report, markdown_report
from rmlab.trajectories.labels.statement import Predictions, Report, predictions
from rmlab.trajectories.leakage import outcome_texts, without_repeated_patch
from rmlab.trajectories.readers.protocol import STATISTICS, Format
from rmlab.trajectories.readers.registry import FORMATS, drafted

UNKNOWN, LEAKS = "no known format", "the prompt holds an outcome"
STATISTICS_KEYS = (
    "metrics",
    "patch_generated",
    "patch_length",
    "exit_status",
    "cost",
    "instance_cost",
    "duration",
    "model_stats",
)
Step = Callable[[float, str], None]


@dataclass
class Found:
    """All that was read, texts in the spool. drafts: without their messages and patches; keys and contents in their order."""

    spool: Spool
    drafts: list[Draft] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    has_patch: list[bool] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    predictions: list[Predictions] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    skips: list[tuple[str, str]] = field(default_factory=list)
    removed: Counter[str] = field(default_factory=Counter)
    mended: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Reading:
    """How to read. formats: those that are asked. strict: stop at the first skip. drop_leaks: leave out attempts whose
    prompt holds an outcome, instead of only naming them."""

    formats: tuple[Format, ...] = FORMATS
    strict: bool = False
    drop_leaks: bool = False
    limits: Limits = field(default_factory=Limits)


class Reader:
    """Reads paths into one Found."""

    def __init__(self, reading: Reading, spool: Spool):
        self.reading = reading
        self.found = Found(spool)
        self._open: dict[tuple[Any, ...], Report | Predictions] = {}
        self._unknown_rows: set[str] = set()

    def read(
        self, path: Path, labels_only: bool = False, progress: Callable[[str, float], Any] | None = None, root: str = ""
    ) -> None:
        """All of a path. labels_only: only reports and predictions are taken, and they are taken as named by the user.
        root: what the path is called; "" = its last part, which is enough where no other path ends alike.

        Raises DataError where the path is not there, and under `strict`.
        """
        for batch in batches(path, self.reading.limits, root):
            for refusal in (one for one in batch if isinstance(one, Refusal)):
                if not labels_only:
                    self._skip(refusal.place, refusal.reason)
            together = units([one for one in batch if not isinstance(one, Refusal)])
            if progress is None:
                for unit in together:
                    self._take(documents(unit), labels_only)
                continue
            with progress(path.name, sum(unit.size for unit in together)) as advance:
                for unit in together:
                    self._take(documents(unit), labels_only)
                    advance(unit.size)

    def rows(self, rows: Iterable[dict[str, Any]], place: Place) -> None:
        """Rows that come from elsewhere (a hub)."""
        self._take((Document(place.at_line(n), row, True) for n, row in enumerate(rows, 1)), labels_only=False)

    def _take(self, found: Iterable[Document | Damaged], labels_only: bool) -> None:
        for one in found:
            if isinstance(one, Damaged):
                if not labels_only:
                    self._skip(one.place, one.reason)
                continue
            if one.mended:
                self.found.mended.append(f"{one.place}: {one.mended}")
                if self.reading.strict:
                    raise DataError(
                        f"{one.place} is not strict JSON ({one.mended}). Mend it, or import without --strict."
                    )
            if not labels_only and self._attempt(one):
                continue
            if not self._statement(one, labels_only) and not labels_only:
                self._unknown(one)

    def _attempt(self, document: Document) -> bool:
        """Whether the document is of a trajectory's format; it is then read or skipped."""
        if not isinstance(document.value, (dict, list)):
            return False
        try:
            draft = drafted(document.value, document.place, self.reading.formats)
        except NotATrajectory as reason:
            self._skip(document.place, str(reason))
            return True
        if draft is None:
            return False
        self.add(draft)
        return True

    def add(self, draft: Draft) -> None:
        """Keeps a draft, its text in the spool."""
        found = self.found
        fixed = draft.fixed is not None
        messages, removed = (
            (draft.messages, Counter[str]()) if fixed else without_repeated_patch(draft.messages, draft.patch)
        )
        leaks = [f"{draft.place}, message {number}: {text!r}" for number, text in outcome_texts(messages)]
        found.leaks += leaks
        if leaks and self.reading.drop_leaks:
            self._skip(draft.place, LEAKS)
            return
        found.removed.update(removed + draft.removed)
        key, content = found.spool.put(messages, draft.patch)
        found.keys.append(key)
        found.contents.append(content)
        found.has_patch.append(draft.patch is not None)
        found.drafts.append(replace(draft, messages=[], patch=None, removed=removed + draft.removed))

    def _statement(self, document: Document, explicit: bool) -> bool:
        """Whether the document states labels or holds predictions; it is then kept."""
        place = replace(document.place, line=None)
        stated: Sequence[Report | Predictions]
        if isinstance(document.value, str):
            table = (
                markdown_report(document.value, place)
                if plain_name(place.name).lower().endswith((".md", ".txt"))
                else csv_report(document.value, place)
            )
            stated = [table] if table else []
        else:
            submitted = predictions(document.value, place)
            stated = [submitted] if submitted else reports([document.value] if document.row else document.value, place)
            if document.row and not stated:
                stated = reports(document.value, place)
        for one in stated:
            if isinstance(one, Report):
                one.explicit = explicit
            self._join_rows(one)
        return bool(stated)

    def _join_rows(self, one: Report | Predictions) -> None:
        """Rows of one file are one report."""
        key = (str(one.place), explicit_key(one))
        known = self._open.get(key)
        if known is None:
            self._open[key] = one
            (self.found.reports if isinstance(one, Report) else self.found.predictions).append(one)  # type: ignore[arg-type]
        elif isinstance(one, Report) and isinstance(known, Report):
            known.merge(one)
        elif isinstance(one, Predictions) and isinstance(known, Predictions):
            known.patch.update(one.patch)
            known.model.update(one.model)

    def _unknown(self, document: Document) -> None:
        """A record of no known format: statistics of a run, or anything else. Every row counts; their file is named once."""
        value = as_dict(document.value)
        file = str(replace(document.place, line=None))
        if document.row:
            if file in self._unknown_rows:
                self.found.skipped[UNKNOWN] += 1
                return
            self._unknown_rows.add(file)
            self._skip(document.place, UNKNOWN)
        elif "instance_id" in value and any(key in value for key in STATISTICS_KEYS):
            self._skip(document.place, STATISTICS)
        else:
            self._skip(document.place, UNKNOWN)

    def _skip(self, place: Place, reason: str) -> None:
        if self.reading.strict and reason != UNKNOWN:
            raise DataError(
                f"{place}: {reason}. Mend or remove it, or import without --strict, which skips and counts it."
            )
        kind = reason.split(" (", 1)[0].split(": ", 1)[0]
        self.found.skipped[kind] += 1
        self.found.skips.append((str(place), reason))


def explicit_key(one: Report | Predictions) -> tuple[Any, ...]:
    """What tells reports of one file apart."""
    return (one.kind, one.system, one.names, one.explicit) if isinstance(one, Report) else ("predictions",)
