"""The cells that the plan of the study lists."""

from analysis.foretelling_plan import read_rows
from experiments.studies.which_metric_foretells_rl import records, study


def cells() -> list[records.Cell]:
    return read_rows(study.HERE / "cells.csv")
