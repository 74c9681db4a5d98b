"""The progress of a job, through a file beside its log: jobs on other machines, or in processes of another launcher, have no
pipe to the parent, but all see the runs folder."""

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict
from pathlib import Path

from rmlab.errors import RmlabError
from rmlab.files import write_text
from rmlab.launchers.jobs import Answer, Event, Job, JobQueue, answer
from rmlab.progress import ENDED, STARTED, Beat, report_to

EVERY_SECONDS = 1.0


@contextmanager
def telling_beside_log(job: Job) -> Iterator[None]:
    """Within the block this process tells how far its job is; at first that it has begun."""
    path, last = _path(job), float("-inf")

    def tell(beat: Beat) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY_SECONDS or beat.done >= beat.total:
            last = time.monotonic()
            with suppress(OSError, RmlabError):  # a full disk ends the job where it writes what counts, not here
                write_text(path, json.dumps(asdict(beat)))

    path.parent.mkdir(parents=True, exist_ok=True)
    tell(STARTED)
    report_to(tell)
    try:
        yield
    finally:
        report_to(None)  # a launcher may run its next job in this process
        tell(ENDED)


def answer_into_log(job: Job, environment: Mapping[str, str]) -> Answer:
    """`answer` on another machine: with this environment, what is printed goes to the job's log, how far it is to a file beside."""
    os.environ.update(environment)
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with (
        job.log.open("a", encoding="utf-8") as log,
        redirect_stdout(log),
        redirect_stderr(log),
        telling_beside_log(job),
    ):
        return answer(job)


class BeatReader:
    """Reads what jobs tell, each piece of news once."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def forget(self, job: Job) -> None:
        """What an earlier start of the job has told is no news; before a start, and after its end."""
        self._told.pop(job.name, None)
        _path(job).unlink(missing_ok=True)

    def news(self, jobs: Sequence[Job]) -> Iterator[Event]:
        """A `progress` event of every job that has told something new."""
        for job in jobs:
            try:
                text = _path(job).read_text(encoding="utf-8")
            except OSError:
                continue  # it has not begun, or the file system shows it later
            if text != self._told.get(job.name):
                self._told[job.name] = text
                yield Event(job, "progress", beat=Beat(**json.loads(text)))

    @contextmanager
    def listening(self, jobs: Sequence[Job], queue: JobQueue) -> Iterator[None]:
        """While the block is at work, a thread hands the news to the queue."""
        over = threading.Event()

        def listen() -> None:
            while not over.wait(EVERY_SECONDS):
                for event in self.news(jobs):
                    queue.heard(event)

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _path(job: Job) -> Path:
    return job.log.with_suffix(".progress")
