"""The members of a zip or a tar (plain or packed), safe whatever the archive holds.

Nothing is ever written under a name that an archive gives. A member of a zip is read from the zip; the members of a tar,
which has no index, are copied behind one another into one temporary file. A link to another member is that member under the
link's name, as in a folder (see containers); other links, names that leave the archive, archives in archives and members over
the limits are refused, each with its reason.
"""

import contextlib
import io
import posixpath
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from rmlab.errors import DataError
from rmlab.trajectories.ingest.compression import compression, unpacked
from rmlab.trajectories.ingest.entries import DAMAGED, MB, ImportLimits, SourceFile, copy_bounded, first_line
from rmlab.trajectories.ingest.locations import ARCHIVES, Location
from rmlab.trajectories.ingest.skipped import Skipped

BLOBS = "blobs"
LINK_BYTES = 4096  # the longest path
REPLACED = "an earlier member whose name occurs again in the archive (unpacking keeps the last)"
OVER_TOTAL = "over the limit for one archive: unpack it yourself and import the folder"


def is_archive(name: str) -> bool:
    """Whether a file's name is that of an archive."""
    return name.lower().endswith(ARCHIVES)


@contextlib.contextmanager
def opened_archive(path: Path, location: Location, limits: ImportLimits) -> Iterator[list[SourceFile | Skipped]]:
    """The members of an archive, which stays open; `location` is the archive's own."""
    with contextlib.ExitStack() as stack:
        try:
            if path.name.lower().endswith(".zip"):
                entries = _zip(stack.enter_context(zipfile.ZipFile(path)), location, limits)
            else:
                entries = _tar(path, location, limits, stack.enter_context(tempfile.TemporaryFile()))
        except DAMAGED as error:
            raise DataError(f"{location}: not a readable archive ({first_line(error)})") from error
        yield entries


def _zip(archive: zipfile.ZipFile, location: Location, limits: ImportLimits) -> list[SourceFile | Skipped]:
    total = 0
    entries: list[SourceFile | Skipped] = []
    links: dict[Location, str] = {}
    last = {info.filename: info for info in archive.infolist()}
    for number, info in enumerate(sorted(archive.infolist(), key=lambda i: i.filename), 1):
        if info.is_dir():
            continue
        where = _within(location, _name(info))
        reason = _refusal(info.filename, info.file_size, limits)
        if reason is None and last[info.filename] is not info:
            reason = REPLACED
        if reason is None and info.flag_bits & 1:
            reason = "encrypted"
        if (
            reason is None
            and info.file_size > limits.ratio_from
            and info.file_size > limits.ratio * max(info.compress_size, 1)
        ):
            reason = f"unpacks to over {limits.ratio:.0f} times its size: unpack it yourself and import the folder if it is meant"
        total += info.file_size
        if reason is None and (total > limits.total or number > limits.members):
            reason = OVER_TOTAL
        if reason is None and stat.S_ISLNK(info.external_attr >> 16):
            target = archive.open(info).read(LINK_BYTES).decode("utf-8", "replace")
            links[where] = _leads_to(location, posixpath.join(posixpath.dirname(_name(info)), target))
        elif reason:
            entries.append(Skipped(reason, where))
        else:
            entries.append(SourceFile(where, info.file_size, partial(archive.open, info), limits))
    return _with_links(entries, links, limits)


def _leads_to(location: Location, target: str) -> str:
    """The path of a link's target as that of its place; "" where it leaves the archive."""
    whole = posixpath.normpath(target)
    return "" if whole.startswith(("/", "..")) else _within(location, whole).path


