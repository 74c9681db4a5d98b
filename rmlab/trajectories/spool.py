"""Drafts on disk: an import learns labels, attempts and copies only at its end, and 1 GB of text has no place in memory.

Compressed records behind one another in a temporary file that has no name; memory holds where each begins.
"""

import json
import tempfile
from typing import IO, Any, cast

import pyarrow as pa

from rmlab.trajectories.record import Message


class Spool:
    """Messages and patches, put in once and got back in any order."""

    def __init__(self) -> None:
        self._file = cast(IO[bytes], tempfile.TemporaryFile())  # noqa: SIM115  it lives as long as the spool
        self._codec: Any = pa.Codec("zstd", compression_level=1)
        self._where: list[tuple[int, int, int]] = []

    def put(self, messages: list[Message], patch: str | None) -> int:
        """Stores one record; its key."""
        plain = json.dumps([[[m.role, m.content] for m in messages], patch], ensure_ascii=False, separators=(",", ":")).encode()
        packed = self._codec.compress(plain, asbytes=True)
        self._where.append((self._file.seek(0, 2), len(packed), len(plain)))
        self._file.write(packed)
        return len(self._where) - 1

    def get(self, key: int) -> tuple[tuple[Message, ...], str | None]:
        """The record of a key."""
        start, packed, plain = self._where[key]
        self._file.seek(start)
        messages, patch = json.loads(self._codec.decompress(self._file.read(packed), decompressed_size=plain, asbytes=True))
        return tuple(Message(role, content) for role, content in messages), patch

    def size(self, key: int) -> int:
        """Bytes of a record, unpacked."""
        return self._where[key][2]

    def close(self) -> None:
        """Frees the disk."""
        self._file.close()
