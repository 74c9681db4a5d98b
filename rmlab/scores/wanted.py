"""What a table has to hold, whatever its file."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmlab.errors import DataError

KEY = "key"

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
