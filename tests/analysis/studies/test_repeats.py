"""Cells that were trained twice: what the page says of them, by trainings whose values are known."""

import csv
from pathlib import Path

import pytest

from analysis.pages.sources import check, marks_of
from analysis.studies import repeats
from analysis.studies.page import write
from analysis.studies.planned_study import PlannedStudy, open_study
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.store import Store
from tests.analysis.studies.planned_runs import Fill, train

pytestmark = pytest.mark.usefixtures("no_pictures")


def test_a_cell_that_was_trained_again_is_held_against_one_new_training(
    store: Store, folder: Path, tmp_path: Path, fill: Fill
) -> None:
    fill({"label_ratio": {"1:1": 1.0, "1:4": 2.0}})
    cells = {cell.name: cell for cell in PlannedStudy.read(folder, []).planned["label_ratio"]}
    train(store, tmp_path, cells["label_ratio=1:4 s1"], -4.0)
    with open_study(folder) as study:
        assert repeats.repeats(study) == []
        write(study, folder)
    assert "trained again" not in (folder / "results.md").read_text()
    assert not (folder / "study_repeats.csv").exists()
    export_runs(store, folder / "bundles" / "again.zip", sweep="label_ratio", preset="demo", study=True, show=False)
    with open_study(folder) as study:
        found = {one.metric: one for one in repeats.repeats(study)}
        write(study, folder)
    assert set(found) == {"rm_at_k", "auc_within_task", "ece_width_10"}
    one = found["auc_within_task"]
    assert one.seeds == 3
    assert one.again < one.low, "a training of another quality lies outside"
    assert not one.inside
    assert one.low < one.first < one.high
    rows = list(csv.DictReader((folder / "study_repeats.csv").read_text().splitlines()))
    assert [(row["level"], row["seed"]) for row in rows] == [("1:4", "1")] * 3
    page = (folder / "results.md").read_text()
    assert f"{sum(one.inside for one in found.values())} of 3 values" in page
    checked = check(folder, page, marks_of(folder / "results.md")[1]["results.md"])
    assert len([one for one in checked if one.kind.startswith("study_repeats.csv")]) == 12
    assert [one.wrong for one in checked if one.kind.startswith("study_repeats.csv") and one.wrong] == []


def test_the_interval_is_of_one_new_training() -> None:
    low, high = repeats._new([1.0, 2.0, 3.0])
    assert (low, high) == pytest.approx((2 - 4.302653 * (4 / 3) ** 0.5, 2 + 4.302653 * (4 / 3) ** 0.5))
