"""Playing many episodes at once: all attempts advance in lock-step through one sandbox and one call a policy.

Attempts that finish make room for the next ones, so the batch stays full. What a program did is remembered while its
task is being attempted: attempts at one task often hold the same program.

Programs that run beside decoding. Each outcome is handed over as soon as it is known: an endless program holds up nobody else.

The attempts of a collection that is under way, kept so that a killed one goes on where it was.

Each file of the folder is a trajectory set of some finished attempts, written by renaming. An attempt depends on the seed, its task,
its policy and its number alone, so which of them were finished before makes no difference to the set.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from rmlab.errors import UsageError
from rmlab.microswe.episode import EnvironmentConfig, Episode
from rmlab.microswe.sandbox import OnOutcome, Outcome, Program, Sandbox
from rmlab.microswe.task import Task
from rmlab.policies.policy import Attempt, Policy, attempt_rng
from rmlab.progress import Advance
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import TrajectorySet, read_trajectories, write_in_order


@dataclass(frozen=True)
class Planned:
    """An attempt that is to be made."""

    task: Task
    policy: str
    number: int


def plan(tasks: Sequence[Task], policies: Sequence[str], attempts: int, first: int = 0) -> list[Planned]:
    """attempts at each task by each policy, task by task, numbered from `first`."""
    return [Planned(task, policy, first + n) for task in tasks for policy in policies for n in range(attempts)]


class Executor:
    """Runs programs through a sandbox and remembers the last `size` outcomes. Broken outcomes are not remembered.

    Several threads may run programs at once.
    """

    def __init__(self, sandbox: Sandbox, size: int = 20_000):
        self.sandbox = sandbox
        self.size = size
        self._known: OrderedDict[Program, Outcome] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, programs: Sequence[Program], on_outcome: OnOutcome | None = None) -> list[Outcome]:
        """The outcomes in order; equal programs run once. on_outcome: called with each index and outcome as soon as it is known."""
        where: dict[Program, list[int]] = {}
        for index, program in enumerate(programs):
            where.setdefault(program, []).append(index)
        with self._lock:
            found = {program: self._known[program] for program in where if program in self._known}
        new = [program for program in where if program not in found]

        def tell(program: Program, outcome: Outcome) -> None:
            if on_outcome is not None:
                for index in where[program]:
                    on_outcome(index, outcome)

        for program, outcome in found.items():
            tell(program, outcome)
        made = dict(zip(new, self.sandbox.run(new, lambda index, outcome: tell(new[index], outcome)), strict=True))
        found |= made
        with self._lock:
            self._known.update((program, outcome) for program, outcome in made.items() if not outcome.broken)
            for program in where:
                if program in self._known:
                    self._known.move_to_end(program)
            while len(self._known) > self.size:
                self._known.popitem(last=False)
        return [found[program] for program in programs]


def rollout(
    planned: Sequence[Planned],
    policies: Mapping[str, Policy],
    sandbox: Sandbox,
    environment: EnvironmentConfig,
    seed: int,
    batch: int = 1024,
    advance: Advance | None = None,
    on_finished: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Plays every planned attempt and returns the trajectories in the order of the plan. on_finished: called with each when it is.

    The result depends on plan, policies, environment and seed alone, not on batch or workers (programs that run into a
    time limit on a slow machine excepted). Raises UsageError for a policy that is not among `policies`.
    """
    unknown = {p.policy for p in planned} - set(policies)
    if unknown:
        raise UsageError(f"policy {sorted(unknown)[0]!r} is not configured: there are {', '.join(sorted(policies))}")
    executor = Executor(sandbox)
    waiting = iter(enumerate(planned))
    active: dict[int, Attempt] = {}
    finished: dict[int, Trajectory] = {}
    while True:
        _fill(active, waiting, batch, environment, seed)
        if not active:
            return [finished[i] for i in range(len(planned))]
        _execute(active, executor)
        for i in [i for i, attempt in active.items() if attempt.episode.done]:
            attempt = active.pop(i)
            finished[i] = attempt.episode.trajectory(attempt.policy, attempt.number)
            if on_finished is not None:
                on_finished(finished[i])
            if advance is not None:
                advance(1)
        _act(active, policies)


def _fill(
    active: dict[int, Attempt],
    waiting: Iterator[tuple[int, Planned]],
    batch: int,
    environment: EnvironmentConfig,
    seed: int,
) -> None:
    while len(active) < batch and (entry := next(waiting, None)) is not None:
        i, p = entry
        rng = attempt_rng(seed, p.task.task_id, p.policy, p.number)
        active[i] = Attempt(Episode(p.task, environment), p.policy, p.number, rng)


