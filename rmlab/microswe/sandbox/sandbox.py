"""The sandbox as its users see it: many programs in, one outcome for each, in order."""

import functools
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar

from rmlab.microswe.sandbox.isolation import LEVELS, WEAK, IsolationLevel
from rmlab.microswe.sandbox.pool import FREE_HERE, WorkerPool
from rmlab.microswe.sandbox.process import Worker
from rmlab.microswe.sandbox.records import Limits, Outcome, Program
from rmlab.microswe.sandbox.stream import ProgramStream

DEFAULT_LIMITS = Limits()
OnOutcome = Callable[[int, Outcome], None]


@dataclass
class SandboxConfig:
    """allow_weak: run model-written code even if the machine can isolate it with nothing but resource limits."""

    HASHED: ClassVar[bool] = False  # how a program is kept in changes no result

    allow_weak: bool = False


class Sandbox:
    """Worker processes that run programs written by anyone. A context manager; `run` may be called many times.

    workers: how many programs run at once. at_most: the best level of isolation to use (of `LEVELS`; the best that the
    machine allows is taken). allow_weak: the weakest level will do where there is none better, for code that can be
    trusted or by the user's own word; asking for it by name (at_most) is asking too.

    Raises RmlabError where no worker can be started, or only at the weakest level and nobody asked for that.
    """

    def __init__(
        self, workers: int = 2, limits: Limits = DEFAULT_LIMITS, at_most: str = LEVELS[0], *, allow_weak: bool = False
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers={workers}: at least 1")
        if at_most not in LEVELS:
            raise ValueError(f"at_most={at_most!r}: one of {', '.join(LEVELS)}")
        levels = LEVELS[LEVELS.index(at_most) :]
        if not allow_weak and at_most != WEAK:
            levels = levels[:-1]
        self.pool = WorkerPool(workers, limits, levels)

    @property
    def limits(self) -> Limits:
        return self.pool.limits

    @property
    def isolation(self) -> IsolationLevel:
        return self.pool.isolation

    @property
    def workers(self) -> tuple[Worker, ...]:
        return self.pool.workers

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all workers. May be called twice."""
        self.pool.close()

    def run(self, programs: Sequence[Program], on_outcome: OnOutcome | None = None) -> list[Outcome]:
        """Runs the programs, some at a time; one outcome each, in order. A lost worker is replaced, its program tried
        once more, then reported as killed. Past `batch_seconds` what has not run is a timeout.

        on_outcome: is called with each program's index and outcome as soon as it is known, in the calling thread.

        Several threads may call it at once: a batch keeps the workers that it has programs for until another has none, so that
        neither an endless program nor a long batch holds up the others until their time is over.
        """
        seconds = self.limits.batch_seconds
        if seconds is None:
            seconds = 10 + self.limits.longest_program * len(programs)
        outcome_of: dict[int, Outcome] = {}
        with self.stream(seconds) as stream:
            for program in programs:
                stream.add(program)
            while known := stream.outcomes():
                for index, outcome in known:
                    outcome_of[index] = outcome
                    if on_outcome is not None:
                        on_outcome(index, outcome)
        return [outcome_of[index] for index in range(len(programs))]

    def stream(self, seconds: float | None = None) -> ProgramStream:
        """For programs that are not all known beforehand. seconds: on the wall, for each program from when it is added
        (None: `batch_seconds`, or without end)."""
        if not self.workers:
            raise ValueError("the sandbox is closed")
        if seconds is None:
            seconds = math.inf if self.limits.batch_seconds is None else self.limits.batch_seconds
        return ProgramStream(self.pool, seconds)


@functools.cache
def isolation_level() -> IsolationLevel:
    """The best isolation of programs that this machine allows, found by starting a worker (once a process)."""
    with Sandbox(workers=1, allow_weak=True) as sandbox:
        return sandbox.isolation


def warn_if_weak(isolation: IsolationLevel) -> None:
    """One line on standard error where programs run at the weakest level."""
    if isolation.weak:
        print(f"warning: code runs {FREE_HERE} ({isolation})", file=sys.stderr)


def default_workers() -> int:
    """As many as this process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