def _with_links(
    entries: list[SourceFile | Skipped], links: dict[Location, str], limits: ImportLimits
) -> list[SourceFile | Skipped]:
    """The members in the order of their names, and the links among them as what they lead to.

    A file of the hub's cache that a link leads to is read by the link's name alone.
    """
    files = {one.location.path: one for one in entries if isinstance(one, SourceFile)}
    onward = {link.path: target for link, target in links.items()}
    followed: set[str] = set()
    total = sum(one.size for one in files.values())
    for link in links:
        target, seen = onward[link.path], {link.path}
        while target in onward and target not in seen:
            seen.add(target)
            target = onward[target]
        total += files[target].size if target in files else 0
        if target in files and total > limits.total:
            entries.append(Skipped(OVER_TOTAL, link))
        elif target in files:
            followed.add(target)
            entries.append(replace(files[target], location=link))
        else:
            entries.append(Skipped("link (to no file in the archive)", link))
    return sorted(
        (one for one in entries if not (one.location.path in followed and _is_blob(one.location.path))),
        key=lambda one: one.location.path,
    )


def _is_blob(path: str) -> bool:
    return posixpath.basename(posixpath.dirname(path)) == BLOBS


def _name(info: zipfile.ZipInfo) -> str:
    """A member's name. Many tools write UTF-8 without saying so, and then it is read as the code page of the first PCs."""
    if info.flag_bits & 0x800 or info.filename.isascii():
        return info.filename
    try:
        return info.filename.encode("cp437").decode()
    except UnicodeError:
        return info.filename


def _tar(path: Path, location: Location, limits: ImportLimits, copy: IO[bytes]) -> list[SourceFile | Skipped]:
    total = 0
    entries: list[SourceFile | Skipped] = []
    links: dict[Location, str] = {}
    try:
        with _tar_stream(path) as archive:
            for number, info in enumerate(archive, 1):
                if info.isdir():
                    continue
                where = _within(location, info.name)
                reason = _refusal(info.name, info.size, limits)
                if reason is None and (info.issym() or info.islnk()):
                    beside = posixpath.dirname(info.name) if info.issym() else ""
                    links[where] = _leads_to(location, posixpath.join(beside, info.linkname))
                    continue
                if reason is None and not info.isreg():
                    reason = "not a plain file"
                total += info.size
                if total > limits.total or number > limits.members:
                    entries.append(Skipped(OVER_TOTAL, where))
                    break
                stream = archive.extractfile(info) if reason is None else None
                if stream is None:
                    entries.append(Skipped(reason or "not a plain file", where))
                    continue
                start = copy.tell()
                size = copy_bounded(stream, copy, limits.member)
                entries.append(SourceFile(where, size, partial(_Section, copy, start, size), limits))
        if not _ended(path):
            raise EOFError("no end mark")
    except DAMAGED as error:
        if not entries:
            raise
        entries.append(Skipped(f"archive ends early ({first_line(error)}): what comes before that is read", location))
    last = {one.location.path: one for one in entries}
    counted = [
        one if isinstance(one, Skipped) or last[one.location.path] is one else Skipped(REPLACED, one.location)
        for one in entries
    ]
    return _with_links(counted, links, limits)


@contextlib.contextmanager
def _tar_stream(path: Path) -> Iterator[tarfile.TarFile]:
    """The archive from front to end. It is unpacked here and not by tarfile, which takes a cut file for a whole one."""
    with contextlib.ExitStack() as stack:
        packed: Any = stack.enter_context(path.open("rb"))
        kind = compression(packed.peek(8))
        plain = stack.enter_context(unpacked(packed, kind)) if kind else packed
        yield stack.enter_context(tarfile.open(fileobj=plain, mode="r|"))


def _ended(path: Path) -> bool:
    """Whether a plain tar has its end mark, a block of zeros: one that was cut between two members has none. A packed one
    has its own end, which was read."""
    with path.open("rb") as file:
        if compression(file.read(8)):
            return True
        file.seek(-512, io.SEEK_END)
        return not any(file.read())


def _within(location: Location, name: str) -> Location:
    clean = name.replace("\\", "/")
    return Location(location.root, f"{location.path}/{clean}" if location.path else clean)


def _refusal(name: str, size: int, limits: ImportLimits) -> str | None:
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or (len(parts[0]) == 2 and parts[0][1] == ":"):
        return "path leaves the archive"
    if is_archive(name):
        return "archive in an archive: unpack it and import the folder"
    if size > limits.member:
        return f"over the limit of {limits.member // MB} MB for one file: unpack it yourself and import the folder"
    return None


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
