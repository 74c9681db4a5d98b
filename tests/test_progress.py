"""Rates read as people say them, and a log is told of work that takes long."""

import time

import pytest

from rmlab.progress import Beat, _Counted, _terminal_bar, progress, report_to, speed


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
        (0.097, "trajectories", "10.3 s a trajectory"),
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


def test_no_time_left_is_told_after_the_first_of_many():
    beats: list[Beat] = []
    report_to(beats.append)
    try:
        with progress("tokenising", 939, "trajectories") as advance:
            time.sleep(0.6)  # longer than between two beats
            advance(1)
            for _ in range(4):
                advance(1)
    finally:
        report_to(None)
    after_first, last = beats[1], beats[-1]
    assert (after_first.done, after_first.seconds_left) == (1, None)
    assert after_first.rate > 0
    assert last.seconds_left == pytest.approx(934 / last.rate)


def test_a_log_tells_no_time_left_before_a_sample_and_none_below_a_second(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    clock = [0.0]
    monkeypatch.setattr("rmlab.progress.time.monotonic", lambda: clock[0])
    with progress("tokenising", 939, "trajectories") as advance:
        for seconds, amount in ((10.3, 1), (10.0, 99), (10.0, 838), (20.0, 1)):
            clock[0] += seconds
            advance(amount)
    assert capsys.readouterr().err.splitlines() == [
        "tokenising: 1/939 trajectories, 10.3 s a trajectory",
        "tokenising: 100/939 trajectories, 4.9 trajectories/s, 3 min left",
        "tokenising: 938/939 trajectories, 31 trajectories/s",
        "tokenising: 939/939 trajectories, 19 trajectories/s",
    ]


def test_a_terminal_tells_no_time_left_before_a_sample_and_the_rate_of_what_takes_long(monkeypatch: pytest.MonkeyPatch):
    clock = [0.0]
    monkeypatch.setattr("rmlab.progress.time.monotonic", lambda: clock[0])
    counted = _Counted("training", 200, "steps", 0)
    bar, task = _terminal_bar(counted)
    _, _, _, rate, time_left, _ = bar.columns
    time_left.max_refresh = None  # of this moment, not of half a second ago
    told = []
    for seconds in (300, 40, 40, 40, 40):  # the first one compiles
        clock[0] += seconds
        counted.count(1)
        bar.update(task, advance=1)
        told.append((str(rate(bar.tasks[0])), str(time_left(bar.tasks[0]))))
    slow = "40.0 s a step"
    assert told == [("0.0 steps/s", "-:--:--"), *[(slow, "-:--:--")] * 3, (slow, "2:10:00")]


def test_a_terminal_tells_the_time_left_of_few_from_the_second_on(monkeypatch: pytest.MonkeyPatch):
    clock = [0.0]
    monkeypatch.setattr("rmlab.progress.time.monotonic", lambda: clock[0])
    counted = _Counted("training", 4, "steps", 0)
    bar, task = _terminal_bar(counted)
    told = []
    for seconds in (300, 40, 40, 40):
        clock[0] += seconds
        counted.count(1)
        bar.update(task, advance=1)
        told.append(str(bar.columns[4](bar.tasks[0])))
    assert told == ["-:--:--", "0:01:20", "0:00:40", "0:00:00"]
