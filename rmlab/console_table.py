"""Tables in a terminal, printed whole: a number whose last digits are cut off is a wrong number."""

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NO_BREAK = "\N{NO-BREAK SPACE}"


def print_table(console: "Console", table: "Table") -> None:
    """Prints a table whose cells are plain text. In a terminal that is too narrow for its columns, each row becomes a paragraph: its
    first cell as a heading, then every other cell behind its column's name. A pipe gets the table at its full width."""
    from rich.measure import Measurement

    usual = console.width
    needed = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
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
        lines = textwrap.wrap(" | ".join(part.replace(" ", NO_BREAK) for part in parts), usual - 2)
        console.print(str(first), style="bold", markup=False, soft_wrap=True)
        for line in lines:
            console.print(f"  {line.replace(NO_BREAK, ' ')}", markup=False, soft_wrap=True)
