"""Reads a bundle: its runs look like those of a store; nothing is used before its hash was checked."""

import hashlib
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from rmlab.errors import DataError, MissingArtifact, RmlabError
from rmlab.progress import progress
from rmlab.stopping import is_full
from rmlab.tracking.bundles.format import (
    FORMAT,
    LARGEST_TEXT,
    MANIFEST,
    MOST_FILES,
    VERSION,
    BundledFile,
    BundleEntry,
    MetricRow,
    Record,
    entry_of,
    parsed,
    refusal,
    sense,
    texts,
    within,
)
from rmlab.tracking.query import TrackedRun
from rmlab.tracking.run_index import RunInfo
from rmlab.tracking.tags import SOURCE_RUN
from rmlab.tracking.views import headline

CHUNK = 1 << 20
UNREADABLE = (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, lzma.LZMAError, zlib.error)


class Bundle:
    """An open bundle. Opened by `open_bundle`; its runs are in the order of the manifest."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, scratch: Path) -> None:
        self.path, self._archive, self._scratch = path, archive, scratch
        members = self._members()
        manifest = parsed(self._read(MANIFEST, members, LARGEST_TEXT), f"{path}: {MANIFEST}")
        with sense(f"{path}: {MANIFEST}"):
            if manifest["format"] != FORMAT or manifest["version"] != VERSION:
                raise DataError(
                    f"{path} is a {manifest['format']} of version {manifest['version']}; this rmlab reads "
                    f"{FORMAT} {VERSION}: use the rmlab that wrote it"
                )
            self.origin: dict[str, str] = {str(k): str(v) for k, v in manifest["origin"].items()}
            self.experiments: dict[str, dict[str, str]] = {str(k): texts(v) for k, v in manifest["experiments"].items()}
            self.entries = [entry_of(raw) for raw in manifest["runs"]]
        self._check_listed(members)

    @property
    def size(self) -> int:
        """Bytes of all its files, unpacked."""
        return sum(file.bytes for entry in self.entries for file in entry.files)

    def verify(self, show: bool = True) -> None:
        """Reads everything and compares sizes and hashes. Raises DataError for the first file that is not what was written."""
        with progress("checking the bundle", self.size, "bytes", show) as advance:
            self.check(advance)

    def check(self, advance: Callable[[int], Any] = lambda size: None) -> None:
        """The same without a bar; `advance` is told the bytes of each file."""
        for entry in self.entries:
            for file in entry.files:
                self._copy(entry, file, None)
                advance(file.bytes)

    def record(self, entry: BundleEntry) -> Record:
        """Parameters, tags and data sets of a run. Raises DataError for a record that is none."""
        raw = parsed(self._text(entry, entry.record), f"{self.path}: {entry.member(entry.record)}")
        with sense(f"{self.path}: {entry.member(entry.record)}"):
            end = raw["end_time"]
            return Record(
                str(raw["name"]),
                str(raw["status"]),
                int(raw["start_time"]),
                None if end is None else int(end),
                texts(raw["params"]),
                texts(raw["tags"]),
                tuple(dict(one) for one in raw["inputs"]),
            )

    def metrics(self, entry: BundleEntry) -> list[MetricRow]:
        """(name, value, step, milliseconds) of all that the run logged."""
        with sense(f"{self.path}: {entry.member(entry.metrics)}"):
            lines = self._text(entry, entry.metrics).splitlines()
            rows = json.loads(f"[{','.join(lines)}]")  # one call for all takes a third of the time of one a line
            if len(rows) != len(lines):
                raise ValueError(f"{len(lines)} lines hold {len(rows)} metrics")
            return [(str(name), float(value), int(step), int(when)) for name, value, step, when in rows]

    def extract(self, entry: BundleEntry, file: BundledFile, target: Path) -> None:
        """Writes one artifact to `target`. Raises DataError where its content is not what the manifest says."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out:
            self._copy(entry, file, out.write)

    def runs(self) -> list["BundledRun"]:
        """The runs to read from, as those of a store; checks all hashes first."""
        self.verify()
        return self.checked_runs()

    def checked_runs(self) -> list["BundledRun"]:
        """The same of a bundle that was checked."""
        return [self._run(entry) for entry in self.entries]

    def artifact(self, entry: BundleEntry, path: str) -> Path:
        """A local path of an artifact (file or folder); it is there as long as the bundle is open."""
        folder = self._scratch / entry.run_id
        chosen = [f for f in entry.artifacts if f.path == path or f.path.startswith(f"{path}/")]
        if not chosen:
            left_out = (
                " (it was left out when the bundle was written)"
                if any(within(p, [path]) for p in entry.left_out)
                else ""
            )
            raise MissingArtifact(
                f"run {entry.name} ({entry.run_id}) has no artifact {path!r} in {self.path}{left_out}"
            )
        for file in chosen:
            if not (folder / file.path).exists():
                self.extract(entry, file, folder / file.path)
        return folder / path

    def _run(self, entry: BundleEntry) -> "BundledRun":
        record, rows = self.record(entry), self.metrics(entry)
        last = {name: value for name, value, *_ in sorted(rows, key=lambda row: (row[2], row[3]))}
        tags = {k: v for k, v in record.tags.items() if not k.startswith("mlflow.")}
        return BundledRun(
            run_id=entry.run_id,
            experiment_id=entry.experiment,
            name=record.name,
            tags=tags,
            start_time=record.start_time,
            end_time=record.end_time,
            params=dict(record.params),
            metrics=headline(last) | last,
            rows=tuple(rows),
            entry=entry,
            bundle=self,
        )

    def _members(self) -> dict[str, zipfile.ZipInfo]:
        """What the archive holds, by name. Raises DataError for what no bundle has."""
        infos = self._archive.infolist()
        if len(infos) > MOST_FILES:
            raise DataError(f"{self.path} holds {len(infos):,} files, but a bundle of runs has at most {MOST_FILES:,}")
        members: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            reason = refusal(info)
            if info.filename in members:
                reason = "is there twice"
            if reason:
                raise DataError(f"{self.path}: {info.filename!r} {reason}. Nothing was read; get the bundle again.")
            members[info.filename] = info
        return members

    def _check_listed(self, members: Mapping[str, zipfile.ZipInfo]) -> None:
        """Raises DataError unless archive and manifest name the same files, of the same sizes."""
        listed = {entry.member(file): file.bytes for entry in self.entries for file in entry.files}
        if len({entry.run_id for entry in self.entries}) < len(self.entries):
            raise DataError(f"{self.path}: a run is listed twice")
        found = {name: info.file_size for name, info in members.items() if name != MANIFEST}
        differing = sorted(name for name in {*listed, *found} if listed.get(name) != found.get(name))
        if differing:
            name = differing[0]
            raise DataError(
                f"{self.path}: {name!r} has {found.get(name, 'no')} bytes in the archive, but "
                f"{listed.get(name, 'no')} in the manifest ({len(differing)} such files). Get the bundle again."
            )
        folders = {str(parent) for name in listed for parent in PurePosixPath(name).parents}
        if both := sorted(folders & listed.keys()):
            raise DataError(f"{self.path}: {both[0]!r} is both a file and a folder")

    def _read(self, name: str, members: Mapping[str, zipfile.ZipInfo], most: int) -> bytes:
        if name not in members:
            raise DataError(
                f"{self.path} is not a bundle of runs: it has no {name}. `rmlab runs export` writes bundles."
            )
        if members[name].file_size > most:
            raise DataError(f"{self.path}: {name} has {members[name].file_size:,} bytes, and the limit is {most:,}")
        with self._unpacked(name) as source:
            return source.read()

    def _text(self, entry: BundleEntry, file: BundledFile) -> str:
        if file.bytes > LARGEST_TEXT:
            raise DataError(
                f"{self.path}: {entry.member(file)} has {file.bytes:,} bytes, and the limit is {LARGEST_TEXT:,}"
            )
        parts: list[bytes] = []
        self._copy(entry, file, parts.append)
        return b"".join(parts).decode()

    def _copy(self, entry: BundleEntry, file: BundledFile, write: Callable[[bytes], Any] | None) -> None:
        """Streams one file and proves that it is the one of the manifest."""
        digest, size = hashlib.sha256(), 0
        with self._unpacked(entry.member(file)) as source:
            while chunk := source.read(CHUNK):
                size += len(chunk)
                digest.update(chunk)
                if write is not None:
                    write(chunk)
        if size != file.bytes or digest.hexdigest() != file.sha256:
            raise DataError(
                f"{self.path}: {entry.member(file)} is not the file that was exported (its SHA-256 differs). "
                "Get the bundle again."
            )

    @contextmanager
    def _unpacked(self, name: str) -> Iterator[IO[bytes]]:
        try:
            with self._archive.open(name) as source:
                yield source
        except UNREADABLE as error:
            refuse_full(self.path, error)
            raise DataError(f"{self.path}: {name} cannot be read: {error}. Get the bundle again.") from error


