"""Cells through any launcher of Hydra: basic, joblib, submitit and what else is installed.

A Hydra launcher takes a list of jobs and returns when all are done, so cells go to it in batches. A job is named to its process
by an environment variable that Hydra sets there (`hydra.job.env_set`); its configuration lies in a file of the runs folder.
"""

import os
import time
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from rmlab.launchers.beats import BeatReader
from rmlab.launchers.jobs import Answer, Event, Job, JobQueue, event
from rmlab.overrides import quoted
from rmlab.paths import runs_folder

CELL = "RMLAB_CELL"
TICK_SECONDS = 0.5


def cell_to_run() -> Job | None:
    """The cell that this process was started for, None where it was started for a configuration by itself."""
    return _read(Path(path)) if (path := os.environ.get(CELL)) is not None else None


@dataclass(frozen=True)
class ThroughHydra:
    """hydra: a launcher of Hydra, set up. batch: cells given to it at once, None = all there are."""

    hydra: Any
    batch: int | None = None

    def run(self, queue: JobQueue, preload: Sequence[str]) -> Generator[Event | None]:
        """As `Launcher.run`; what became of a cell is heard when its batch is done, how far it is meanwhile."""
        number, beats = 0, BeatReader()
        while queue.is_open():
            jobs: list[Job] = []
            while (self.batch is None or len(jobs) < self.batch) and (job := queue.next()) is not None:
                jobs.append(job)
                beats.forget(job)
                yield Event(job, "submitted", where=f"job {number + len(jobs) - 1} of Hydra")
            if not jobs:
                time.sleep(TICK_SECONDS)
                yield None
                continue
            began = time.monotonic()
            overrides = [[f"+hydra.job.env_set.{CELL}={quoted(str(_written(job)))}"] for job in jobs]
            with beats.listening(jobs, queue):
                returned = self.hydra.launch(overrides, initial_job_idx=number)
            number += len(jobs)
            for job, one in zip(jobs, returned, strict=True):
                beats.forget(job)
                yield event(job, _said(one), time.monotonic() - began)


def _said(returned: Any) -> Answer:
    try:
        said: Answer = returned.return_value
    except Exception as error:
        return "failed", (f"{type(error).__name__}: {error}", "", 1)
    return said


def _written(job: Job) -> Path:
    from rmlab.files import write_text

    path = runs_folder() / "jobs" / f"{job.planned}.yaml"  # YAML: keys of mappings keep their type
    write_text(path, yaml.safe_dump({**asdict(job), "configs": list(job.configs), "log": str(job.log)}))
    return path


def _read(path: Path) -> Job:
    plain = yaml.safe_load(path.read_text(encoding="utf-8"))
    return Job(**{**plain, "configs": tuple(plain["configs"]), "log": Path(plain["log"])})
