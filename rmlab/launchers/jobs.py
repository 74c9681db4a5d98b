"""The interface of every launcher: it takes jobs from a queue and reports events about them.

A launcher runs jobs, each in a process of its own, somewhere: on this machine (`local`), through a cluster's scheduler
(`slurm`), on a Ray cluster (`ray`), or by any launcher of Hydra (`hydra`). What a cell does is the same everywhere: `call`.
"""

import importlib.util
from collections import deque
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from rmlab.errors import RmlabError
from rmlab.gpu_memory import Crowded, explains_full_memory
from rmlab.progress import Beat
from rmlab.stopping import stop_asked, stop_behind
from rmlab.tracking.leases import Done, Held

HEAVY = [
    "torch",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.models.auto.modeling_auto",
    "accelerate",
    "safetensors.torch",
    "rmlab.models.preload",
    "rmlab.tracking.preload",
    "scipy.stats",
    "sklearn.isotonic",
    "sklearn.linear_model",
    "hydra",
]
"""What a program needs that does not say otherwise (`PRELOAD`); a package that is not installed is passed over."""


def check_package(module: str, launcher: str, extra: str) -> None:
    """Raises RmlabError where what a launcher stands on is not installed: before any work, not after what cells share was made."""
    if importlib.util.find_spec(module) is None:
        raise RmlabError(f"hydra/launcher={launcher} needs {module}: pip install -e '.[{extra}]'")


State = Literal["started", "submitted", "progress", "finished", "failed", "stopped", "crowded", "elsewhere"]


@dataclass(frozen=True)
class Job:
    """A function of a program, run on some configurations in a process of its own.

    name: shown. program, function: what runs; it gets one configuration, or the list of them where `many`. configs: plain
    containers of resolved configurations. log: file that takes what it prints. planned: config_hash that its configuration had
    when the sweep was planned; it must have it still when it runs.
    """

    name: str
    program: str
    function: str
    configs: tuple[dict[str, Any], ...]
    log: Path
    many: bool = False
    planned: str | None = None


@dataclass(frozen=True)
class Event:
    """What became of a job. beat: with `progress`. error, trace: with `failed` (trace "" where one line says it all).

    elsewhere: another process is at work on it, or has finished it; error says who. stopped: it had to end before its work was
    done, through no fault of its own (a lease that was lost, a store out of reach); error says why. crowded: other cells filled the
    memory of its GPU; who supplies the jobs puts it back, and error says beside how many it may start again. submitted: a scheduler has
    it and starts it when there is room; where says what the scheduler calls it. Its first `progress` says that it runs.
    """

    job: Job
    state: State
    beat: Beat | None = None
    error: str = ""
    trace: str = ""
    exit_code: int = 1
    result: Any = None
    seconds: float = 0.0
    where: str = ""


class JobQueue(Protocol):
    """Where jobs come from."""

    def next(self) -> Job | None:
        """The next job to start, None = none just now."""

    def is_open(self) -> bool:
        """Whether one may still come while none is running."""

    def unwanted(self) -> Collection[str]:
        """`planned` of jobs that run and are to be ended early, for launchers that can."""

    def heard(self, event: Event) -> None:
        """Takes a `progress` event from a thread of a launcher that is blocked while its jobs run."""


class JobList:
    """A queue of jobs that are all known before."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._waiting = deque(jobs)

    def next(self) -> Job | None:
        """The next in order."""
        return self._waiting.popleft() if self._waiting else None

    def put_back(self, job: Job) -> None:
        """The job is the next to start, again."""
        self._waiting.appendleft(job)

    def is_open(self) -> bool:
        """Whether one is left."""
        return bool(self._waiting)

    def unwanted(self) -> Collection[str]:
        """None."""
        return ()

    def heard(self, event: Event) -> None:
        """Not shown."""


class Launcher(Protocol):
    """Runs the jobs of a queue."""

    def run(self, queue: JobQueue, preload: Sequence[str]) -> Generator[Event | None]:
        """Yields what happens, None at every quiet moment; returns when nothing runs and the queue is closed.

        preload: modules that the program needs, for launchers that can import them once for all. When the generator is closed
        or an exception passes through it, what runs is ended.
        """


def call(job: Job) -> Any:
    """Does a job in this process. Raises RmlabError where its configuration is another run now than when it was planned."""
    from rmlab.configuration import load_program, restore

    program = load_program(job.program)
    function = getattr(program, job.function)
    configs = [restore(job.program, plain) for plain in job.configs]
    if job.planned is not None:
        now = program.identity(configs[0]).config_hash
        if now != job.planned:
            raise RmlabError(
                f"{job.name} is now a different run ({now}) from the planned one ({job.planned}): "
                "code or data changed since. Give the command again; finished cells of this state stay finished."
            )
    with explains_full_memory():
        return function(configs) if job.many else function(*configs)


Answer = tuple[Literal["result", "elsewhere", "stopped", "crowded", "failed"], Any]
"""What a process has to say of its job at its end: its result, who else has the cell, why it had to stop, how many other cells had its
GPU when there was no memory left, or (error, traceback, exit code)."""


def answer(job: Job) -> Answer:
    """Does a job and says what came of it, so that it can travel between processes; prints the traceback of what failed."""
    import sys
    import traceback

    try:
        return "result", call(job)
    except (Held, Done) as error:
        return "elsewhere", str(error)
    except (KeyboardInterrupt, SystemExit):  # a signal, which a lost lease sends, too
        if (asked := stop_asked()) is None:
            raise
        return "stopped", str(asked)
    except Exception as error:
        trace = traceback.format_exc()
        with suppress(OSError):  # a disk that is full takes no log; what is answered is shown all the same
            print(trace, file=sys.stderr, flush=True)
        if isinstance(reason := stop_behind(error), Crowded):
            return "crowded", reason.others
        if reason is not None:
            return "stopped", str(reason)
        if isinstance(error, RmlabError):
            return "failed", (str(error), "", error.exit_code)
        return "failed", (f"{type(error).__name__}: {error}", trace, 1)


def event(job: Job, said: Answer, seconds: float) -> Event:
    """The event that an answer makes."""
    kind, content = said
    if kind == "result":
        return Event(job, "finished", result=content, seconds=seconds)
    if kind == "elsewhere" or kind == "stopped":
        return Event(job, kind, error=content, seconds=seconds)
    if kind == "crowded":
        return Event(job, kind, result=content, seconds=seconds)
    error, trace, exit_code = content
    return Event(job, "failed", error=error, trace=trace, exit_code=exit_code, seconds=seconds)
