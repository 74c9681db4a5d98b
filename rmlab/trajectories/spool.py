"""Drafts on disk: an import learns labels, attempts and copies only at its end, and 1 GB of text has no place in memory.

Compressed records behind one another in a temporary file that has no name; memory holds where each begins.
"""

import hashlib
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

    def put(self, messages: list[Message], patch: str | None) -> tuple[int, str]:
        """Stores one record; its key, and a hash of its content that is equal for copies."""
        texts = [m.content.encode() for m in messages]
        body = patch.encode() if patch is not None else b""
        head = json.dumps([[m.role for m in messages], [*map(len, texts), len(body)], patch is None]).encode()
        plain = b"\n".join([head, b"".join(texts), body])
        packed = self._codec.compress(plain, asbytes=True)
        self._where.append((self._file.seek(0, 2), len(packed), len(plain)))
        self._file.write(packed)
        return len(self._where) - 1, hashlib.sha256(plain).hexdigest()

    def get(self, key: int) -> tuple[tuple[Message, ...], str | None]:
        """The record of a key."""
        start, packed, plain = self._where[key]
        self._file.seek(start)
        whole = self._codec.decompress(self._file.read(packed), decompressed_size=plain, asbytes=True)
        data, end = memoryview(whole), whole.index(b"\n")
        roles, sizes, no_patch = json.loads(bytes(data[:end]))
        at, texts = end + 1, []
        for size in sizes[:-1]:
            texts.append(str(data[at : at + size], "utf-8"))
            at += size
        patch = None if no_patch else str(data[at + 1 : at + 1 + sizes[-1]], "utf-8")
        return tuple(map(Message, roles, texts)), patch

    def close(self) -> None:
        """Frees the disk."""
        self._file.close()
