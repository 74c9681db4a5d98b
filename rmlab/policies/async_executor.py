"""Programs that run beside decoding. Each outcome is handed over as soon as it is known: an endless program holds up nobody else."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from rmlab.microswe.sandbox import Outcome, Program
from rmlab.policies.rollout import Executor

BATCHES = 16  # at once, each begun with all programs that were needed then
Owner = TypeVar("Owner")


class AsyncExecutor(Generic[Owner]):
    """A context manager. overlap: False runs a batch within `begin` and hands its outcomes over in order, so that a run repeats itself.

    in_flight: programs of which nothing is known yet.
    """

    def __init__(self, executor: Executor, overlap: bool):
        self.executor, self.overlap, self.in_flight = executor, overlap, 0
        self._running: list[Future[list[Outcome]]] = []
        self._told: SimpleQueue[tuple[Owner, Outcome] | None] = SimpleQueue()  # None: a batch is over
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
                self._told.put((owner, outcome))
            return
        future = self._threads.submit(
            self.executor.run, programs, lambda index, outcome: self._told.put((owners[index], outcome))
        )
        self._running.append(future)
        future.add_done_callback(lambda _: self._told.put(None))

    def completed(self) -> Iterator[tuple[Owner, Outcome]]:
        """What is known by now and was not handed over yet. Raises what went wrong in a batch."""
        while self._awaited or not self._told.empty():
            if (entry := self._awaited.pop() if self._awaited else self._told.get()) is not None:
                self.in_flight -= 1
                yield entry
        for future in [future for future in self._running if future.done()]:
            self._running.remove(future)
            future.result()

    def wait(self, seconds: float | None) -> bool:
        """Waits until an outcome is known, so long at most (None: without end); says whether there is."""
        try:
            self._awaited = self._awaited or [self._told.get(timeout=seconds)]
        except Empty:
            return False
        return True
