"""Rates read as people say them, and a log is told of work that takes long."""

import time

import pytest

from rmlab.progress import Beat, progress, report_to, speed


@pytest.mark.parametrize(
    ("rate", "unit", "said"),
    [
        (1204.4, "tokens", "1,204 tokens/s"),
        (10.0, "steps", "10 steps/s"),
        (2.46, "episodes", "2.5 episodes/s"),
        (1.0, "steps", "1.0 steps/s"),
        (0.37, "steps", "2.7 s a step"),
        (0.06, "episodes", "16.7 s an episode"),
        (0.0005, "functions", "2,000.0 s a function"),
        (0.0, "steps", "0.0 steps/s"),
    ],
)
def test_a_rate_is_never_told_as_nothing_while_work_is_done(rate, unit, said):
    assert speed(rate, unit) == said


def test_a_process_that_works_for_another_tells_it_how_far_it_is():
    beats: list[Beat] = []
    report_to(beats.append)
    try:
        with progress("training", 4, "steps") as advance:
            for _ in range(4):
                advance(1)
    finally:
        report_to(None)
    assert (beats[0].done, beats[0].seconds_left) == (0, None)
    assert (beats[-1].done, beats[-1].total, beats[-1].seconds_left) == (4, 4, 0)


def test_what_was_done_before_counts_as_done_and_not_for_the_rate():
    beats: list[Beat] = []
    report_to(beats.append)
    try:
        with progress("policy", 100, "steps", already=90) as advance:
            advance(0)
            time.sleep(0.05)
            advance(5)
    finally:
        report_to(None)
    assert (beats[0].done, beats[0].rate) == (90, 0)
    assert beats[-1].done == 95
    assert 0 < beats[-1].rate <= 5 / 0.05
    assert beats[-1].seconds_left == pytest.approx(5 / beats[-1].rate)
