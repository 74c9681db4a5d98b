"""The trials of starter_base that were made again stand beside their runs, which data_scale ships."""

import csv
import runpy

from rmlab.paths import REPOSITORY


def test_the_trials_made_again_are_those_of_the_bundle() -> None:
    page = REPOSITORY / "experiments" / "studies" / "starter_base"
    with (page / "again.csv").open(newline="") as file:
        shipped = list(csv.DictReader(file))
    assert list(runpy.run_path(str(page / "again.py"))["rows"]()) == shipped
    assert [(row["scale"], row["seed"]) for row in shipped] == [(n, s) for n in ("250", "1000", "4000") for s in "012"]
