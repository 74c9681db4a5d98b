"""Rows of a table in a file: CSV, JSONL, JSON, Parquet. The meaning of the columns is defined elsewhere.

A JSON file may hold a list of records, records by their key (which then is the column `key`), lists by column, or one of
these under one name beside other things (`{"rows": [...], "auroc": 0.9}`). A column that lies within another is named with a
dot (`verifier.p`). Text may be packed (`.csv.gz`); cells of a CSV may be separated by tabs, semicolons or bars too.
"""

import csv
import io
import itertools
import json
import lzma
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.files import check_input
from rmlab.trajectories.ingest.compression import compression, plain_name, unpacked

KEY = "key"
SEPARATORS = (",", "\t", ";", "|")

Row = tuple[str, dict[str, Any]]
"""Where a row stands ("line 7") and its cells."""


class CsvCell(str):
    """The text of a CSV cell."""

    __slots__ = ()


@dataclass
class Wanted:
    """What a file has to hold.

    required: columns without which the file is no table. task: the one of them for which something else can stand where all
    others are there (a record's key, one of `instead`, the row itself): who reads the rows says where nothing does. named:
    those that the user named. read: all that are looked at. hint: what to do where one is missing. notes: what was found on
    the way that a reader of the numbers should know.
    """

    required: Sequence[str]
    task: str
    read: Sequence[str]
    hint: str
    notes: list[str] = field(default_factory=list)
    instead: Sequence[str] = ()
    named: Sequence[str] = ()

    def fits(self, header: Sequence[str]) -> bool:
        """Whether the columns are there that nothing else can stand for."""
        return all(name in header for name in self.required if name != self.task)

    def inner(self, cells: dict[str, Any]) -> dict[str, Any]:
        """The cells of a row, and those within them that are read and named with a dot."""
        cells_within = {
            name: value for name in self.read if name not in cells and (value := _within(cells, name)) is not _ABSENT
        }
        return cells | cells_within if cells_within else cells

    def check(self, path: Path, header: Sequence[str], place: str = "") -> None:
        """Raises DataError where a required column is missing or a column that is read stands there twice."""
        missing = [name for name in self.required if name not in header]
        for name in missing if missing != [self.task] else ():
            if not (name == self.task and any(other in header for other in (KEY, *self.instead))):
                shown = (", ".join(header) if all(column.isprintable() for column in header) else "nothing readable")[
                    :200
                ] or "none"
                hint = "--columns names it: correct the name there." if name in self.named else self.hint
                raise DataError(
                    f"{path}, {place}: there is no {name!r} (there are: {shown}). {hint}"
                    if place
                    else f"{path} has no column {name!r} (it has: {shown}). {hint}"
                )
        repeated = [name for name in self.read if header.count(name) > 1]
        if repeated:
            raise DataError(f"{path} has {header.count(repeated[0])} columns {repeated[0]!r}: remove all but one")


@dataclass
class _Header(Wanted):
    """Notes the columns of a file instead of checking them."""

    header: list[str] = field(default_factory=list)

    def check(self, path: Path, header: Sequence[str], place: str = "") -> None:
        self.header = self.header or list(header)


def header_of(path: Path, wanted: Wanted) -> list[str]:
    """The columns of a table; of JSON those of its first record. Raises as rows_of, but not for a fault in the rows."""
    noted = _Header(wanted.required, wanted.task, wanted.read, wanted.hint, instead=wanted.instead, named=wanted.named)
    try:
        with closing(rows_of(path, noted)) as rows:
            _, cells = next(rows, ("", {}))
    except DataError:
        if not noted.header:
            raise
        return noted.header
    return noted.header or list(cells)


_ABSENT = object()


