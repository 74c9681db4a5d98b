"""How far a job is, through a file beside its log."""

import threading
from pathlib import Path

import pytest

from rmlab.launchers import beats
from rmlab.launchers.beats import BeatReader, telling_beside_log
from rmlab.launchers.jobs import Event, Job, JobList
from rmlab.progress import ENDED, STARTED, progress
from tests.waiting import PATIENCE


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(beats, "EVERY_SECONDS", 0.02)
    return Job("a", "toy", "run", (), tmp_path / "logs" / "a.log")


def test_each_piece_of_news_is_told_once(job: Job) -> None:
    reader = BeatReader()
    assert list(reader.news([job])) == []
    with telling_beside_log(job):
        [started] = reader.news([job])
        assert (started.state, started.beat) == ("progress", STARTED)
        assert list(reader.news([job])) == []
        with progress("training", 4, "steps") as advance:
            advance(4)
        [event] = reader.news([job])
        assert event.beat is not None
        assert (event.beat.title, event.beat.done, event.beat.total) == ("training", 4, 4)
    assert [event.beat for event in reader.news([job])] == [ENDED]
    reader.forget(job)
    assert list(reader.news([job])) == [], "an earlier start of the job is no news"
    assert not list(job.log.parent.glob("*.progress"))


def test_a_launcher_that_is_blocked_hears_meanwhile(job: Job) -> None:
    heard, told = threading.Event(), list[Event]()

    class Queue(JobList):
        def heard(self, event: Event) -> None:
            told.append(event)
            heard.set()

    with BeatReader().listening([job], Queue([job])), telling_beside_log(job):
        assert heard.wait(PATIENCE)
    assert told[0].beat == STARTED
