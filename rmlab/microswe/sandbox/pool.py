"""The worker processes of a sandbox, borrowed by the batches that have programs for them, in turn."""

import threading
from collections.abc import Sequence
from dataclasses import replace

from rmlab.errors import RmlabError
from rmlab.microswe.sandbox.isolation import WEAK, IsolationLevel
from rmlab.microswe.sandbox.process import LevelRefused, Worker
from rmlab.microswe.sandbox.records import Limits

FREE_HERE = "with resource limits alone: it can read and change files, end processes and forge its label"


class WorkerPool:
    """Worker processes of one level of isolation, the best of `levels` that the machine allows.

    count: of the workers. Raises RmlabError where no worker can be started at any of the levels.
    """

    def __init__(self, count: int, limits: Limits, levels: Sequence[str]) -> None:
        self.limits = limits
        self._workers, self.isolation = _start(count, limits, levels)
        self._idle = list(self._workers)
        self._freed = threading.Condition()
        self._queue: list[object] = []  # batches without a worker, the first to be served first

    def close(self) -> None:
        """Ends all workers. May be called twice."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.hang_up()
        for worker in workers:
            worker.close()

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
    raise RmlabError(f"This machine offers no sandbox that isolates programs: no {'; no '.join(reasons)}.{advice}")
