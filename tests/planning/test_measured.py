"""The plan beside what was measured: within 20 % in memory and time, of every case of experiments/benchmarks/plan_check.py."""

import csv
from typing import Any

import pytest

from rmlab.configuration import load_file
from rmlab.paths import BENCHMARKS
from rmlab.planning.cards import CARDS
from rmlab.planning.memory import GIB

with (BENCHMARKS / "plan_check.csv").open(encoding="utf-8") as _file:
    MEASURED = list(csv.DictReader(_file))


@pytest.fixture(scope="module")
def plan_check() -> Any:
    return load_file(BENCHMARKS / "plan_check.py")


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row["case"])
def test_the_plan_is_within_a_fifth_of_what_was_measured(row: dict[str, str], plan_check: Any) -> None:
    memory, times = plan_check.planned(plan_check.CASES[row["case"]], True, CARDS[row["card"]])
    assert memory.total / GIB == pytest.approx(float(row["memory_gib"]), rel=0.2)
    assert times.total == pytest.approx(float(row["seconds"]), rel=0.2)
