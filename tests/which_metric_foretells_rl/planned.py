"""The cells that the plan of the study lists."""

from analysis.foretelling.plan import STUDY, read_rows
from experiments.studies.which_metric_foretells_rl import records


def cells() -> list[records.Cell]:
    return read_rows(STUDY / "cells.csv")


def named(*names: str) -> list[records.Cell]:
    """The cells of these names, in this order."""
    by_name = {cell["name"]: cell for cell in cells()}
    return [by_name[name] for name in names]


BALANCED = ("balanced-250", "balanced-430", "balanced-1000", "balanced-2400")
