"""Time left of a whole sweep, on numbers worked out by hand."""

import pytest

from rmlab.sweep.time_left import CellTime, seconds_left, seconds_of


def test_nothing_is_said_before_anything_is_known() -> None:
    assert seconds_left([], 2) is None
    assert seconds_left([CellTime("a", 1.0, elapsed=3.0), CellTime("a", 1.0)], 2) is None


def test_seeds_of_one_level_take_alike_and_workers_share_what_waits() -> None:
    cells = [CellTime("a", 1.0, took=10.0), CellTime("a", 1.0, took=14.0), *[CellTime("a", 1.0)] * 4]
    assert seconds_left(cells, 1) == pytest.approx(48.0)
    assert seconds_left(cells, 2) == pytest.approx(24.0)
    assert seconds_left(cells, 3) == pytest.approx(24.0), "four cells on three workers are two rounds"


def test_a_cell_that_runs_counts_with_what_is_left_of_it() -> None:
    half = CellTime("a", 1.0, elapsed=5.0, left=5.0)
    assert seconds_left([half], 1) == pytest.approx(5.0)
    assert seconds_left([half, CellTime("a", 1.0)], 1) == pytest.approx(15.0)
    assert seconds_left([half, CellTime("a", 1.0)], 2) == pytest.approx(10.0), "the other starts at once"


def test_what_the_others_took_counts_more_than_the_rate_of_a_stage() -> None:
    """A cell that trains has its scoring before it, which its rate knows nothing of."""
    cells = [CellTime("a", 1.0, took=20.0), CellTime("a", 1.0, elapsed=8.0, left=2.0)]
    assert seconds_left(cells, 2) == pytest.approx(12.0)
    late = [CellTime("a", 1.0, took=20.0), CellTime("a", 1.0, elapsed=25.0, left=4.0)]
    assert seconds_left(late, 2) == pytest.approx(4.0), "one that is slower than the others has its rate"


def test_another_level_is_expected_by_its_work() -> None:
    one = [CellTime("large", 8000.0, took=80.0), CellTime("small", 2000.0)]
    assert seconds_left(one, 1) == pytest.approx(50.0), "half of it is taken as fixed: 40 + 40 / 4"
    two = [CellTime("large", 8000.0, took=90.0), CellTime("mid", 3000.0, took=40.0), CellTime("small", 500.0)]
    assert seconds_left(two, 1) == pytest.approx(15.0), "10 s and 10 s a thousand"


def test_a_line_through_noise_never_says_less_than_nothing() -> None:
    cells = [CellTime("large", 1000.0, took=10.0), CellTime("mid", 900.0, took=1.0), CellTime("small", 10.0)]
    assert (seconds_left(cells, 1) or 0.0) > 0.0


def test_one_cell_takes_what_its_own_level_took_or_what_its_work_says() -> None:
    known = [CellTime("large", 8000.0, took=80.0), CellTime("large", 8000.0, took=100.0)]
    assert seconds_of(CellTime("large", 8000.0), known) == pytest.approx(90.0)
    assert seconds_of(CellTime("small", 4000.0), known) == pytest.approx(67.5), "45 fixed, and half of the other 45"
    assert seconds_of(CellTime("large", 8000.0), [CellTime("large", 8000.0, elapsed=5.0)]) is None
