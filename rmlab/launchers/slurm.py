"""Cells as jobs of Slurm, through submitit.

The process that launches stays and watches, as a local sweep does; when it is stopped its jobs are cancelled. Every node needs
the clone and the environment at the same path, and a tracking store that all reach (`tracking.uri`: a server or a database).
"""

import os
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rmlab.errors import RmlabError
from rmlab.launchers.beats import BeatReader, answer_into_log
from rmlab.launchers.jobs import Event, Job, JobQueue, check_package, event
from rmlab.paths import runs_folder

CARRIED = ("RMLAB_RUNS", "RMLAB_LEASE_SECONDS")


def carried_environment() -> dict[str, str]:
    """What a process on another machine has to know of this one's environment."""
    return {"RMLAB_RUNS": str(runs_folder()), **{name: os.environ[name] for name in CARRIED if name in os.environ}}


@dataclass(frozen=True)
class SlurmLauncher:
    """cluster: slurm, or local (processes on this machine, by submitit's local executor). workers: queued or running at once.

    minutes, partition, cpus, gpus, memory_gb: of each job. more: other parameters of submitit's AutoExecutor.
    """

    cluster: str = "slurm"
    workers: int = 100
    minutes: int = 240
    partition: str | None = None
    cpus: int = 4
    gpus: int = 0
    memory_gb: float = 16
    more: Mapping[str, Any] = field(default_factory=dict)
    poll_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Raises RmlabError where submitit is missing."""
        check_package("submitit", "slurm", "slurm")

    def run(self, queue: JobQueue, preload: Sequence[str]) -> Generator[Event | None]:
        """As `Launcher.run`. Raises RmlabError where Slurm is missing or refuses a job."""
        executor, beats = self._executor(), BeatReader()
        running: dict[Any, tuple[Job, float]] = {}
        try:
            while running or queue.is_open():
                while len(running) < self.workers and (job := queue.next()) is not None:
                    beats.forget(job)
                    running[submitted := self._submitted(executor, job)] = job, time.monotonic()
                    where = f"{'Slurm job' if self.cluster == 'slurm' else 'process'} {submitted.job_id}"
                    yield Event(job, "submitted", where=where)
                unwanted = queue.unwanted()
                for submitted, (job, began) in list(running.items()):
                    if job.planned in unwanted:
                        submitted.cancel()
                    if submitted.done():
                        del running[submitted]
                        beats.forget(job)
                        yield _heard(submitted, job, time.monotonic() - began)
                yield from beats.news([job for job, _ in running.values()])
                yield None
                time.sleep(self.poll_seconds)
        finally:
            for submitted in running:
                submitted.cancel()

    def _executor(self) -> Any:
        import submitit

        try:
            executor = submitit.AutoExecutor(folder=runs_folder() / "slurm", cluster=self.cluster)
        except RuntimeError as error:
            raise RmlabError(
                f"hydra/launcher=slurm: {error}. Is this a login node? Use hydra.launcher.cluster=local to try it here."
            ) from error
        asked = {
            "timeout_min": self.minutes,
            "cpus_per_task": self.cpus,
            "mem_gb": self.memory_gb,
            "name": "rmlab",
            **self.more,
        }
        if self.gpus:
            asked["gpus_per_node"] = self.gpus
        if self.partition and self.cluster == "slurm":
            asked["slurm_partition"] = self.partition
        executor.update_parameters(**asked)
        return executor

    def _submitted(self, executor: Any, job: Job) -> Any:
        try:
            return executor.submit(answer_into_log, job, carried_environment())
        except Exception as error:
            raise RmlabError(f"the scheduler refused {job.name}: {str(error).splitlines()[0]}") from error


def _heard(submitted: Any, job: Job, seconds: float) -> Event:
    """What an ended job says; one that ended without a word (killed, out of memory or of time) failed."""
    try:
        return event(job, submitted.result(), seconds)
    except Exception as error:
        why = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        return Event(
            job,
            "failed",
            error=f"job {submitted.job_id} ended without an answer ({submitted.state}): "
            f"{why}; its output: {submitted.paths.stderr}",
            seconds=seconds,
        )
