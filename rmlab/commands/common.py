"""What commands share: overrides on the line."""

from typing import Annotated

import typer

Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[OVERRIDE]...", help="KEY=VALUE of the configuration, or GROUP=CHOICE.", show_default=False
    ),
]
