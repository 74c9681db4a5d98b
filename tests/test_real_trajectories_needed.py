"""How much data would be needed: the arithmetic by hand, and the page's tables from its runs and its data."""

import csv
import runpy
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmlab.commands.import_trajectories import import_trajectories
from rmlab.metrics.sweep_levels import detectable_difference
from rmlab.paths import REPOSITORY

PAGE = REPOSITORY / "experiments" / "studies" / "real_trajectories_needed"
CORPUS = REPOSITORY.parent / "shared" / "data" / "real_corpus"


@pytest.fixture(scope="module")
def needed() -> dict[str, Any]:
    return runpy.run_path(str(PAGE / "needed.py"))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_variance_that_tasks_bring_is_split_into_what_trainings_share_and_what_they_do_not(needed) -> None:
    rng = np.random.default_rng(0)
    shared_R, own_SR = rng.normal(0, 3, 100_000), rng.normal(0, 2, (4, 100_000))
    own, shared = needed["_of_tasks"](shared_R + own_SR)
    assert own == pytest.approx(4, rel=0.02)
    assert shared == pytest.approx(9, rel=0.02)
    assert needed["_of_tasks"](own_SR)[1] == pytest.approx(0, abs=0.05)


def test_pairs_won_are_those_that_one_counts(needed) -> None:
    rng = np.random.default_rng(1)
    score_TK, label_TK = rng.normal(size=(20, 5)), (rng.random((20, 5)) < 0.4).astype(float)
    for score, label, won in zip(score_TK, label_TK, needed["_won"](score_TK, label_TK), strict=True):
        assert won == sum(label[i] > label[j] and score[i] > score[j] for i, j in product(range(5), repeat=2))


def test_more_attempts_mix_more_tasks_and_never_make_ece_noisier(needed) -> None:
    measured = needed["Outcomes"](0.25, 0.6, 0.5)
    found = needed["by_attempts"](measured, 0.783)
    assert found[2]["mixed"] == pytest.approx(2 * 0.25 * 0.75 * (1 - 0.6), abs=0.01)
    assert found[2]["mixed"] < found[8]["mixed"] < found[32]["mixed"]
    assert [found[k]["ece_width_10"] for k in (2, 32)] == [pytest.approx(0.8), pytest.approx(0.6125)]
    # With two attempts a task's difference is 1, 0 or -1: the variance is the share of mixed tasks where the two picks differ.
    assert found[2]["rm_at_k"] < found[2]["mixed"]
    same = needed["by_attempts"](needed["Outcomes"](0.25, 0.6, 1.0), 0.783)
    assert same[32]["rm_at_k"] == same[32]["auc_within_task"] == 0


def test_needed_tasks_are_those_at_which_the_difference_is_just_shown(needed) -> None:
    flat = {k: {"rm_at_k": 1.0} for k in (2, 8, 32)}
    ground = needed["Ground"](300, 12, flat)
    parts = needed["Variances"](training=0.01**2, interaction=0.02**2, tasks=0.01**2, apart=1.0)
    tasks = ground.needed(parts, "rm_at_k", -0.03, 2, 5)
    assert ground.detectable(parts, "rm_at_k", tasks, 2, 5) == pytest.approx(0.03, rel=1e-6)
    assert ground.needed(parts, "rm_at_k", 0.005, 2, 5) is None, "trainings alone differ by 0.01"
    assert tasks > 300
    assert ground.needed(parts, "rm_at_k", 0.3, 2, 5) == 300, "fewer than were judged are not reckoned with"
    least = needed["least_trainings"](parts, 0.01)
    assert ground.needed(parts, "rm_at_k", 0.01, 2, least) is not None
    assert ground.needed(parts, "rm_at_k", 0.01, 2, least - 1) is None
    # Without end of tasks only trainings count: 4 levels share 4 (S - 1) / 1.75 degrees of freedom.
    assert ground.detectable(parts, "rm_at_k", 1e12, 2, 5) == pytest.approx(
        detectable_difference(0.01 / 5**0.5, 16 / 1.75), rel=1e-4
    )


@pytest.mark.slow
def test_the_tables_are_computed_from_the_runs(needed, tmp_path: Path) -> None:
    needed["main"](tmp_path)
    for name in ("spread.csv", "attempts.csv", "needed.csv"):
        for fresh, shipped in zip(rows(tmp_path / name), rows(PAGE / name), strict=True):
            assert list(fresh) == list(shipped)
            for column, text in fresh.items():
                try:
                    same = pytest.approx(float(shipped[column]), rel=1e-4, abs=float(text.isdigit()))
                    assert float(text) == same, (name, column)
                except ValueError:
                    assert text == shipped[column], (name, column)


@pytest.mark.slow
def test_the_counts_are_those_of_the_corpus(tmp_path: Path) -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"{CORPUS} is not there: real trajectories are kept beside the repository, not in it")
    import_trajectories("auto", [str(path) for path in sorted(CORPUS.glob("*.zip"))], tmp_path / "real.parquet")
    runpy.run_path(str(PAGE / "counts.py"))["main"](tmp_path / "real.parquet", tmp_path)
    for name in ("counts.csv", "repositories.csv"):
        assert (tmp_path / name).read_text() == (PAGE / name).read_text()