def _within(cells: dict[str, Any], name: str) -> Any:
    """What lies at `outer.inner` of nested objects, where a name of theirs may hold dots itself; _ABSENT where nothing does."""
    for end in (place for place, character in enumerate(name) if character == "."):
        outer, rest = cells.get(name[:end]), name[end + 1 :]
        if isinstance(outer, dict):
            cell = outer[rest] if rest in outer else _within(outer, rest)
            if cell is not _ABSENT:
                return cell
    return _ABSENT


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Names and values of a file may hold line ends and control characters: in an error they are written out."""
    try:
        yield
    except RmlabError as error:
        line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(error))
        if line == str(error):
            raise
        raise type(error)(line) from error


def rows_of(path: Path, wanted: Wanted) -> Generator[Row, None, None]:
    """The rows of a table with their places. Raises DataError with file, place and value, UsageError for another suffix."""
    if path.is_dir():
        raise DataError(f"{path} is a folder: name the score table in it")
    suffix = Path(plain_name(path.name)).suffix.lower()
    reader = READERS.get(suffix)
    if reader is None:
        raise UsageError(
            f"{path}: a score table ends in .csv, .jsonl, .json or .parquet, not in {suffix or 'nothing'}"
            " (.tsv is read too, and text files may be compressed: .gz, .zst, .bz2 or .xz)"
        )
    check_input(path, "`rmlab score` writes a score table.")
    try:
        yield from reader(path, wanted)
    except UnicodeDecodeError as error:
        raise _not_text(path) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def _read_csv(path: Path, wanted: Wanted) -> Iterator[Row]:
    with opened_text(path) as file:
        first = file.readline()
        separator = _separator(first, "\t" if plain_name(path.name).lower().endswith(".tsv") else ",", wanted)
        reader = csv.reader(itertools.chain([first] if first else [], file), strict=True, delimiter=separator)
        try:
            header = [name.strip() for name in next(reader, [])]
            if not header:
                raise DataError(f"{path} is empty: a table begins with the names of its columns")
            wanted.check(path, header)
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise DataError(
                        f"{path}, line {reader.line_num}: {len(cells)} cells under {len(header)} column names"
                    )
                yield f"line {reader.line_num}", dict(zip(header, map(CsvCell, cells), strict=True))
        except csv.Error as error:
            raise DataError(f"{path}, line {reader.line_num}: not readable as CSV ({error})") from error


def _separator(first: str, usual: str, wanted: Wanted) -> str:
    """What separates the cells: the usual sign, unless another gives the columns that are wanted, or more than one at all."""

    def header(separator: str) -> list[str]:
        return [name.strip() for name in next(csv.reader([first], delimiter=separator), [])]

    def worth(separator: str) -> tuple[bool, bool, bool]:
        names = header(separator)
        return wanted.fits(names), len(names) > 1, separator == usual

    try:
        chosen = max(SEPARATORS, key=worth)
    except csv.Error:
        return usual
    if chosen != usual:
        wanted.notes.append(f"its columns are separated by {chosen!r}")
    return chosen


def _read_jsonl(path: Path, wanted: Wanted) -> Iterator[Row]:
    with opened_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                cells = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"{path}, line {number}: not readable as JSON ({error}). JSONL has one object per line."
                ) from error
            if not isinstance(cells, dict):
                raise DataError(
                    f"{path}, line {number}: {type(cells).__name__} instead of an object. JSONL has one object per line."
                )
            cells = wanted.inner(cells)
            wanted.check(path, list(cells), f"line {number}")
            yield f"line {number}", cells


def _not_text(path: Path) -> DataError:
    """The error of a file that is not UTF-8, with the first wrong byte of all: a reader counts from the start of its block."""
    with opened(path) as file:
        data = file.read()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return DataError(f"{path} is not UTF-8 text (byte {error.start}): does its suffix name the right format?")
    return DataError(f"{path} changed while it was being read. Run the command again.")


def load_json(path: Path) -> Any:
    """A whole JSON file. Raises DataError where it is none."""
    try:
        with opened(path) as file:
            return json.loads(file.read().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _not_text(path) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not readable as JSON ({error})") from error


def _read_json(path: Path, wanted: Wanted) -> Iterator[Row]:
    for place, record in _records(path, load_json(path), wanted):
        cells = wanted.inner(record)
        wanted.check(path, list(cells), place)
        yield place, cells


def _records(path: Path, value: Any, wanted: Wanted) -> Iterator[Row]:
    if isinstance(value, list):
        yield from _listed(path, value, "record")
    elif not isinstance(value, dict):
        raise DataError(f"{path} holds {type(value).__name__} instead of a list of records or records by their key")
    elif all(isinstance(wanted.inner(value).get(name), list | dict) for name in wanted.required):
        yield from _by_column(path, wanted.inner(value), wanted)
    elif value and all(isinstance(record, dict) for record in value.values()):
        for key, record in value.items():
            yield f"record {key[:80]!r}", {KEY: key} | record
    else:
        lists = [
            name
            for name, records in value.items()
            if isinstance(records, list) and records and isinstance(records[0], dict)
        ]
        inner = [
            name for name in lists if all(column in wanted.inner(value[name][0]) for column in wanted.required)
        ] or lists
        if len(inner) != 1:
            shown = ", ".join(value)
            raise DataError(
                f"{path} has {len(inner) or 'no'} lists of records (it has: "
                f"{shown[:200] if shown.isprintable() else 'nothing readable'}). {wanted.hint}"
            )
        wanted.notes.append(f"records are those of {inner[0]!r}")
        yield from _listed(path, value[inner[0]], f"{inner[0]}, record")


def _listed(path: Path, records: list[Any], what: str) -> Iterator[Row]:
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise DataError(f"{path}, {what} {number}: {type(record).__name__} instead of an object")
        yield f"{what} {number}", record


def _by_column(path: Path, value: dict[str, Any], wanted: Wanted) -> Iterator[Row]:
    """Lists by column, or values by index by column, as data frames are written."""
    columns = {name: value[name] for name in wanted.read if isinstance(value.get(name), list | dict)}
    lengths = {name: len(cells) for name, cells in columns.items()}
    if len(set(lengths.values())) > 1 or len({type(cells) for cells in columns.values()}) > 1:
        raise DataError(f"{path}: its columns differ in length or type: {lengths}")
    first = next(iter(columns.values()))
    for number, index in enumerate(first if isinstance(first, dict) else range(len(first)), 1):
        try:
            yield f"record {number}", {name: cells[index] for name, cells in columns.items()}
        except KeyError as error:
            raise DataError(f"{path}, record {number}: a column has no entry {str(index)[:80]!r}") from error


def _read_parquet(path: Path, wanted: Wanted) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        names = list(file.schema_arrow.names)
        outer = wanted.inner(_fields(file.schema_arrow))
        wanted.check(path, [*names, *(name for name in outer if name not in names)])
        columns = {
            top for name in wanted.read if name in outer for top in names if name == top or name.startswith(f"{top}.")
        }
        start = 0
        for batch in file.iter_batches(columns=sorted(columns)):
            for number, cells in enumerate(batch.to_pylist(), start + 1):
                yield f"row {number}", wanted.inner(cells)
            start += batch.num_rows
        if start != file.metadata.num_rows:  # a damaged footer may hide rows, and the library says nothing
            raise OSError(f"{start} rows, but it states {file.metadata.num_rows}")
    except (pa.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or ["damaged"])[0]
        raise DataError(f"{path} is not a readable Parquet file ({reason}). Write or fetch it again.") from error


def _fields(fields: Any) -> dict[str, Any]:
    """The columns of a schema, those of a struct as an object."""
    import pyarrow as pa

    return {field.name: _fields(field.type) if pa.types.is_struct(field.type) else None for field in fields}


READERS: dict[str, Callable[[Path, Wanted], Iterator[Row]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".json": _read_json,
    ".parquet": _read_parquet,
}


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
