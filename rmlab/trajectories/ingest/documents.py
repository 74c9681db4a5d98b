"""Files as documents: what is one record, what is many, and what belongs together.

A JSON document is one record, or a list of rows; JSON lines, Parquet and Arrow are rows; the files of one OpenHands conversation
(events) and of one instance's model calls are one record together. Kinds are told by content; names only say what lies
together.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from rmlab.trajectories.ingest.compression import compression, plain_name
from rmlab.trajectories.ingest.entries import SourceFile, elements
from rmlab.trajectories.ingest.json_text import read_json
from rmlab.trajectories.ingest.locations import Location, natural
from rmlab.trajectories.ingest.skipped import Skipped
from rmlab.trajectories.readers.chat import held_back, names_patch, row_list

EVENT = re.compile(r"(?:^|/)events/event-(\d+)-[^/]*\.json$")
STATE = re.compile(r"(?:^|/)(?:base_state|meta)\.json$")
CALL = re.compile(r"-(\d{10}\.\d+)(?:-[0-9a-f]+)?\.json$|(?:^|/)llm_completions/[^/]+/[^/]+\.json$")
HEAD = 1 << 16
LARGE = 1 << 25  # bytes of a JSON document above which an array of rows is not read whole
ROW = 1 << 27  # characters of one of its rows
BUFFER = 1 << 20  # bytes of a column that are read at a time: a group of rows may be as large as its file
ARROW = b"\xff\xff\xff\xff"  # how every message of an Arrow stream begins


@dataclass(frozen=True)
class RawRecord:
    """A parsed record, or text where it is no JSON. row: whether it is one of many in its file. mended: see read_json."""

    location: Location
    value: Any
    row: bool = False
    mended: str | None = None
    bytes: int = 0


@dataclass
class Unit:
    """Files that are read together; most are alone. kind: file, events, calls."""

    kind: str
    entries: list[SourceFile]
    state: list[SourceFile] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of what will be read."""
        return sum(e.size for e in self.entries)


def units(entries: Sequence[SourceFile]) -> list[Unit]:
    """Files put together where they are one record, in the order of their first file."""
    unit_of: dict[tuple[str, str], Unit] = {}
    states: list[SourceFile] = []
    for entry in entries:
        path = str(entry.location)
        folder = path.rpartition("/")[0]
        if EVENT.search(path):
            unit_of.setdefault(("events", folder), Unit("events", [])).entries.append(entry)
        elif CALL.search(path) and folder:
            unit_of.setdefault(("calls", folder), Unit("calls", [])).entries.append(entry)
        elif STATE.search(path):
            states.append(entry)
        else:
            unit_of[("file", path)] = Unit("file", [entry])
    for entry in states:
        unit = unit_of.get(("events", f"{str(entry.location).rpartition('/')[0]}/events"))
        if unit is not None:
            unit.state.append(entry)
        else:
            unit_of[("file", str(entry.location))] = Unit("file", [entry])
    return list(unit_of.values())


def documents(unit: Unit) -> Iterator[RawRecord | Skipped]:
    """The records of a unit, lazily. Whatever is damaged is given as Skipped, and the rest goes on."""
    try:
        if unit.kind == "events":
            yield from _events(unit)
        elif unit.kind == "calls":
            yield from _last_call(unit)
        else:
            yield from _file(unit.entries[0])
    except Skipped as error:
        yield error.at(unit.entries[0].location)


