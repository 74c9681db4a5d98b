"""Score tables of other people: where real ones lie, and what became of one that was read."""

import zipfile
from pathlib import Path

import pytest

from rmlab.errors import RmlabError
from rmlab.scores.columns import column_names
from rmlab.scores.table import read_table

REAL = Path(__file__).parents[3] / "shared" / "data" / "real"
NAMES = ["task_id=iid,score=final_probe,resolved=label"]


def real(name, folder):
    if not (REAL / f"{name}.zip").is_file():
        pytest.skip(f"{REAL} is not here")
    with zipfile.ZipFile(REAL / f"{name}.zip") as archive:
        archive.extractall(folder)
    return folder / name


def read(path, *columns):
    return read_table(path, column_names(columns))


def outcome(path, columns):
    """What became of a file: "a table", or the one line that says what is wrong; "" for anything else."""
    try:
        return "a table" if len(read(path, columns).scores) else ""
    except RmlabError as error:
        return "" if "\n" in str(error) else str(error)


RECORDS = [
    {"iid": "a", "final_probe": 0.25, "label": 1, "other": [1, 2]},
    {"iid": "b", "final_probe": None, "label": None},
]


LIST_NAMES = "task_id=docker,score=avg_yes_prob,resolved=gt_rewards,regression=regression_rates,reproduction=mean_predicted_rewards"
