"""One process per job, W at once, on this machine, so that no state of one run (memory, seeds, threads) reaches the next.

The processes are forked from a fork server that has imported the heavy modules once, has read what all of them read (`warmup`),
and has done nothing else: no CUDA, no thread of its own but Arrow's, which are made anew in a fork. Where there are GPUs, each
process sees the one that was leased for it. They end when the parent ends, also when it is killed with -9.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import TYPE_CHECKING

from rmlab.errors import UsageError
from rmlab.gpu_memory import shared_with
from rmlab.launchers.gpus import VISIBLE, Gpus, visible_gpus
from rmlab.launchers.jobs import Event, Job, JobQueue, State, answer, event
from rmlab.launchers.warmup import MODULE, SharedRead, warm_up_environment
from rmlab.paths import runs_folder
from rmlab.progress import report_to
from rmlab.stopping import EXIT_CODE, end_on_sigterm, uncut
from rmlab.wording import counted

if TYPE_CHECKING:
    from omegaconf import DictConfig

AT_ITS_START = {"OPENBLAS_NUM_THREADS": "1", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""What a fork server reads once, and its cells not again. OpenBLAS starts its threads when it is imported; they would not live on in
the forked processes. glibc asks for pages of 2 MB where the kernel gives them on request: a training on a CPU, which goes through
all its activations in every step, takes an eighth less time for the same numbers."""

ENDING = (signal.SIGINT, signal.SIGTERM)
PATIENCE_SECONDS = 60.0
"""How long a process that is asked to end may take: a training finishes its step and writes its checkpoint, on a slow machine too."""


@dataclass
class _Running:
    job: Job
    process: ForkServerProcess
    pipe: Connection
    gpu: str | None
    ended: bool = False
    began: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class LocalLauncher:
    """At most `workers` processes at once. gpus: a place on one is leased for each; None = processes do not need one."""

    workers: int
    gpus: Gpus | None = None
    tick_seconds: float = 0.5

    def run(self, queue: JobQueue, preload: Sequence[str]) -> Generator[Event | None]:
        """As `Launcher.run`. A fork server that was not started before (`start_fork_server`) imports `preload` and reads nothing."""
        context = multiprocessing.get_context("forkserver")
        start_fork_server(preload)
        running = list[_Running]()
        try:
            while running or queue.is_open():
                while len(running) < self.workers and (one := self._start(queue, context, running)) is not None:
                    yield Event(one.job, "started")
                unwanted = queue.unwanted()
                for one in running:
                    if one.job.planned in unwanted and not one.ended:
                        one.ended = True
                        one.process.terminate()
                ready = wait([r.pipe for r in running], timeout=self.tick_seconds) if running else []
                for one in [r for r in running if r.pipe in ready]:
                    heard = _receive(one)
                    if heard.state != "progress":
                        running.remove(one)
                        if heard.state == "crowded":
                            heard = self._with_fewer(one, heard)
                        else:
                            self._free(one)
                    yield heard
                if not ready:
                    if not running:
                        time.sleep(self.tick_seconds)
                    yield None
        finally:
            try:
                _end(running)
            finally:
                for one in running:
                    self._free(one)
                if self.gpus:
                    self.gpus.open_again()

    @uncut()
    def _start(self, queue: JobQueue, context: ForkServerContext, running: list[_Running]) -> _Running | None:
        """Starts the next job in its process and counts it as running; None where none is to start, or every GPU is taken."""
        gpu = self.gpus.take() if self.gpus else None
        if self.gpus and gpu is None:
            return None
        job = queue.next()
        if job is None:
            if self.gpus and gpu is not None:
                self.gpus.give_back(gpu)
            return None
        receiver, sender = context.Pipe(duplex=False)
        environment = {**os.environ, **({VISIBLE: gpu} if gpu else {})}
        others = self.gpus.counter(gpu) if self.gpus and gpu else None
        process = context.Process(target=_work, args=(job, sender, environment, others), name=job.name)
        process.start()
        sender.close()
        running.append(_Running(job, process, receiver, gpu))
        return running[-1]

    def _free(self, one: _Running) -> None:
        if self.gpus and one.gpu is not None:
            self.gpus.give_back(one.gpu)

    def _with_fewer(self, one: _Running, heard: Event) -> Event:
        """A cell ran out of memory beside others: from now on fewer share its GPU. The event says how many."""
        assert self.gpus
        assert one.gpu
        others = heard.result
        most = self.gpus.shrink(one.gpu, others)
        return replace(
            heard,
            error=f"ran out of memory beside {counted(others, 'other')} on GPU {self.gpus.number(one.gpu)}: it starts again, with at "
            f"most {most} on that GPU from now on",
        )


