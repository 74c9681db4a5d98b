"""Files of a folder, a zip, a tar (plain, gz, zst), or one file alone: read in place, and safe whatever the archive holds.

Nothing is ever written under a name that an archive gives. A member of a zip is read from the zip; the members of a tar,
which has no index, are copied behind one another into one temporary file. Links, names that leave the archive, archives in
archives and members over the limits are refused, each with its reason.
"""

import contextlib
import io
import lzma
import os
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from rmlab.errors import DataError
from rmlab.trajectories.places import Place

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst")
MB = 1 << 20
DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, NotImplementedError,
           ValueError)
OVER_TOTAL = "over the limit for one archive: unpack it yourself and import the folder"


class Refused(DataError):
    """A file that is not read; the message is the reason, short enough to be counted by."""


@dataclass(frozen=True)
class Limits:
    """member: bytes of one file, unpacked. total: of one archive. members: files of one archive. ratio: unpacked by packed
    above which a member of over `ratio_from` bytes counts as a bomb. document: one JSON document, which is read whole."""

    member: int = 8192 * MB
    document: int = 512 * MB
    total: int = 65536 * MB
    members: int = 2_000_000
    ratio: float = 300.0
    ratio_from: int = 64 * MB


@dataclass(frozen=True)
class Entry:
    """One file. size: bytes, unpacked."""

    place: Place
    size: int
    _opener: Any = field(repr=False)
    _limits: Limits = field(repr=False, default_factory=Limits)

    def head(self, size: int) -> bytes:
        """The first bytes of the file. Raises Refused where it is damaged there."""
        with _reading(), self._opener() as stream:
            return bytes(stream.read(size) or b"")

    def read(self) -> bytes:
        """The whole file. Raises Refused over the limit: what is unpacked is counted, not what the archive promises."""
        limit = self._limits.document
        over = Refused(f"over the limit of {limit // MB} MB for one document: split it, or write one record a line (.jsonl)")
        if self.size > limit:
            raise over
        with _reading(), self._opener() as stream:
            data = io.BufferedReader(stream, MB).read(limit + 1)
        if len(data) > limit:
            raise over
        return data

    def lines(self) -> Iterator[bytes]:
        """The lines of the file, one at a time. Raises Refused where it is damaged, or a line is over the limit."""
        limit = self._limits.document
        with contextlib.ExitStack() as stack:
            with _reading():
                stream = io.BufferedReader(stack.enter_context(self._opener()), MB)
            while True:
                with _reading():
                    line = stream.readline(limit + 1)
                if not line:
                    return
                if len(line) > limit:
                    raise Refused(f"over the limit of {limit // MB} MB for one line")
                yield line

    @contextlib.contextmanager
    def seekable(self) -> Iterator[IO[bytes]]:
        """The file as a stream that can be rewound, on disk where it is large. Raises Refused where it is damaged."""
        with tempfile.SpooledTemporaryFile(max_size=64 * MB) as copy:
            with _reading(), self._opener() as stream:
                _copy(stream, copy, self._limits.member)
            copy.seek(0)
            yield copy


@dataclass(frozen=True)
class Refusal:
    """A file that is not read, and why."""

    place: Place
    reason: str


def batches(path: Path, limits: Limits | None = None) -> Iterator[list[Entry | Refusal]]:
    """All files under a path, in the order of their names: those of the folder itself, then those of each archive in it.

    The files of a batch can be read until the next batch is asked for. Raises DataError where the path is not there, or is
    an archive that cannot be opened at all.
    """
    limits = limits or Limits()
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    if path.is_dir():
        yield from _folder(path, limits)
    elif is_archive(path.name):
        with _archive(path, Place(path.name, ""), limits) as found:
            yield found
    else:
        yield [_file(path, Place(path.name, ""), limits)]


def is_archive(name: str) -> bool:
    """Whether a file's name is that of an archive."""
    return name.lower().endswith(ARCHIVES)


def _folder(path: Path, limits: Limits) -> Iterator[list[Entry | Refusal]]:
    root = path.resolve().name or "root"
    found: list[Entry | Refusal] = []
    archives: list[tuple[Path, Place]] = []
    for folder, names, files in os.walk(path):
        names.sort()
        for name in [n for n in names if (Path(folder) / n).is_symlink()]:
            names.remove(name)
            found.append(Refusal(Place(root, (Path(folder) / name).relative_to(path).as_posix()), "link"))
        for name in sorted(files):
            whole = Path(folder) / name
            place = Place(root, whole.relative_to(path).as_posix())
            if whole.is_symlink() or not whole.is_file():
                found.append(Refusal(place, "link" if whole.is_symlink() else "not a plain file"))
            elif is_archive(name):
                archives.append((whole, place))
            else:
                found.append(_file(whole, place, limits))
    yield found
    for whole, place in archives:
        try:
            with _archive(whole, place, limits) as inner:
                yield inner
        except DataError as error:
            yield [Refusal(place, str(error).split(": ", 1)[-1])]