def _file(entry: SourceFile) -> Iterator[RawRecord | Skipped]:
    name = plain_name(entry.location.name).lower()
    head = entry.head(HEAD)
    if packed := compression(head):
        entry = entry.unpacked(packed)
        head = entry.head(HEAD)
    if head.startswith(b"PAR1") or head.startswith(ARROW):
        yield from _tables(entry, "Parquet" if head.startswith(b"PAR1") else "Arrow")
    elif name.endswith((".md", ".csv", ".txt", ".tsv")):
        yield RawRecord(entry.location, entry.read().decode("utf-8", "replace"), bytes=entry.size)
    elif not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        stated = name.endswith((".json", ".jsonl", ".ndjson", ".traj"))
        yield Skipped("empty file" if not head.strip() else "not JSON" if stated else "no known format", entry.location)
    elif name.endswith((".jsonl", ".ndjson")) or _is_lines(head):
        yield from _lines(entry)
    elif (len(entry.head(LARGE + 1)) if packed else entry.size) > LARGE and _begins_with_row(entry):
        yield from _array(entry)
    else:
        value, mended = read_json(entry.read())
        rows = row_list(value)
        if rows:
            yield from (
                RawRecord(entry.location.at_line(n), row, True, mended, entry.size // len(rows))
                for n, row in enumerate(rows, 1)
            )
        else:
            yield RawRecord(entry.location, value, mended=mended, bytes=entry.size)


def _is_lines(head: bytes) -> bool:
    """Whether the first line is a whole object and another follows."""
    first, _, rest = head.partition(b"\n")
    if not first.strip().endswith(b"}") or not rest.lstrip().startswith(b"{"):
        return False
    try:
        read_json(first)
    except Skipped:
        return False
    return True


def _begins_with_row(entry: SourceFile) -> bool:
    """Whether a large file is an array whose first element is a row of messages: then it is read one row at a time."""
    try:
        with entry.reading() as stream:
            return bool(row_list([next(elements(stream, ROW), None)]))
    except Skipped:
        return False


def _array(entry: SourceFile) -> Iterator[RawRecord | Skipped]:
    number = 0
    try:
        with entry.reading() as stream:
            for number, row in enumerate(elements(stream, ROW), 1):
                yield RawRecord(entry.location.at_line(number), row, True)
    except Skipped as error:
        yield error.at(entry.location.at_line(number + 1))


def _lines(entry: SourceFile) -> Iterator[RawRecord | Skipped]:
    number = 0
    for number, line in enumerate(entry.lines(), 1):
        if not line.strip():
            continue
        location = entry.location.at_line(number)
        try:
            value, mended = read_json(line)
        except Skipped as error:
            yield error.at(location)
        else:
            yield RawRecord(location, value, True, mended, len(line))


def _tables(entry: SourceFile, kind: str) -> Iterator[RawRecord | Skipped]:
    """Rows of a Parquet file, or of an Arrow stream as `datasets` saves it to disk."""
    import pyarrow as pa

    try:
        with entry.seekable() as stream:
            number = 0
            for batch, each in _parquet(stream, entry.size) if kind == "Parquet" else _arrow(stream, entry.size):
                for row in batch.to_pylist():
                    number += 1
                    patches = {name: value for name, value in row.items() if names_patch(name)}
                    yield RawRecord(entry.location.at_line(number), patches | _present(row), True, None, each)
        if not number:
            yield Skipped("empty file", entry.location)
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        raise Skipped(
            f"not readable {kind} ({str(error).splitlines()[0][:80] if str(error) else type(error).__name__})"
        ) from error


def _parquet(stream: IO[bytes], size: int) -> Iterator[tuple[Any, int]]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(stream, buffer_size=BUFFER, pre_buffer=False)
    columns = _wanted(file.schema_arrow)
    stated, read = file.metadata.num_rows, 0
    for batch in file.iter_batches(batch_size=16, columns=columns):
        read += batch.num_rows
        yield batch, size // max(stated, 1)
    if read != stated:  # a damaged footer may hide rows, and the library says nothing
        raise ValueError(f"{read} rows where it states {stated}")


def _arrow(stream: IO[bytes], size: int) -> Iterator[tuple[Any, int]]:
    import pyarrow as pa

    for batch in pa.ipc.open_stream(stream):
        columns = _wanted(batch.schema)
        for start in range(0, batch.num_rows, 16):
            yield batch.select(columns).slice(start, 16), size // max(batch.num_rows, 1)


def _wanted(schema: Any) -> list[str]:
    """The columns to read: none that holds an outcome in words, and no token ids, which are a copy of the text."""
    import pyarrow as pa

    ids = [f.name for f in schema if pa.types.is_list(f.type) and pa.types.is_integer(f.type.value_type)]
    return [name for name in schema.names if not held_back(name) and name not in ids]


def _present(value: Any) -> Any:
    """The row without the nulls that Parquet puts where a key is absent."""
    if isinstance(value, dict):
        return {k: _present(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_present(v) for v in value]
    return value


def _events(unit: Unit) -> Iterator[RawRecord | Skipped]:
    def order(entry: SourceFile) -> int:
        match = EVENT.search(str(entry.location))
        return int(match[1]) if match else 0

    events, mends = [], None
    for entry in sorted(unit.entries, key=order):
        try:
            value, mended = read_json(entry.read())
        except Skipped as error:
            yield error.at(entry.location)
            continue
        events.append(value)
        mends = mends or mended
    state: Any = {}
    for entry in sorted(unit.state, key=lambda e: e.location.name):  # base_state.json before meta.json
        try:
            state = state or read_json(entry.read())[0]
        except Skipped as error:
            yield error.at(entry.location)
    first = unit.entries[0].location
    folder = first.path.rpartition("/")[0].removesuffix("/events").removesuffix("/event_service")
    yield RawRecord(
        Location(first.root, f"{folder}/events"), {"events": events, "state": state}, mended=mends, bytes=unit.size
    )


def _last_call(unit: Unit) -> Iterator[RawRecord | Skipped]:
    """The last call by the time that its name says, or by its name; the one before where it is damaged."""

    def time(entry: SourceFile) -> tuple[float, list[tuple[int, int | str]]]:
        match = CALL.search(str(entry.location))
        return float(match[1]) if match and match[1] else 0.0, natural(entry.location.name)

    for entry in sorted(unit.entries, key=time, reverse=True):
        try:
            value, mended = read_json(entry.read())
        except Skipped as error:
            yield error.at(entry.location)
            continue
        yield RawRecord(entry.location, value, mended=mended, bytes=unit.size)
        return