def _execute(active: Mapping[int, Attempt], executor: Executor) -> None:
    needing = [(a.episode, a.episode.needs) for a in active.values() if a.episode.needs is not None]
    outcomes = executor.run([program for _, program in needing])
    for (episode, _), outcome in zip(needing, outcomes, strict=True):
        episode.receive(outcome)


def _act(active: Mapping[int, Attempt], policies: Mapping[str, Policy]) -> None:
    ready = [a for a in active.values() if a.episode.needs is None and not a.episode.done]
    for name in dict.fromkeys(a.policy for a in ready):
        group = [a for a in ready if a.policy == name]
        for attempt, text in zip(group, policies[name].act(group), strict=True):
            attempt.episode.act(text)


BATCHES = 16  # at once, each begun with all programs that were needed then
Owner = TypeVar("Owner")


class AsyncExecutor(Generic[Owner]):
    """A context manager. overlap: False runs a batch within `begin` and hands its outcomes over in order, so that a run repeats itself.

    in_flight: programs of which nothing is known yet.
    """

    def __init__(self, executor: Executor, overlap: bool):
        self.executor, self.overlap, self.in_flight = executor, overlap, 0
        self._running: list[Future[list[Outcome]]] = []
        self._outcomes: SimpleQueue[tuple[Owner, Outcome] | None] = SimpleQueue()  # None: a batch is over
        self._awaited: list[tuple[Owner, Outcome] | None] = []  # taken by `wait`, not handed over yet
        self._threads = ThreadPoolExecutor(BATCHES)

    def __enter__(self) -> "AsyncExecutor[Owner]":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=True)

    @property
    def full(self) -> bool:
        """Whether no batch more may begin now."""
        return len(self._running) == BATCHES

    def begin(self, owners: Sequence[Owner], programs: Sequence[Program]) -> None:
        """Runs a program of each owner."""
        self.in_flight += len(programs)
        if not self.overlap:
            for owner, outcome in zip(owners, self.executor.run(programs), strict=True):
                self._outcomes.put((owner, outcome))
            return
        future = self._threads.submit(
            self.executor.run, programs, lambda index, outcome: self._outcomes.put((owners[index], outcome))
        )
        self._running.append(future)
        future.add_done_callback(lambda _: self._outcomes.put(None))

    def completed(self) -> Iterator[tuple[Owner, Outcome]]:
        """What is known by now and was not handed over yet. Raises what went wrong in a batch."""
        while self._awaited or not self._outcomes.empty():
            if (entry := self._awaited.pop() if self._awaited else self._outcomes.get()) is not None:
                self.in_flight -= 1
                yield entry
        for future in [future for future in self._running if future.done()]:
            self._running.remove(future)
            future.result()

    def wait(self, seconds: float | None) -> bool:
        """Waits until an outcome is known, so long at most (None: without end); says whether there is."""
        try:
            self._awaited = self._awaited or [self._outcomes.get(timeout=seconds)]
        except Empty:
            return False
        return True


EVERY_SECONDS = 5.0


class FinishedAttempts:
    """Finished attempts of a plan, in a folder; `add` writes what is new every few seconds, `flush` at once."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._new: list[Trajectory] = []
        self._written = time.monotonic()
        files = sorted(folder.glob("[0-9]*.parquet"))  # a kill may leave a temporary file, whose name begins with a dot
        self._files = len(files)
        self._known = {_key(t): t for path in files for t in read_trajectories(path).trajectories}

    def __len__(self) -> int:
        return len(self._known)

    def left(self, planned: Sequence[Planned]) -> list[Planned]:
        """What of a plan is still to be played."""
        return [p for p in planned if (p.task.task_id, p.policy, p.number) not in self._known]

    def add(self, trajectory: Trajectory) -> None:
        """Keeps a finished attempt."""
        self._known[_key(trajectory)] = trajectory
        self._new.append(trajectory)
        if time.monotonic() - self._written > EVERY_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Writes what is not written yet."""
        new, self._new = self._new, []
        if new:
            path = self.folder / f"{self._files:06}.parquet"
            write_in_order(path, new, {}, TrajectorySet(tuple(new), {}).fingerprint)
            self._files += 1
        self._written = time.monotonic()

    def all(self, planned: Sequence[Planned]) -> list[Trajectory]:
        """The finished attempts of a plan, in its order."""
        return [self._known[p.task.task_id, p.policy, p.number] for p in planned]


def _key(trajectory: Trajectory) -> tuple[str, str, int]:
    return trajectory.task_id, trajectory.policy, trajectory.attempt
