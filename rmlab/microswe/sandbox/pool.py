"""The sandbox as its users see it: many programs in, one outcome for each, in order."""

import functools
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from types import TracebackType

from rmlab.errors import RmlabError
from rmlab.microswe.sandbox.isolation import LEVELS, WEAK, IsolationLevel
from rmlab.microswe.sandbox.process import LevelRefused, Worker
from rmlab.microswe.sandbox.records import Kind, Limits, Outcome, Program, Result

DEFAULT_LIMITS = Limits()
FREE_HERE = "with resource limits alone: it can read and change files, end processes and forge its label"
OnOutcome = Callable[[int, Outcome], None]
LOOK_SECONDS = 0.02  # between two looks at whether a worker became free
GRACE_SECONDS = 5.0  # above a program's own limit, before its worker counts as hung


@dataclass
class SandboxConfig:
    """allow_weak: run code that a model wrote also where the machine has nothing but resource limits to keep it in."""

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
        self.limits = limits
        levels = LEVELS[LEVELS.index(at_most) :]
        if not allow_weak and at_most != WEAK:
            levels = levels[:-1]
        self._workers, self.isolation = _start(workers, limits, levels)
        self._idle = list(self._workers)
        self._freed = threading.Condition()
        self._queue: list[object] = []  # batches without a worker, the first to be served first

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all workers. May be called twice."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.hang_up()
        for worker in workers:
            worker.close()

    def run(self, programs: Sequence[Program], on_outcome: OnOutcome | None = None) -> list[Outcome]:
        """Runs the programs, some at a time; one outcome each, in order. A lost worker is replaced, its program tried
        once more, then reported as killed. Past `batch_seconds` what has not run is a timeout.

        on_outcome: is called with each program's index and outcome as soon as it is known, in the calling thread.

        Several threads may call it at once: a batch keeps the workers that it has programs for until another has none, so that
        neither an endless program nor a long batch holds up the others until their time is over.
        """
        if not self._workers:
            raise ValueError("the sandbox is closed")
        return _Batch(self, programs, on_outcome).run()

    def borrow(self, seconds: float) -> Worker | None:
        """A worker that no batch has, waiting for one up to so long, in turn; None where there is none."""
        with self._freed:
            if self._idle and not self._queue:
                return self._idle.pop()
            if seconds <= 0:
                return None
            place = object()
            self._queue.append(place)
            try:
                served = self._freed.wait_for(lambda: bool(self._idle) and self._queue[0] is place, seconds)
                return self._idle.pop() if served else None
            finally:
                self._queue.remove(place)
                self._freed.notify_all()

    def awaited(self) -> bool:
        """Whether a batch that has no worker waits for one."""
        return bool(self._queue)

    def give_back(self, worker: Worker) -> None:
        """The batch that borrowed it needs it no more."""
        with self._freed:
            self._idle.append(worker)
            self._freed.notify_all()

    def replace(self, worker: Worker) -> Worker:
        """Kills the worker; another of the same level takes its place."""
        worker.close()
        fresh = Worker(self.isolation.name, self.limits)
        self._workers[self._workers.index(worker)] = fresh
        try:
            fresh.wait_until_ready()
        except LevelRefused as refusal:
            raise RmlabError(f"A sandbox worker could not be replaced: {refusal}") from refusal
        return fresh

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The worker processes."""
        return tuple(self._workers)


def _start(count: int, limits: Limits, levels: Sequence[str]) -> tuple[list[Worker], IsolationLevel]:
    reasons: list[str] = []
    for name in levels:
        workers: list[Worker] = []
        try:
            workers += (Worker(name, limits) for _ in range(count))
            reached = [worker.wait_until_ready() for worker in workers]
        except LevelRefused as refusal:
            reasons.append(f"{name} ({refusal})")
            for worker in workers:
                worker.close()
        except BaseException:
            for worker in workers:
                worker.close()
            raise
        else:
            return workers, replace(reached[0], reasons=tuple(reasons))
    advice = "" if WEAK in levels else f" sandbox.allow_weak=true runs model-written code {FREE_HERE}."
    raise RmlabError(
        f"No sandbox that keeps programs in can be had on this machine: no {'; no '.join(reasons)}.{advice}"
    )


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


class _Batch:
    """One call of `Sandbox.run`: which programs wait, run, are done."""

    def __init__(self, sandbox: Sandbox, programs: Sequence[Program], on_outcome: OnOutcome | None) -> None:
        self.sandbox, self.programs, self.on_outcome, limits = sandbox, programs, on_outcome, sandbox.limits
        self.per_program = limits.longest_program + GRACE_SECONDS
        seconds = limits.batch_seconds
        if seconds is None:
            seconds = 10 + limits.longest_program * len(programs)
        self.deadline = time.monotonic() + seconds
        self.outcomes: list[Outcome | None] = [None] * len(programs)
        self.waiting = deque(range(len(programs)))
        self.running: dict[Worker, tuple[int, float]] = {}
        self.retried: set[int] = set()

    def run(self) -> list[Outcome]:
        try:
            while self.running or (self.waiting and time.monotonic() < self.deadline):
                self._hire()
                if self.running:
                    self._wait()
        except BaseException:
            for worker in list(self.running):  # an answer that nobody took would be the next batch's first
                self.sandbox.give_back(self.sandbox.replace(worker))
            raise
        for index, program in enumerate(self.programs):
            if self.outcomes[index] is None:
                self._known(index, _broken(program, "timeout", "the batch's time was over"))
        return [outcome for outcome in self.outcomes if outcome is not None]

    def _known(self, index: int, outcome: Outcome) -> None:
        self.outcomes[index] = outcome
        if self.on_outcome is not None:
            self.on_outcome(index, outcome)

    def _hire(self) -> None:
        """Takes the workers that are free; where it has none at all, waits for one."""
        while self.waiting and (left := self.deadline - time.monotonic()) > 0:
            worker = self.sandbox.borrow(0 if self.running else left)
            if worker is None:
                return
            self._feed(worker)

    def _feed(self, worker: Worker) -> None:
        if not self.waiting or time.monotonic() >= self.deadline:
            self.sandbox.give_back(worker)
            return
        index = self.waiting.popleft()
        self.running[worker] = (index, time.monotonic() + self.per_program)
        try:
            worker.send({**asdict(self.programs[index]), "chars": self.sandbox.limits.output_chars})
        except OSError:
            self._lost(worker)

    def _wait(self) -> None:
        """Takes what answers there are, or waits until one comes or a limit is over."""
        until = min(self.deadline, *(limit for _, limit in self.running.values()))
        if self.waiting:  # another batch may give workers back meanwhile
            until = min(until, time.monotonic() + LOOK_SECONDS)
        for worker in _readable(self.running, until - time.monotonic()):
            message = worker.receive()
            if message is None:
                self._lost(worker)
                continue
            index, _ = self.running.pop(worker)
            if self.sandbox.awaited():
                self.sandbox.give_back(worker)
            else:
                self._feed(worker)
            self._known(index, Outcome(tuple(Result(*pair) for pair in message["results"]), message["error"]))
        now = time.monotonic()
        for worker, (index, limit) in list(self.running.items()):
            if now >= self.deadline:
                del self.running[worker]
                self._known(index, _broken(self.programs[index], "timeout", "the batch's time was over"))
                self.sandbox.give_back(self.sandbox.replace(worker))
            elif now >= limit:
                self._lost(worker)

    def _lost(self, worker: Worker) -> None:
        """A worker died or hangs: another takes its place, and its program's."""
        index, _ = self.running.pop(worker)
        fresh = self.sandbox.replace(worker)
        if worker.words:
            print(f"A sandbox worker failed; another takes its place:\n{worker.words}", file=sys.stderr)
        if index in self.retried:
            why = f"the worker was lost twice{worker.last_word and f' ({worker.last_word})'}"
            self._known(index, _broken(self.programs[index], "killed", why))
        else:
            self.retried.add(index)
            self.waiting.appendleft(index)
        self._feed(fresh)


def _readable(workers: "dict[Worker, tuple[int, float]]", seconds: float) -> list[Worker]:
    poll = select.poll()
    by_descriptor = {worker.channel.fileno(): worker for worker in workers}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    return [by_descriptor[descriptor] for descriptor, _ in poll.poll(max(seconds, 0) * 1000)]


def _broken(program: Program, kind: Kind, why: str) -> Outcome:
    return Outcome(tuple(Result(kind, why) for _ in program.inputs), why, broken=True)
