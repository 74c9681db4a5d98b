"""Playing many episodes at once through one sandbox: each attempt goes on as soon as its own program has run.

Attempts that finish make room for the next ones, so the workers stay busy. What a program did is remembered while its
task is being attempted: attempts at one task often hold the same program.

Programs that run beside decoding. Each outcome is handed over as soon as it is known: an endless program holds up nobody else.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from rmlab.errors import UsageError
from rmlab.microswe.episode import EnvironmentConfig, Episode
from rmlab.microswe.sandbox import OnOutcome, Outcome, Program, Sandbox
from rmlab.microswe.task import Task
from rmlab.policies.policy import Attempt, Policy, attempt_rng
from rmlab.progress import Advance
from rmlab.trajectories.record import Trajectory

Owner = TypeVar("Owner")


@dataclass(frozen=True, slots=True)
class Planned:
    """An attempt that is to be made."""

    task: Task
    policy: str
    number: int


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """All attempts that are to be made at one task: `attempts` by each policy."""

    task: Task
    policies: tuple[str, ...]
    attempts: int

    def __len__(self) -> int:
        return len(self.policies) * self.attempts

    def __iter__(self) -> Iterator[Planned]:
        return (Planned(self.task, policy, n) for policy in self.policies for n in range(self.attempts))


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
        found: dict[int, Outcome] = {}
        with SharedPrograms[int](self) as shared:
            for index, program in enumerate(programs):
                shared.add(index, program)
            while known := shared.outcomes(wait=True):
                for index, outcome in known:
                    found[index] = outcome
                    if on_outcome is not None:
                        on_outcome(index, outcome)
        return [found[index] for index in range(len(programs))]

    def recall(self, program: Program) -> Outcome | None:
        """What it did, where that is remembered."""
        with self._lock:
            if program in self._known:
                self._known.move_to_end(program)
            return self._known.get(program)

    def remember(self, program: Program, outcome: Outcome) -> None:
        """Keeps an outcome, unless it is broken."""
        if outcome.broken:
            return
        with self._lock:
            self._known[program] = outcome
            if len(self._known) > self.size:
                self._known.popitem(last=False)


class SharedPrograms(Generic[Owner]):
    """Programs that many attempts wait for: equal ones run once, and each outcome is handed over as soon as it is known.

    A context manager. Each attempt goes on by itself: an endless program holds up only those that need it.
    """

    def __init__(self, executor: Executor):
        self.executor = executor
        self._stream = executor.sandbox.stream()
        self._under_way: dict[int, Program] = {}
        self._owners: dict[Program, list[Owner]] = {}  # of the programs under way
        self._known: list[tuple[Owner, Outcome]] = []

    def __enter__(self) -> "SharedPrograms[Owner]":
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.__exit__(*error)

    def add(self, owner: Owner, program: Program) -> None:
        """Begins the program that an owner waits for, where it is neither known nor under way."""
        if (outcome := self.executor.recall(program)) is not None:
            self._known.append((owner, outcome))
        elif program in self._owners:
            self._owners[program].append(owner)
        else:
            self._owners[program] = [owner]
            self._under_way[self._stream.add(program)] = program

    def outcomes(self, wait: bool) -> list[tuple[Owner, Outcome]]:
        """What is known by now and was not handed over yet. wait: until there is something, where something is under way."""
        for number, outcome in self._stream.outcomes(wait and not self._known):
            program = self._under_way.pop(number)
            self.executor.remember(program, outcome)
            self._known += [(owner, outcome) for owner in self._owners.pop(program)]
        known, self._known = self._known, []
        return known


ACTING = 16  # attempts that act between two looks at whether a worker needs its next program
REMEMBERED = (
    5000  # outcomes: attempts at one task are played one after the other, so older ones are not asked for again
)


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
    finished: dict[int, Trajectory] = {}
    for index, trajectory in played(planned, policies, sandbox, environment, seed, batch):
        finished[index] = trajectory
        if on_finished is not None:
            on_finished(trajectory)
        if advance is not None:
            advance(1)
    return [finished[index] for index in range(len(planned))]


def played(
    planned: Iterable[Planned],
    policies: Mapping[str, Policy],
    sandbox: Sandbox,
    environment: EnvironmentConfig,
    seed: int,
    batch: int = 1024,
) -> Iterator[tuple[int, Trajectory]]:
    """As `rollout`, in the order in which attempts are finished, each with its place in the plan; holds `batch` attempts at most.

    An attempt goes on as soon as its own program is known, and the next one is opened when it is over, so that workers are
    busy until few attempts are left.
    """
    unopened = enumerate(planned)
    ready: deque[tuple[int, Attempt]] = deque()
    under_way = 0
    with SharedPrograms[tuple[int, Attempt]](Executor(sandbox, REMEMBERED)) as programs:
        while True:
            while under_way < batch and (entry := next(unopened, None)) is not None:
                attempt = _opened(entry[1], policies, environment, seed)
                _go_on((entry[0], attempt), programs, ready)
                under_way += 1
            if not under_way:
                return
            for owner, outcome in programs.outcomes(wait=not ready):
                index, attempt = owner
                attempt.episode.receive(outcome)
                if attempt.episode.done:
                    under_way -= 1
                    yield index, attempt.episode.trajectory(attempt.policy, attempt.number)
                else:
                    _go_on(owner, programs, ready)
            acting = [ready.popleft() for _ in range(min(ACTING, len(ready)))]
            for name in dict.fromkeys(attempt.policy for _, attempt in acting):
                group = [owner for owner in acting if owner[1].policy == name]
                texts = policies[name].act([attempt for _, attempt in group])
                for owner, text in zip(group, texts, strict=True):
                    owner[1].episode.act(text)
                    _go_on(owner, programs, ready)


def _opened(planned: Planned, policies: Mapping[str, Policy], environment: EnvironmentConfig, seed: int) -> Attempt:
    if planned.policy not in policies:
        raise UsageError(f"policy {planned.policy!r} is not configured: there are {', '.join(sorted(policies))}")
    rng = attempt_rng(seed, planned.task.task_id, planned.policy, planned.number)
    return Attempt(Episode(planned.task, environment), planned.policy, planned.number, rng)


def _go_on(
    owner: tuple[int, Attempt], programs: SharedPrograms[tuple[int, Attempt]], ready: deque[tuple[int, Attempt]]
) -> None:
    """Begins the program that an attempt needs, or puts it among those that act next."""
    if (program := owner[1].episode.needs) is None:
        ready.append(owner)
    else:
        programs.add(owner, program)


BATCHES = 16  # at once, each begun with all programs that were needed then


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
