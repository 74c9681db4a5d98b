"""What commands share: overrides on the line, and programs by name."""

from typing import Annotated, Any

import typer

Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[OVERRIDE]...", help="KEY=VALUE of the configuration, or GROUP=CHOICE.", show_default=False
    ),
]


def program(name: str) -> Any:
    """The module of `experiments/programs/NAME.py`."""
    from rmlab.configuration import load_program

    return load_program(name)
