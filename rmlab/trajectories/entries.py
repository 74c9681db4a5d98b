"""One file of a folder or an archive: read whole, line by line, or rewound; damage and limits are refusals with a reason."""

import contextlib
import io
import lzma
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from rmlab.errors import DataError
from rmlab.trajectories.compression import unpacked
from rmlab.trajectories.places import Place

MB = 1 << 20
DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
    ValueError,
)
"""What the standard library raises while it reads a damaged container."""


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

    def unpacked(self, kind: str) -> "Entry":
        """The content of a file that is packed by itself. Its size is then not known, and what is read is what counts."""

        @contextlib.contextmanager
        def opener() -> Iterator[IO[bytes]]:
            with self._opener() as stream, unpacked(stream, kind) as plain:
                yield plain

        return Entry(self.place, self.size, opener, self._limits)

    def head(self, size: int) -> bytes:
        """The first bytes of the file. Raises Refused where it is damaged there."""
        with _reading(), self._opener() as stream:
            return bytes(stream.read(size) or b"")

    def read(self) -> bytes:
        """The whole file. Raises Refused over the limit: what is unpacked is counted, not what the archive promises."""
        limit = self._limits.document
        over = Refused(
            f"over the limit of {limit // MB} MB for one document: split it, or write one record a line (.jsonl)"
        )
        if self.size > limit:
            raise over
        with _reading(), self._opener() as stream:
            data = io.BufferedReader(stream, MB).read(limit + 1)
        if len(data) > limit:
            raise over
        return data

    @contextlib.contextmanager
    def reading(self) -> Iterator[IO[bytes]]:
        """The file from front to end. Raises Refused where it is damaged."""
        with _reading(), self._opener() as stream:
            yield stream

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
                copy_bounded(stream, copy, self._limits.member)
            copy.seek(0)
            yield copy


@dataclass(frozen=True)
class Refusal:
    """A file that is not read, and why."""

    place: Place
    reason: str


def copy_bounded(source: IO[bytes], target: IO[bytes], limit: int) -> int:
    """Copies a stream and returns its size. Raises Refused over the limit."""
    copied = 0
    while chunk := source.read(MB):
        copied += len(chunk)
        if copied > limit:
            raise Refused(f"over the limit of {limit // MB} MB for one file: unpack it yourself and import the folder")
        target.write(chunk)
    return copied


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except DAMAGED as error:
        raise Refused(f"not readable ({first_line(error)})") from error


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or its kind."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
