"""All readers, and which one a document is of. Every module of this package is imported: a new reader is one file in it.

Importing this takes milliseconds (no Arrow, no NumPy): the help of `rmlab import` lists the names.
"""

import importlib
import pkgutil
from typing import Any

from rmlab.errors import UsageError
from rmlab.trajectories import readers
from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.ingest.skipped import Skipped
from rmlab.trajectories.readers.protocol import REGISTERED, Format


def load_formats() -> tuple[Format, ...]:
    """The readers of all modules of the package, in the order in which they are asked."""
    for module in pkgutil.iter_modules(readers.__path__, f"{readers.__name__}."):
        if module.name != __name__:
            importlib.import_module(module.name)
    return tuple(one for _, one in sorted(REGISTERED.values(), key=lambda pair: pair[0]))


FORMATS = load_formats()
"""In the order in which they are asked."""


def format_names() -> list[str]:
    """The names that `rmlab import` takes besides `auto`."""
    return [one.name for one in FORMATS]


def format_of(document: Any, among: tuple[Format, ...] = FORMATS) -> Format | None:
    """The first format that knows the document; None where none does."""
    return next((one for one in among if one.matches(document)), None)


def drafted(document: Any, location: Location, among: tuple[Format, ...] = FORMATS) -> Draft | None:
    """The attempt of a document; None where no format knows it.

    A document may look like several formats (`messages` beside a `history`): the first that finds an attempt in it reads it.
    Raises Skipped with the first format's reason where none does.
    """
    first: Skipped | None = None
    for one in among:
        if not one.matches(document):
            continue
        try:
            return one.read(document, location)
        except Skipped as skipped:
            first = first or skipped
    if first is not None:
        raise first
    return None


def formats_named(name: str) -> tuple[Format, ...]:
    """All formats for `auto`, else the one of that name. Raises UsageError with the names there are."""
    if name == "auto":
        return FORMATS
    named = tuple(one for one in FORMATS if one.name == name)
    if not named:
        raise UsageError(f"there is no format {name!r}: auto, {', '.join(format_names())}")
    return named
