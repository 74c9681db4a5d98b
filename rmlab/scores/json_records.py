"""The records of a JSON file, in whichever of the usual layouts they stand there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rmlab.errors import DataError
from rmlab.scores.packed import not_text, opened
from rmlab.scores.wanted import KEY, Row, Wanted


def load_json(path: Path) -> Any:
    """A whole JSON file. Raises DataError where it is none."""
    try:
        with opened(path) as file:
            return json.loads(file.read().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise not_text(path) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not readable as JSON ({error})") from error


def records(path: Path, value: Any, wanted: Wanted) -> Iterator[Row]:
    """The records of the whole file, with their places. Raises DataError where there are none, or several lists of them."""
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