def _file(path: Path, place: Place, limits: Limits) -> Entry:
    return Entry(place, path.stat().st_size, lambda: path.open("rb"), limits)


@contextlib.contextmanager
def _archive(path: Path, place: Place, limits: Limits) -> Iterator[list[Entry | Refusal]]:
    """The members of an archive, which stays open; `place` is the archive's own."""
    with contextlib.ExitStack() as stack:
        try:
            if path.name.lower().endswith(".zip"):
                found = list(_zip(stack.enter_context(zipfile.ZipFile(path)), place, limits))
            else:
                found = _tar(path, place, limits, stack.enter_context(tempfile.TemporaryFile()))
        except DAMAGED as error:
            raise DataError(f"{place}: not a readable archive ({_line(error)})") from error
        yield found


def _zip(archive: zipfile.ZipFile, place: Place, limits: Limits) -> Iterator[Entry | Refusal]:
    total = 0
    for number, info in enumerate(sorted(archive.infolist(), key=lambda i: i.filename), 1):
        if info.is_dir():
            continue
        where = _within(place, info.filename)
        reason = _refusal(info.filename, stat.S_ISLNK(info.external_attr >> 16), info.file_size, limits)
        if reason is None and info.flag_bits & 1:
            reason = "encrypted"
        if reason is None and info.file_size > limits.ratio_from and info.file_size > limits.ratio * max(info.compress_size, 1):
            reason = f"unpacks to over {limits.ratio:.0f} times its size: unpack it yourself and import the folder if it is meant"
        total += info.file_size
        if reason is None and (total > limits.total or number > limits.members):
            reason = OVER_TOTAL
        yield Refusal(where, reason) if reason else Entry(where, info.file_size, partial(archive.open, info), limits)


def _tar(path: Path, place: Place, limits: Limits, copy: IO[bytes]) -> list[Entry | Refusal]:
    total = 0
    found: list[Entry | Refusal] = []
    try:
        with _tar_stream(path) as archive:
            for number, info in enumerate(archive, 1):
                if info.isdir():
                    continue
                where = _within(place, info.name)
                reason = _refusal(info.name, info.issym() or info.islnk(), info.size, limits)
                if reason is None and not info.isreg():
                    reason = "not a plain file"
                total += info.size
                if total > limits.total or number > limits.members:
                    found.append(Refusal(where, OVER_TOTAL))
                    break
                stream = archive.extractfile(info) if reason is None else None
                if stream is None:
                    found.append(Refusal(where, reason or "not a plain file"))
                    continue
                start = copy.tell()
                size = _copy(stream, copy, limits.member)
                found.append(Entry(where, size, partial(_Section, copy, start, size), limits))
    except DAMAGED as error:
        if not found:
            raise
        found.append(Refusal(place, f"archive ends early ({_line(error)}): what stands before that is read"))
    return sorted(found, key=lambda one: one.place.path)


@contextlib.contextmanager
def _tar_stream(path: Path) -> Iterator[tarfile.TarFile]:
    if not path.name.lower().endswith(".zst"):
        with tarfile.open(path, "r|*") as archive:
            yield archive
        return
    import pyarrow as pa

    with pa.OSFile(str(path)) as packed, pa.CompressedInputStream(packed, "zstd") as plain, tarfile.open(fileobj=plain, mode="r|") as archive:
        yield archive


def _within(place: Place, name: str) -> Place:
    clean = name.replace("\\", "/")
    return Place(place.root, f"{place.path}/{clean}" if place.path else clean)


def _refusal(name: str, link: bool, size: int, limits: Limits) -> str | None:
    parts = name.replace("\\", "/").split("/")
    if link:
        return "link"
    if name.startswith(("/", "\\")) or ".." in parts or (len(parts[0]) == 2 and parts[0][1] == ":"):
        return "path leaves the archive"
    if is_archive(name):
        return "archive in an archive: unpack it and import the folder"
    if size > limits.member:
        return f"over the limit of {limits.member // MB} MB for one file: unpack it yourself and import the folder"
    return None


def _copy(source: IO[bytes], target: IO[bytes], limit: int) -> int:
    copied = 0
    while chunk := source.read(MB):
        copied += len(chunk)
        if copied > limit:
            raise Refused(f"over the limit of {limit // MB} MB for one file: unpack it yourself and import the folder")
        target.write(chunk)
    return copied


class _Section(io.RawIOBase):
    """A section of the temporary file of a tar; sections are read one after the other."""

    def __init__(self, copy: IO[bytes], start: int, size: int):
        self._copy, self._next, self._left = copy, start, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._copy.seek(self._next)
        data = self._copy.read(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._next += len(data)
        self._left -= len(data)
        return len(data)


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except DAMAGED as error:
        raise Refused(f"not readable ({_line(error)})") from error


def _line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
