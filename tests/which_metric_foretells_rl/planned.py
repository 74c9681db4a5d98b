"""The cells that the plan of the study lists."""

from analysis.foretelling_plan import STUDY, read_rows
from experiments.studies.which_metric_foretells_rl import records


def cells() -> list[records.Cell]:
    return read_rows(STUDY / "cells.csv")
