"""Processes that play attempts side by side, each with a sandbox of its own, and keep what is finished.

What scripts decide costs about a tenth of what their programs cost, so one process can keep about WORKERS workers busy.
Tasks are dealt one after another to whichever process has room; an attempt depends on the seed, its task, its policy and
its number alone, so who plays it makes no difference.
"""

import os
import signal
import time
import traceback
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

from rmlab.errors import RmlabError
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.sandbox import Sandbox
from rmlab.policies.policy import Policy
from rmlab.policies.rollout import Planned, PlannedTask, played
from rmlab.trajectories.parts import TrajectoryParts

WORKERS = 8  # that one process decides for
TELL_SECONDS = 0.5  # between two words of a process about how far it is
_fork = get_context("fork")


@dataclass(frozen=True)
class RolloutPlan:
    """What is to be played. finished: numbers of attempts that were finished before, by task and policy.

    batch: attempts under way at once, over all processes: what one of them holds at the end, no other can help with.
    folder: where finished attempts are kept.
    """

    tasks: Sequence[PlannedTask]
    finished: Mapping[tuple[str, str], set[int]]
    policies: Mapping[str, Policy]
    environment: EnvironmentConfig
    seed: int
    batch: int
    folder: Path

    def left(self, policies: Container[str], tasks: Iterable[PlannedTask] | None = None) -> Iterator[Planned]:
        """The attempts of some policies that are not finished, at some tasks (None: at all)."""
        for task in self.tasks if tasks is None else tasks:
            for planned in task:
                done = self.finished.get((planned.task.task_id, planned.policy), ())
                if planned.policy in policies and planned.number not in done:
                    yield planned

    def play(self, sandbox: Sandbox, tasks: Iterable[PlannedTask], writer: str, share: int = 1) -> Iterator[None]:
        """Plays the scripts' attempts at the tasks, which are asked for one by one; yields with each that is finished."""
        planned, parts = self.left(self.policies, tasks), TrajectoryParts(self.folder, writer)
        batch = max(self.batch // share, 1)
        try:
            for _, trajectory in played(planned, self.policies, sandbox, self.environment, self.seed, batch):
                parts.add(trajectory)
                yield
        finally:
            parts.flush()


class RolloutProcesses:
    """A context manager, entered before this process has threads: the processes are forked from it, and wait for `play`.

    With few workers, or no scripts, there is none, and this process plays in the sandbox that is given.
    """

    def __init__(self, plan: RolloutPlan, sandbox: Sandbox):
        self.plan, self.sandbox = plan, sandbox
        self.count = -(-len(sandbox.workers) // WORKERS) if plan.policies else 1
        self._processes: list[Any] = []
        self._channels: list[Connection] = []

    def __enter__(self) -> "RolloutProcesses":
        if self.count > 1:
            dealt = _fork.Value("q", 0)
            for number in range(self.count):
                ours, theirs = _fork.Pipe()
                self._channels.append(ours)
                process = _fork.Process(target=self._one, args=(number, theirs, dealt), daemon=True)
                process.start()
                theirs.close()
                self._processes.append(process)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pids(self) -> list[int]:
        """Of the processes that decide."""
        return [process.pid for process in self._processes] or [os.getpid()]

    def stop(self) -> None:
        """Ends the processes; what they have finished is kept."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()

    def play(self) -> Iterator[int]:
        """Plays all; yields numbers of attempts as they are finished. Raises what went wrong in a process."""
        if not self._processes:
            for _ in self.plan.play(self.sandbox, self.plan.tasks, "scripts-0"):
                yield 1
            return
        try:
            for channel in self._channels:
                channel.send("play")
            yield from self._counts()
        except (EOFError, OSError) as error:
            raise RmlabError(
                "A process that plays attempts has died. Finished attempts are kept; the same command continues from there."
            ) from error

    def _counts(self) -> Iterator[int]:
        playing = list(self._channels)
        while playing:
            for channel in cast(list[Connection], wait(playing)):
                word = channel.recv()
                if isinstance(word, BaseException):
                    raise word
                if word is None:
                    playing.remove(channel)
                else:
                    yield word

    def _one(self, number: int, channel: Connection, dealt: Any) -> None:
        """One process. Ctrl-C and the parent's word end it, and what it has finished is kept."""
        for word in (signal.SIGTERM, signal.SIGINT):
            signal.signal(word, _interrupt)
        for parents in self._channels:
            parents.close()  # a copy, which would keep the channel open when the parent is gone
        try:
            channel.recv()
            self._play(number, channel, dealt)
        except (KeyboardInterrupt, EOFError, BrokenPipeError):
            pass  # the parent ends, and says so
        except RmlabError as error:
            channel.send(error)
        except Exception:
            channel.send(RmlabError(f"A process that plays attempts failed:\n{traceback.format_exc()}"))

    def _play(self, number: int, channel: Connection, dealt: Any) -> None:
        def tasks() -> Iterator[PlannedTask]:
            while True:
                with dealt.get_lock():
                    place, dealt.value = dealt.value, dealt.value + 1
                if place >= len(self.plan.tasks):
                    return
                yield self.plan.tasks[place]

        parent = os.getppid()
        workers = len(self.sandbox.workers[number :: self.count])
        reported_at, finished = time.monotonic(), 0
        with Sandbox(workers, self.sandbox.limits, self.sandbox.isolation.name) as own:
            for _ in self.plan.play(own, tasks(), f"scripts-{number}", self.count):
                finished += 1
                if time.monotonic() - reported_at > TELL_SECONDS:
                    if os.getppid() != parent:
                        raise KeyboardInterrupt
                    channel.send(finished)
                    reported_at, finished = time.monotonic(), 0
        channel.send(finished)
        channel.send(None)


def _interrupt(*_: object) -> None:
    for word in (signal.SIGTERM, signal.SIGINT):
        signal.signal(word, signal.SIG_IGN)  # what is finished is being kept: once is enough
    raise KeyboardInterrupt
