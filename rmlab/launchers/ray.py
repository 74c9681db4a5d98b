"""Cells as tasks of a Ray cluster, through Ray's own API: one process per cell, wherever Ray has room.

Every node needs the clone and the environment at the same path, and a tracking store that all reach (`tracking.uri`: a server or
a database). Ray is an extra of its own (`pip install -e .[ray]`): it is large, and writes a token into the user's home.
"""

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rmlab.errors import RmlabError
from rmlab.launchers.beats import BeatReader, answer_into_log
from rmlab.launchers.jobs import Event, Job, JobQueue, check_package, event
from rmlab.launchers.slurm import carried_environment


@dataclass(frozen=True)
class RayLauncher:
    """address: of the cluster, auto = the one that this machine belongs to, None = start one here. workers: submitted at once.

    cpus, gpus: of each cell. more: other options of a Ray task.
    """

    address: str | None = "auto"
    workers: int = 100
    cpus: float = 1.0
    gpus: float = 0.0
    more: Mapping[str, Any] = field(default_factory=dict)
    poll_seconds: float = 1.0

    def __post_init__(self) -> None:
        """Raises RmlabError where Ray is missing."""
        check_package("ray", "ray", "ray")

    def run(self, queue: JobQueue, preload: Sequence[str]) -> Generator[Event | None]:
        """As `Launcher.run`. Raises RmlabError where no cluster answers."""
        import ray  # type: ignore[import-not-found,unused-ignore]

        joined = not ray.is_initialized()
        if joined:
            try:
                ray.init(
                    address=self.address, log_to_driver=False, include_dashboard=False if self.address is None else None
                )
            except ConnectionError as error:
                raise RmlabError(
                    f"hydra/launcher=ray: no cluster at {self.address} ({str(error).splitlines()[0]}). "
                    "Start one (ray start --head), or let hydra.launcher.address=null start one here."
                ) from error
        # max_calls=1: the process ends with its cell, so nothing of one cell (memory, threads, CUDA) is left for the next.
        task = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=0, max_calls=1, **self.more)(
            answer_into_log
        )
        running: dict[Any, tuple[Job, float]] = {}
        beats = BeatReader()
        try:
            while running or queue.is_open():
                while len(running) < self.workers and (job := queue.next()) is not None:
                    beats.forget(job)
                    running[reference := task.remote(job, carried_environment())] = job, time.monotonic()
                    yield Event(job, "submitted", where=f"Ray task {reference.task_id().hex()}")
                unwanted = queue.unwanted()
                for reference, (job, _) in running.items():
                    if job.planned in unwanted:
                        ray.cancel(reference, force=True)
                if running:
                    ended, _ = ray.wait(list(running), timeout=self.poll_seconds)
                    for reference in ended:
                        job, began = running.pop(reference)
                        beats.forget(job)
                        yield _heard(ray, reference, job, time.monotonic() - began)
                else:
                    time.sleep(self.poll_seconds)
                yield from beats.news([job for job, _ in running.values()])
                yield None
        finally:
            for reference in running:
                ray.cancel(reference, force=True)
            if joined:
                ray.shutdown()


def _heard(ray: Any, reference: Any, job: Job, seconds: float) -> Event:
    """What an ended task says; one whose process was killed (out of memory, a node that went) failed."""
    try:
        return event(job, ray.get(reference), seconds)
    except ray.exceptions.RayError as error:
        why = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        return Event(job, "failed", error=f"its process ended without an answer: {why}", seconds=seconds)
