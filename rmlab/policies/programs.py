"""The programs of many attempts in one sandbox: equal ones run once, and each outcome is handed over as soon as it is known.

What a program did is remembered while its task is being attempted: attempts at one task often hold the same program. An endless
program holds up nobody but those that need it.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from rmlab.microswe.sandbox import OnOutcome, Outcome, Program, Sandbox

Owner = TypeVar("Owner")


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
        outcomes: dict[int, Outcome] = {}
        with SharedPrograms[int](self) as shared:
            for index, program in enumerate(programs):
                shared.add(index, program)
            while known := shared.outcomes(wait=True):
                for index, outcome in known:
                    outcomes[index] = outcome
                    if on_outcome is not None:
                        on_outcome(index, outcome)
        return [outcomes[index] for index in range(len(programs))]

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


BATCHES = 16  # at once, each begun with all programs that were needed then


class AsyncExecutor(Generic[Owner]):
    """Runs programs beside decoding. A context manager: leaving it ends batches that are under way with their next outcome.

    overlap: False runs a batch within `begin` and hands its outcomes over in order, so that a run repeats itself.
    in_flight: programs of which nothing is known yet.
    """

    def __init__(self, executor: Executor, overlap: bool):
        self.executor, self.overlap, self.in_flight = executor, overlap, 0
        self._running: list[Future[list[Outcome]]] = []
        self._outcomes: SimpleQueue[tuple[Owner, Outcome] | None] = SimpleQueue()  # None: a batch is over
        self._awaited: list[tuple[Owner, Outcome] | None] = []  # taken by `wait`, not handed over yet
        self._threads = ThreadPoolExecutor(BATCHES)
        self._over = False

    def __enter__(self) -> "AsyncExecutor[Owner]":
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
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

        def put(index: int, outcome: Outcome) -> None:
            if self._over:  # the work was stopped: nobody takes the outcomes that are still to come
                raise CancelledError
            self._outcomes.put((owners[index], outcome))

        future = self._threads.submit(self.executor.run, programs, put)
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
