"""The sandbox as its users see it: many programs in, one outcome for each, in order."""

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any

from rmlab.errors import RmlabError
from rmlab.microswe.sandbox.messages import receive, send
from rmlab.microswe.sandbox.records import Kind, Limits, Outcome, Program, Result
from rmlab.paths import REPOSITORY

START_SECONDS = 60.0
DEFAULT_LIMITS = Limits()
GRACE_SECONDS = 5.0  # above a program's own limit, before its worker counts as hung
_CODE = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from rmlab.microswe.sandbox.worker import main; main()"


class _Worker:
    """One worker process and the socket to it."""

    def __init__(self, level: str, limits: Limits) -> None:
        options = json.dumps({"level": level, "limits": asdict(limits)})
        self.channel, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-S", "-s", "-P", "-B", "-c", _CODE, options],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={"PYTHONHASHSEED": "0"},
                cwd="/",
                start_new_session=True,
            )

    def wait_until_ready(self) -> dict[str, Any]:
        self.channel.settimeout(START_SECONDS)
        try:
            report = receive(self.channel)
        except (OSError, ValueError):
            report = None
        if report is None:
            self.process.kill()
            assert self.process.stderr is not None
            words = self.process.stderr.read().decode(errors="replace").strip().splitlines() or ["no message"]
            self.close()
            raise RmlabError(f"A sandbox worker did not start: {words[-1]}. `rmlab doctor` shows what this machine allows.")
        return dict(report)

    def send(self, message: dict[str, Any]) -> None:
        self.channel.settimeout(GRACE_SECONDS)
        send(self.channel, message)

    def receive(self) -> dict[str, Any] | None:
        self.channel.settimeout(GRACE_SECONDS)
        try:
            message = receive(self.channel)
        except (OSError, ValueError):
            return None
        return None if message is None else dict(message)

    def close(self) -> None:
        """Ends the worker; its zygote and any program end with it."""
        self.channel.close()
        try:
            self.process.wait(2.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()

    def kill(self) -> None:
        self.process.kill()
        self.close()


class Sandbox:
    """Worker processes that run programs written by anyone. A context manager; `run` may be called many times.

    workers: how many programs run at once. Raises RmlabError where no worker can be started.
    """

    def __init__(self, workers: int = 2, limits: Limits = DEFAULT_LIMITS) -> None:
        if workers < 1:
            raise ValueError(f"workers={workers}: at least 1")
        self.limits = limits
        self._level = "limits"
        self._lock = threading.Lock()
        self._workers = [_Worker(self._level, limits) for _ in range(workers)]
        try:
            for worker in self._workers:
                worker.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends all workers. May be called twice."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.channel.close()
        for worker in workers:
            worker.close()

    def run(self, programs: Sequence[Program]) -> list[Outcome]:
        """Runs the programs, some at a time; one outcome each, in order. A lost worker is replaced, its program tried
        once more, then reported as killed. Past `batch_seconds` what has not run is a timeout.
        """
        if not self._workers:
            raise ValueError("the sandbox is closed")
        with self._lock:
            return _Batch(self, programs).run()

    def _replace(self, worker: _Worker) -> _Worker:
        worker.kill()
        fresh = _Worker(self._level, self.limits)
        self._workers[self._workers.index(worker)] = fresh
        fresh.wait_until_ready()
        return fresh


class _Batch:
    """One call of `Sandbox.run`: which program waits, runs, is done."""

    def __init__(self, sandbox: Sandbox, programs: Sequence[Program]) -> None:
        self.sandbox, self.programs, limits = sandbox, programs, sandbox.limits
        self.per_program = limits.program_seconds + limits.call_seconds + GRACE_SECONDS
        seconds = limits.batch_seconds
        if seconds is None:
            seconds = 10 + limits.program_seconds * len(programs)
        self.deadline = time.monotonic() + seconds
        self.outcomes: list[Outcome | None] = [None] * len(programs)
        self.waiting = deque(range(len(programs)))
        self.running: dict[_Worker, tuple[int, float]] = {}
        self.retried: set[int] = set()

    def run(self) -> list[Outcome]:
        try:
            for worker in list(self.sandbox._workers):
                self.feed(worker)
            while self.running:
                self.wait()
        except BaseException:
            for worker in list(self.running):  # an answer that nobody took would be the next batch's first
                self.sandbox._replace(worker)
            raise
        pairs = zip(self.outcomes, self.programs, strict=True)
        return [outcome or _broken(program, "timeout", "the batch's time was over") for outcome, program in pairs]

    def feed(self, worker: _Worker) -> None:
        if not self.waiting or time.monotonic() >= self.deadline:
            return
        index = self.waiting.popleft()
        program = self.programs[index]
        self.running[worker] = (index, time.monotonic() + self.per_program)
        try:
            worker.send({**asdict(program), "chars": self.sandbox.limits.output_chars})
        except OSError:
            self.lost(worker)

    def wait(self) -> None:
        now = time.monotonic()
        until = min(self.deadline, *(limit for _, limit in self.running.values()))
        ready = _poll(self.running, until - now)
        for worker in ready:
            message = worker.receive()
            if message is None:
                self.lost(worker)
                continue
            index, _ = self.running.pop(worker)
            results = tuple(Result(kind, value) for kind, value in message["results"])
            self.outcomes[index] = Outcome(results, message["error"])
            self.feed(worker)
        now = time.monotonic()
        for worker, (index, limit) in list(self.running.items()):
            if now >= self.deadline:
                del self.running[worker]
                self.outcomes[index] = _broken(self.programs[index], "timeout", "the batch's time was over")
                self.sandbox._replace(worker)
            elif now >= limit:
                self.lost(worker)

    def lost(self, worker: _Worker) -> None:
        """A worker died or hangs: another takes its place, and its program's."""
        index, _ = self.running.pop(worker)
        if index in self.retried:
            self.outcomes[index] = _broken(self.programs[index], "killed", "the worker was lost twice")
        else:
            self.retried.add(index)
            self.waiting.appendleft(index)
        self.feed(self.sandbox._replace(worker))


def _poll(running: dict[_Worker, tuple[int, float]], seconds: float) -> list[_Worker]:
    poll = select.poll()
    by_descriptor = {worker.channel.fileno(): worker for worker in running}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    return [by_descriptor[d] for d, _ in poll.poll(max(seconds, 0) * 1000)]


def _broken(program: Program, kind: Kind, why: str) -> Outcome:
    return Outcome(tuple(Result(kind, why) for _ in program.inputs), why, broken=True)


def default_workers() -> int:
    """As many as this process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
