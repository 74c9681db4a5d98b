"""Tables in a terminal, printed whole: a number whose last digits are cut off is a wrong number."""

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NO_BREAK = "\N{NO-BREAK SPACE}"

NARROWEST = 30
"""Characters that a column of sentences keeps; with fewer it would be read a word at a time."""


def print_table(console: "Console", table: "Table", *, sentences: bool = False) -> None:
    """Prints a table whose cells are plain text. In a terminal that is too narrow for its columns, each row becomes a paragraph: its
    first cell as a heading, then every other cell behind its column's name. A pipe gets the table at its full width.

    sentences: the last column holds sentences, which may take several lines of a terminal.
    """
    from rich.measure import Measurement

    usual = console.width
    for column in table.columns:
        column.no_wrap = True
    needed = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    if sentences and console.is_terminal:
        last = table.columns[-1]
        last.no_wrap = False
        longest = max(len(str(text)) for text in (last.header, *last.cells))
        needed -= max(0, longest - NARROWEST)
    if needed <= usual or not console.is_terminal:
        console.width = max(usual, needed)
        console.print(table)
        console.width = usual
        return
    if table.title:
        console.print(str(table.title), style=table.title_style or "", markup=False)
    names = [str(column.header) for column in table.columns]
    for first, *others in zip(*(column.cells for column in table.columns), strict=True):
        parts = [f"{name} {cell}".strip() for name, cell in zip(names[1:], others, strict=True) if cell]
        whole = [part.replace(" ", NO_BREAK) if len(part) <= usual - 4 else part for part in parts]
        lines = textwrap.wrap(f"{NO_BREAK}| ".join(whole), usual - 2, break_long_words=False, break_on_hyphens=False)
        heading = f"{names[0]} {first}" if str(first).isdecimal() else str(first)
        console.print(heading, style="bold", markup=False, soft_wrap=True)
        for line in lines:
            console.print(f"  {line.replace(NO_BREAK, ' ')}", markup=False, soft_wrap=True)
