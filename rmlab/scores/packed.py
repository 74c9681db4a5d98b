"""The content of a file that may be packed (`.csv.gz`), as bytes or as text."""

import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rmlab.errors import DataError
from rmlab.trajectories.ingest.compression import compression, unpacked


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The content of a file, unpacked where it is packed. Raises DataError where it cannot be unpacked."""
    with path.open("rb") as packed:
        kind = compression(packed.peek(8))
        try:
            with unpacked(packed, kind) if kind else packed as plain:
                yield plain
        except (EOFError, zlib.error, lzma.LZMAError) as error:
            raise DataError(f"{path} cannot be unpacked ({error}). Write or fetch it again.") from error


@contextmanager
def opened_text(path: Path) -> Iterator[IO[str]]:
    """The same as text, line ends as they are."""
    with opened(path) as plain:
        yield io.TextIOWrapper(io.BufferedReader(plain), encoding="utf-8-sig", newline="")  # type: ignore[type-var]


def not_text(path: Path) -> DataError:
    """The error of a file that is not UTF-8, with the first wrong byte of all: a reader counts from the start of its block."""
    with opened(path) as file:
        data = file.read()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return DataError(f"{path} is not UTF-8 text (byte {error.start}): does its suffix name the right format?")
    return DataError(f"{path} changed while it was being read. Run the command again.")