def start_fork_server(preload: Sequence[str], reads: Sequence[SharedRead] = ()) -> None:
    """Starts the fork server of this process and returns at once, while it imports and reads. One that runs stays as it is.

    preload: modules; one that is not installed is passed over. reads: what its cells find read (`rmlab.launchers.warmup`).
    """
    for name, value in AT_ITS_START.items():
        os.environ.setdefault(name, value)
    multiprocessing.set_forkserver_preload([MODULE])
    resource_tracker.ensure_running()  # it would take back what is blocked here
    # The server hears no signal that a terminal or a scheduler sends to the whole group, and its cells none before they want to.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        with warm_up_environment([*preload, __name__], reads):
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def local_launcher(config: "DictConfig", workers: int | None = None, cells_per_gpu: int = 1) -> LocalLauncher:
    """For cells of a configuration. workers: None = as many as the GPUs hold where cells use them, else as the cores hold.

    cells_per_gpu: small cells leave a card idle; so many share one, and its memory. A cell that several GPUs train has all of them,
    and goes alone. Raises UsageError where it is below 1.
    """
    from omegaconf import OmegaConf

    device = OmegaConf.select(config, "runtime.device") or "cpu"
    names = visible_gpus() if device != "cpu" else []
    threads = OmegaConf.select(config, "training.threads") or 1
    if cells_per_gpu < 1:
        raise UsageError(f"cells_per_gpu={cells_per_gpu}: must be at least 1")
    if OmegaConf.select(config, "runtime.processes") not in (None, 1):
        return LocalLauncher(workers or 1)
    usual = len(names) * cells_per_gpu or (1 if device == "cuda" else max(1, usable_cores() // threads))
    return LocalLauncher(workers or usual, Gpus(names, runs_folder() / "locks", cells_per_gpu) if names else None)


def _receive(one: _Running) -> Event:
    """The next event of a process whose pipe has something; an end without a word is a failure, but for one that had to stop."""
    seconds = time.monotonic() - one.began
    try:
        kind, content = one.pipe.recv()
    except (EOFError, OSError):
        one.process.join()
        one.pipe.close()
        state: State = "stopped" if one.process.exitcode == EXIT_CODE else "failed"
        return Event(one.job, state, error=how_it_ended(one.process.exitcode), seconds=seconds)
    if kind == "beat":
        return Event(one.job, "progress", beat=content, seconds=seconds)
    one.process.join(PATIENCE_SECONDS)  # interpreter shutdown; its work is done
    if one.process.is_alive():
        one.process.kill()
        one.process.join()
    one.pipe.close()
    return event(one.job, (kind, content), seconds)


def how_it_ended(exit_code: int | None) -> str:
    """In words, for a process that said nothing itself."""
    if exit_code == -signal.SIGKILL:
        return "the process was killed (signal 9): out of memory, or by hand"
    if exit_code == EXIT_CODE:
        return "the process lost the lease on its cell, without details (the store was unreachable, or the process was suspended)"
    if exit_code is not None and exit_code < 0:
        return f"the process ended by signal {-exit_code} ({signal.Signals(-exit_code).name})"
    return f"the process ended with exit code {exit_code} before its work was done"


def _end(running: Sequence[_Running]) -> None:
    with all_end([one.process for one in running]):
        if running:
            who = counted(len(running), "cell") if running[0].job.planned else running[0].job.name
            print(f"\nWaiting for {who} to stop. Press Ctrl-C again to end them at once.", file=sys.stderr, flush=True)
        for one in running:
            one.process.terminate()
    for one in running:
        one.pipe.close()


@contextmanager
def all_end(processes: Sequence[ForkServerProcess]) -> Iterator[None]:
    """The block asks processes to end; then all have ended: what has not after PATIENCE_SECONDS, or when Ctrl-C comes, is killed."""
    try:
        yield
        deadline = time.monotonic() + PATIENCE_SECONDS
        for process in processes:
            process.join(max(deadline - time.monotonic(), 0.0))
    finally:
        with uncut():
            for process in processes:
                process.kill()
                process.join()


def _work(job: Job, pipe: Connection, environment: dict[str, str], others: Callable[[], int] | None) -> None:
    """The process of a job: everything it prints goes to its log, everything it has to say through the pipe.

    environment: of the process that asked, and the GPU; the fork server's own is as old as its start. CUDA reads it when it is
    first used, which is later than this. others: how many other cells have that GPU.
    """
    die_with_parent()
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    job.log.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    report_to(lambda beat: pipe.send(("beat", beat)))
    if others is not None:
        shared_with(others)
    try:
        end_on_sigterm(once=True)  # a scheduler sends it to the whole group, and then the parent does
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        pipe.send(answer(job))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGTERM)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def die_with_parent() -> None:
    """Ends this process when the fork server or the process that asked for it is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    if sys.platform == "linux":  # works while native code holds the interpreter, too
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
