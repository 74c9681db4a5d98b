"""Rows of a table in a file: CSV, JSONL, JSON, Parquet. The meaning of the columns is defined elsewhere.

A JSON file may hold a list of records, records by their key (which then is the column `key`), lists by column, or one of
these under one name beside other things (`{"rows": [...], "auroc": 0.9}`). A column that lies within another is named with a
dot (`verifier.p`). Text may be packed (`.csv.gz`); cells of a CSV may be separated by tabs, semicolons or bars too.
"""

import csv
import itertools
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.files import check_input
from rmlab.scores.json_records import load_json, records
from rmlab.scores.packed import not_text, opened_text
from rmlab.scores.wanted import CsvCell, Row, Wanted
from rmlab.trajectories.ingest.compression import plain_name

SEPARATORS = (",", "\t", ";", "|")


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
        raise not_text(path) from error
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


def _read_json(path: Path, wanted: Wanted) -> Iterator[Row]:
    for place, record in records(path, load_json(path), wanted):
        cells = wanted.inner(record)
        wanted.check(path, list(cells), place)
        yield place, cells


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
