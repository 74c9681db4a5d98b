"""Rates read as people say them, and a log is told of work that takes long."""

import pytest

from rmlab.progress import Beat, progress, report_to, speed


@pytest.mark.parametrize(("rate", "unit", "said"), [
    (1204.4, "tokens", "1,204 tokens/s"), (10.0, "steps", "10 steps/s"), (2.46, "episodes", "2.5 episodes/s"),
    (1.0, "steps", "1.0 steps/s"),
    (0.37, "steps", "2.7 s a step"), (0.0005, "functions", "2,000.0 s a function"), (0.0, "steps", "0.0 steps/s"),
])
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
