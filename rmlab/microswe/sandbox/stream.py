"""Programs that run as workers become free, while more are added: nobody waits for the slowest of a batch."""

import math
import select
import sys
import time
from collections import deque

from rmlab.microswe.sandbox.pool import WorkerPool
from rmlab.microswe.sandbox.process import Worker
from rmlab.microswe.sandbox.records import Kind, Outcome, Program, Result

LOOK_SECONDS = 0.02  # between two looks at whether a worker became free
GRACE_SECONDS = 5.0  # above a program's own limit, before its worker counts as hung
TURN_SECONDS = 60.0  # a stream without a worker takes its place in the row anew after so long
LATE = "the batch's time was over"


class ProgramStream:
    """Programs on their way through a sandbox, begun in the order in which they were added. A context manager: leaving it ends what runs.

    seconds: on the wall, for each program from when it is added; what has not ended by then is a timeout of the sandbox.

    A stream keeps the workers that it has programs for until another stream of the sandbox has none.
    """

    def __init__(self, pool: WorkerPool, seconds: float = math.inf) -> None:
        self.pool, self.seconds = pool, seconds
        self._per_program = pool.limits.longest_program + GRACE_SECONDS
        self._added = 0
        self._programs: dict[int, Program] = {}  # whose outcomes are not known
        self._due: dict[int, float] = {}  # when the time of each of them is over, by the monotonic clock
        self._waiting: deque[int] = deque()
        self._running: dict[Worker, tuple[int, float]] = {}
        self._retried: set[int] = set()
        self._known: list[tuple[int, Outcome]] = []

    def __enter__(self) -> "ProgramStream":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._running:
            worker.hang_up()  # they end side by side
        for worker in list(self._running):  # an answer that nobody took would be the next stream's first
            self.pool.give_back(self.pool.replace(worker))
        self._running.clear()

    def add(self, program: Program) -> int:
        """Its number: 0, 1, ... It begins at once where a worker is free."""
        number = self._added
        self._added += 1
        self._programs[number] = program
        self._due[number] = time.monotonic() + self.seconds
        self._waiting.append(number)
        if len(self._running) < len(self.pool.workers):
            self._hire(0)
        return number

    def outcomes(self, wait: bool = True) -> list[tuple[int, Outcome]]:
        """Numbers and outcomes that are known and were not handed over yet. wait: until there is one, or none can come.

        A lost worker is replaced, its program tried once more, then reported as killed.
        """
        if not wait:
            self._advance(0)
        while wait and not self._known and self._programs:
            self._advance(TURN_SECONDS)
        known, self._known = self._known, []
        return known

    def _advance(self, seconds: float) -> None:
        """Takes what answers there are, or waits until one comes or a limit is over, so long at most."""
        self._hire(0 if self._running else seconds)
        if self._running:
            self._take_answers(0 if self._known else seconds)

    def _hire(self, seconds: float) -> None:
        """Takes the workers that are free; where it has none at all, waits for one so long."""
        while self._in_time():
            left = self._due[self._waiting[0]] - time.monotonic()
            worker = self.pool.borrow(0 if self._running or self._known else min(seconds, left))
            if worker is None:
                return
            self._feed(worker)

    def _in_time(self) -> bool:
        """Whether a program waits, once those whose time is over have been given up."""
        while self._waiting and time.monotonic() >= self._due[self._waiting[0]]:
            self._broken(self._waiting.popleft(), "timeout", LATE)
        return bool(self._waiting)

    def _feed(self, worker: Worker) -> None:
        if not self._in_time():
            self.pool.give_back(worker)
            return
        number = self._waiting.popleft()
        self._running[worker] = (number, min(time.monotonic() + self._per_program, self._due[number]))
        try:
            worker.send({**vars(self._programs[number]), "chars": self.pool.limits.output_chars})
        except OSError:
            self._lost(worker)

    def _take_answers(self, seconds: float) -> None:
        now = time.monotonic()
        until = min(now + seconds, *(limit for _, limit in self._running.values()))
        if self._waiting:  # another stream may give workers back meanwhile
            until = min(until, now + LOOK_SECONDS)
        for worker in _readable(self._running, until - now):
            message = worker.receive()
            if message is None:
                self._lost(worker)
                continue
            number, _ = self._running.pop(worker)
            if self.pool.awaited():
                self.pool.give_back(worker)
            else:
                self._feed(worker)
            self._finish(number, Outcome(tuple(Result(*pair) for pair in message["results"]), message["error"]))
        now = time.monotonic()
        for worker, (number, limit) in list(self._running.items()):
            if now < limit:
                continue
            if limit < self._due[number]:
                self._lost(worker)
            else:
                del self._running[worker]
                self._broken(number, "timeout", LATE)
                self.pool.give_back(self.pool.replace(worker))

    def _lost(self, worker: Worker) -> None:
        """A worker died or hangs: another takes its place, and its program's."""
        number, _ = self._running.pop(worker)
        fresh = self.pool.replace(worker)
        if worker.words:
            print(f"A sandbox worker failed; another takes its place:\n{worker.words}", file=sys.stderr)
        if number in self._retried:
            self._broken(number, "killed", f"the worker was lost twice{worker.last_word and f' ({worker.last_word})'}")
        else:
            self._retried.add(number)
            self._waiting.appendleft(number)
        self._feed(fresh)

    def _broken(self, number: int, kind: Kind, why: str) -> None:
        inputs = self._programs[number].inputs
        self._finish(number, Outcome(tuple(Result(kind, why) for _ in inputs), why, broken=True))

    def _finish(self, number: int, outcome: Outcome) -> None:
        del self._programs[number], self._due[number]
        self._retried.discard(number)
        self._known.append((number, outcome))


def _readable(workers: dict[Worker, tuple[int, float]], seconds: float) -> list[Worker]:
    poll = select.poll()
    by_descriptor = {worker.channel.fileno(): worker for worker in workers}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    return [by_descriptor[descriptor] for descriptor, _ in poll.poll(max(seconds, 0) * 1000)]
