"""What a reader makes of one record before labels, attempts and copies are known."""

import hashlib
import json
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from typing import IO, Any, cast

from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.record import ExitStatus, Message, Split


@dataclass(frozen=True)
class Fixed:
    """What a record of our own has beside a draft's fields; nothing about such a record is found anew."""

    trajectory_id: str
    cluster: str
    source: str
    attempt: int
    split: Split | None


@dataclass
class Draft:
    """One attempt as its file states it.

    policy: "" where the file names none. names: what else names the run (an evaluation, a submission); labels are joined
    by them. resolved: only what the record itself states. joins: whether labels that stand elsewhere may be joined (a row
    that names no run and no patch is nobody's attempt in particular). repository: `owner/name` where the record states it.
    time: ISO, of the first turn. removed: what was left out, by kind. opening: hash of what stands before the agent's first
    turn; "" where the record is no document of its own. fixed: of a record that was read from one of our own sets.
    """

    location: Location
    format: str
    task_id: str
    policy: str
    messages: list[Message]
    patch: str | None
    exit_status: ExitStatus
    names: tuple[str, ...] = ()
    resolved: bool | None = None
    label_source: str | None = None
    joins: bool = True
    repository: str = ""
    time: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    removed: Counter[str] = field(default_factory=Counter)
    opening: str = ""
    fixed: Fixed | None = None


class Spool:
    """Messages and patches, put in once and got back in any order."""

    def __init__(self) -> None:
        import pyarrow as pa  # slow to import, and readers are imported for a help text

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
        self._file.close()
