"""One file of a folder or an archive: read whole, line by line, or rewound; damage and limits are skipped with a reason."""

import codecs
import contextlib
import io
import json
import lzma
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from rmlab.trajectories.ingest.compression import unpacked
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.ingest.skipped import Skipped

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


@dataclass(frozen=True)
class ImportLimits:
    """member: bytes of one file, unpacked. total: of one archive. members: files of one archive. ratio: unpacked by packed
    above which a member of over `ratio_from` bytes counts as a bomb. document: one JSON document, which is read whole."""

    member: int = 8192 * MB
    document: int = 512 * MB
    total: int = 65536 * MB
    members: int = 2_000_000
    ratio: float = 300.0
    ratio_from: int = 64 * MB


@dataclass(frozen=True)
class SourceFile:
    """One file. size: bytes, unpacked."""

    location: Location
    size: int
    _opener: Any = field(repr=False)
    _limits: ImportLimits = field(repr=False, default_factory=ImportLimits)

    def unpacked(self, kind: str) -> "SourceFile":
        """The content of a file that is packed by itself. Its size is then not known, and what is read is what counts."""

        @contextlib.contextmanager
        def opener() -> Iterator[IO[bytes]]:
            with self._opener() as stream, unpacked(stream, kind) as plain:
                yield plain

        return SourceFile(self.location, self.size, opener, self._limits)

    def head(self, size: int) -> bytes:
        """The first bytes of the file. Raises Skipped where it is damaged there."""
        with _reading(), self._opener() as stream:
            return bytes(stream.read(size) or b"")

    def read(self) -> bytes:
        """The whole file. Raises Skipped over the limit: what is unpacked is counted, not what the archive promises."""
        limit = self._limits.document
        over = Skipped(
            f"over the limit of {limit // MB} MB for one document: split it, or write one record per line (.jsonl)"
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
        """The file from front to end. Raises Skipped where it is damaged."""
        with _reading(), self._opener() as stream:
            yield stream

    def lines(self) -> Iterator[bytes]:
        """The lines of the file, one at a time. Raises Skipped where it is damaged, or a line is over the limit."""
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
                    raise Skipped(f"over the limit of {limit // MB} MB for one line")
                yield line

    @contextlib.contextmanager
    def seekable(self) -> Iterator[IO[bytes]]:
        """The file as a stream that can be rewound, on disk where it is large. Raises Skipped where it is damaged."""
        with tempfile.SpooledTemporaryFile(max_size=64 * MB) as copy:
            with _reading(), self._opener() as stream:
                copy_bounded(stream, copy, self._limits.member)
            copy.seek(0)
            yield copy


def copy_bounded(source: IO[bytes], target: IO[bytes], limit: int) -> int:
    """Copies a stream and returns its size. Raises Skipped over the limit."""
    copied = 0
    while chunk := source.read(MB):
        copied += len(chunk)
        if copied > limit:
            raise Skipped(f"over the limit of {limit // MB} MB for one file: unpack it yourself and import the folder")
        target.write(chunk)
    return copied


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except DAMAGED as error:
        raise Skipped(f"not readable ({first_line(error)})") from error


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or its kind."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


CHUNK = 1 << 22  # bytes read at a time
_BLANK = " \t\r\n"


def elements(stream: IO[bytes], largest: int) -> Iterator[Any]:
    """The elements of the array that the stream holds. largest: characters of one element.

    Raises Skipped with the element's number where the text is no JSON array, or over the limit.
    """
    text = _Text(stream)
    sign = text.next_sign()
    if sign == "\ufeff":  # a byte order mark
        text.at += 1
        sign = text.next_sign()
    if sign != "[":
        raise Skipped("not a JSON array")
    text.at += 1
    number = 0
    if text.next_sign() == "]":
        return
    while True:
        number += 1
        text.next_sign()
        yield _element(text, number, largest)
        sign = text.next_sign()
        text.at += 1
        if sign == "]":
            if text.next_sign():
                raise Skipped(f"not JSON (more text after the array of {number} elements)")
            return
        if sign != ",":
            raise Skipped(f"not JSON (element {number}: no comma or bracket after it)")


def _element(text: "_Text", number: int, largest: int) -> Any:
    """The element that begins here. What is read more each time doubles, so that a long one is not scanned over and over."""
    decoder = json.JSONDecoder()
    while True:
        try:
            value, end = decoder.raw_decode(text.held, text.at)
        except json.JSONDecodeError as error:
            if len(text.held) - text.at > largest:
                raise Skipped(f"over the limit of {largest >> 20} MB for one element of an array") from error
            if not text.more(len(text.held) - text.at):
                raise Skipped(f"not JSON (element {number}: {error.msg})") from error
        except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
            raise Skipped(f"not readable JSON (element {number}: {str(error).split(';')[0]})") from error
        else:
            # A number may go on behind what was read ("1", "1.", "1e+"): three signs behind it, or one that can stand there, end it.
            behind = text.held[end : end + 3]
            if len(behind) == 3 or (behind and behind[0] in _BLANK + ",]") or not text.more(CHUNK):
                text.at = end
                return value


class _Text:
    """A window on the text of a stream. held: what was read and is still needed. at: how much of it is done with."""

    def __init__(self, stream: IO[bytes]):
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._ended = False
        self._bytes = 0  # read so far
        self.held, self.at = "", 0

    def more(self, size: int) -> bool:
        """Reads at least so much, and forgets what is done with. False at the stream's end."""
        if self._ended:
            return False
        data = self._stream.read(max(size, CHUNK))
        self._ended = not data
        decoded = self._bytes - len(self._decoder.getstate()[0])
        self._bytes += len(data)
        try:
            self.held, self.at = self.held[self.at :] + self._decoder.decode(data, final=self._ended), 0
        except UnicodeDecodeError as error:
            raise Skipped(f"not UTF-8 (byte {decoded + error.start})") from error
        return True

    def next_sign(self) -> str:
        """The next character that is not blank, which is not yet done with; "" at the end."""
        while True:
            while self.at < len(self.held) and self.held[self.at] in _BLANK:
                self.at += 1
            if self.at < len(self.held):
                return self.held[self.at]
            if not self.more(CHUNK):
                return ""
