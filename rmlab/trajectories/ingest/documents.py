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
from rmlab.trajectories.ingest.entries import Entry, Refused, elements
from rmlab.trajectories.ingest.json_text import Unreadable, read_json
from rmlab.trajectories.ingest.locations import Place, natural
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
class Document:
    """A parsed record, or text where it is no JSON. row: whether it is one of many in its file. mended: see read_json."""

    place: Place
    value: Any
    row: bool = False
    mended: str | None = None
    bytes: int = 0


@dataclass(frozen=True)
class Damaged:
    """What could not be read, and why."""

    place: Place
    reason: str


@dataclass
class Unit:
    """Files that are read together; most are alone. kind: file, events, calls."""

    kind: str
    entries: list[Entry]
    state: list[Entry] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of what will be read."""
        return sum(e.size for e in self.entries)


def units(entries: Sequence[Entry]) -> list[Unit]:
    """Files put together where they are one record, in the order of their first file."""
    found: dict[tuple[str, str], Unit] = {}
    states: list[Entry] = []
    for entry in entries:
        path = str(entry.place)
        folder = path.rpartition("/")[0]
        if EVENT.search(path):
            found.setdefault(("events", folder), Unit("events", [])).entries.append(entry)
        elif CALL.search(path) and folder:
            found.setdefault(("calls", folder), Unit("calls", [])).entries.append(entry)
        elif STATE.search(path):
            states.append(entry)
        else:
            found[("file", path)] = Unit("file", [entry])
    for entry in states:
        unit = found.get(("events", f"{str(entry.place).rpartition('/')[0]}/events"))
        if unit is not None:
            unit.state.append(entry)
        else:
            found[("file", str(entry.place))] = Unit("file", [entry])
    return list(found.values())


def documents(unit: Unit) -> Iterator[Document | Damaged]:
    """The records of a unit, lazily. Whatever is damaged is given as Damaged, and the rest goes on."""
    try:
        if unit.kind == "events":
            yield from _events(unit)
        elif unit.kind == "calls":
            yield from _last_call(unit)
        else:
            yield from _file(unit.entries[0])
    except (Refused, Unreadable) as error:
        yield Damaged(unit.entries[0].place, str(error))


def _file(entry: Entry) -> Iterator[Document | Damaged]:
    name = plain_name(entry.place.name).lower()
    head = entry.head(HEAD)
    if packed := compression(head):
        entry = entry.unpacked(packed)
        head = entry.head(HEAD)
    if head.startswith(b"PAR1") or head.startswith(ARROW):
        yield from _tables(entry, "Parquet" if head.startswith(b"PAR1") else "Arrow")
    elif name.endswith((".md", ".csv", ".txt", ".tsv")):
        yield Document(entry.place, entry.read().decode("utf-8", "replace"), bytes=entry.size)
    elif not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        stated = name.endswith((".json", ".jsonl", ".ndjson", ".traj"))
        yield Damaged(entry.place, "empty file" if not head.strip() else "not JSON" if stated else "no known format")
    elif name.endswith((".jsonl", ".ndjson")) or _is_lines(head):
        yield from _lines(entry)
    elif (len(entry.head(LARGE + 1)) if packed else entry.size) > LARGE and _begins_with_row(entry):
        yield from _array(entry)
    else:
        value, mended = read_json(entry.read())
        rows = row_list(value)
        if rows:
            yield from (
                Document(entry.place.at_line(n), row, True, mended, entry.size // len(rows))
                for n, row in enumerate(rows, 1)
            )
        else:
            yield Document(entry.place, value, mended=mended, bytes=entry.size)


def _is_lines(head: bytes) -> bool:
    """Whether the first line is a whole object and another follows."""
    first, _, rest = head.partition(b"\n")
    if not first.strip().endswith(b"}") or not rest.lstrip().startswith(b"{"):
        return False
    try:
        read_json(first)
    except Unreadable:
        return False
    return True


def _begins_with_row(entry: Entry) -> bool:
    """Whether a large file is an array whose first element is a row of messages: then it is read one row at a time."""
    try:
        with entry.reading() as stream:
            return bool(row_list([next(elements(stream, ROW), None)]))
    except (Refused, Unreadable):
        return False


def _array(entry: Entry) -> Iterator[Document | Damaged]:
    number = 0
    try:
        with entry.reading() as stream:
            for number, row in enumerate(elements(stream, ROW), 1):
                yield Document(entry.place.at_line(number), row, True)
    except (Refused, Unreadable) as error:
        yield Damaged(entry.place.at_line(number + 1), str(error))


def _lines(entry: Entry) -> Iterator[Document | Damaged]:
    number = 0
    for number, line in enumerate(entry.lines(), 1):
        if not line.strip():
            continue
        place = entry.place.at_line(number)
        try:
            value, mended = read_json(line)
        except Unreadable as error:
            yield Damaged(place, str(error))
        else:
            yield Document(place, value, True, mended, len(line))


def _tables(entry: Entry, kind: str) -> Iterator[Document | Damaged]:
    """Rows of a Parquet file, or of an Arrow stream as `datasets` saves it to disk."""
    import pyarrow as pa

    try:
        with entry.seekable() as stream:
            number = 0
            for batch, each in _parquet(stream, entry.size) if kind == "Parquet" else _arrow(stream, entry.size):
                for row in batch.to_pylist():
                    number += 1
                    patches = {name: value for name, value in row.items() if names_patch(name)}
                    yield Document(entry.place.at_line(number), patches | _present(row), True, None, each)
        if not number:
            yield Damaged(entry.place, "empty file")
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        raise Refused(
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


def _events(unit: Unit) -> Iterator[Document | Damaged]:
    def order(entry: Entry) -> int:
        found = EVENT.search(str(entry.place))
        return int(found[1]) if found else 0

    events, mends = [], None
    for entry in sorted(unit.entries, key=order):
        try:
            value, mended = read_json(entry.read())
        except (Refused, Unreadable) as error:
            yield Damaged(entry.place, str(error))
            continue
        events.append(value)
        mends = mends or mended
    state: Any = {}
    for entry in sorted(unit.state, key=lambda e: e.place.name):  # base_state.json before meta.json
        try:
            state = state or read_json(entry.read())[0]
        except (Refused, Unreadable) as error:
            yield Damaged(entry.place, str(error))
    first = unit.entries[0].place
    folder = first.path.rpartition("/")[0].removesuffix("/events").removesuffix("/event_service")
    yield Document(
        Place(first.root, f"{folder}/events"), {"events": events, "state": state}, mended=mends, bytes=unit.size
    )


def _last_call(unit: Unit) -> Iterator[Document | Damaged]:
    """The last call by the time that its name says, or by its name; the one before where it is damaged."""

    def time(entry: Entry) -> tuple[float, list[tuple[int, int | str]]]:
        found = CALL.search(str(entry.place))
        return float(found[1]) if found and found[1] else 0.0, natural(entry.place.name)

    for entry in sorted(unit.entries, key=time, reverse=True):
        try:
            value, mended = read_json(entry.read())
        except (Refused, Unreadable) as error:
            yield Damaged(entry.place, str(error))
            continue
        yield Document(entry.place, value, mended=mended, bytes=unit.size)
        return