@dataclass(frozen=True)
class BundledRun(RunInfo):
    """A run of a bundle, read as one of a store (`rmlab.tracking.query.TrackedRun`)."""

    params: dict[str, str]
    metrics: dict[str, float]
    rows: tuple[MetricRow, ...] = field(repr=False, compare=False)
    entry: BundleEntry = field(repr=False, compare=False)
    bundle: Bundle = field(repr=False, compare=False)

    def series(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of a metric in the order of steps; of a step that was logged twice, the later value."""
        mine = sorted((row for row in self.rows if row[0] == name), key=lambda row: row[3])
        return sorted({step: value for _, value, step, _ in mine}.items())

    @property
    def owner(self) -> BundleEntry:
        """Whose artifacts it has: those of the run that it reuses, where that lies in the bundle, else its own."""
        source = self.tags.get(SOURCE_RUN)
        return next((e for e in self.bundle.entries if e.run_id == source), self.entry)

    def artifact(self, path: str) -> Path:
        """A local path of an artifact. Raises MissingArtifact where there is none."""
        return self.bundle.artifact(self.owner, path)


AnyRun = TrackedRun | BundledRun
"""Of a store, or of a bundle that was exported from one."""


def refuse_full(path: Path, error: BaseException) -> None:
    """Raises RmlabError where an error is of the disk that a bundle is unpacked to, and says nothing of the bundle."""
    if is_full(error):
        raise RmlabError(
            f"{path} cannot be unpacked: {getattr(error, 'strerror', None) or error}. Free some space where temporary files and runs lie "
            "($TMPDIR, $RMLAB_RUNS)."
        ) from error
