"""One process a job, W at once: nothing of one run (memory, seeds, threads) is left for the next.

The processes are forked from a fork server that has imported the heavy modules once and has done nothing else: no CUDA, no
thread of its own. They end when the parent ends, also when it is killed with -9.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Literal

from rmlab.errors import RmlabError
from rmlab.locks import exclusive
from rmlab.progress import Beat, report_to

HEAVY = [
    "torch",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.models.auto.modeling_auto",
    "accelerate",
    "safetensors.torch",
    "rmlab.tracking.preload",
    "scipy.stats",
    "sklearn.isotonic",
    "sklearn.linear_model",
    "hydra",
]
"""What a program needs that does not say otherwise (`PRELOAD`); a module that is not installed is passed over."""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""OpenBLAS starts its threads when it is imported; they would not live on in the forked processes."""

PATIENCE_SECONDS = 10.0
State = Literal["started", "progress", "finished", "failed"]


@dataclass(frozen=True)
class Job:
    """A function of a program, run on some configurations in a process of its own.

    name: shown. program, function: what runs; it gets one configuration, or the list of them where `many`. configs: plain
    containers of resolved configurations. lock: held while it runs. log: file that takes what it prints. planned: config_hash
    that its configuration had when the sweep was planned; it must have it still when it runs.
    """

    name: str
    program: str
    function: str
    configs: tuple[dict[str, Any], ...]
    log: Path
    lock: Path | None = None
    many: bool = False
    planned: str | None = None


@dataclass(frozen=True)
class Event:
    """What became of a job. beat: with `progress`. error, trace: with `failed` (trace "" where one line says it all)."""

    job: Job
    state: State
    beat: Beat | None = None
    error: str = ""
    trace: str = ""
    exit_code: int = 1
    result: Any = None
    seconds: float = 0.0


@dataclass
class _Running:
    job: Job
    process: ForkServerProcess
    pipe: Connection
    began: float = field(default_factory=time.monotonic)
    last: Event | None = None


def run_jobs(jobs: Sequence[Job], workers: int, may_start: Callable[[], bool] = lambda: True,
             preload: Sequence[str] = HEAVY, tick_seconds: float = 0.5) -> Iterator[Event | None]:
    """Runs jobs in their order, at most `workers` at once, and yields what happens (None at every quiet tick).

    preload: modules that the fork server imports when it starts (with the first job of this process). may_start: asked before
    each start; once it says no, what runs is awaited and nothing new begins. When the generator is closed or an exception
    passes through it (Ctrl-C), the running processes are ended: asked first, then killed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*preload, __name__])
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
    waiting, running = list(jobs), list[_Running]()
    try:
        while running or (waiting and may_start()):
            while waiting and len(running) < workers and may_start():
                job = waiting.pop(0)
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(job, sender, dict(os.environ)), name=job.name)
                process.start()
                sender.close()
                running.append(_Running(job, process, receiver))
                yield Event(job, "started")
            ready = wait([r.pipe for r in running], timeout=tick_seconds)
            for one in [r for r in running if r.pipe in ready]:
                event = _receive(one)
                if event is not None:
                    if event.state != "progress":
                        running.remove(one)
                    yield event
            if not ready:
                yield None
    finally:
        _end(running)


def _receive(one: _Running) -> Event | None:
    """The next event of a process whose pipe has something; an end without a word is a failure."""
    seconds = time.monotonic() - one.began
    try:
        kind, content = one.pipe.recv()
    except (EOFError, OSError):
        one.process.join()
        one.pipe.close()
        return Event(one.job, "failed", error=_how_it_ended(one.process.exitcode), seconds=seconds)
    if kind == "beat":
        return Event(one.job, "progress", beat=content, seconds=seconds)
    one.process.join(PATIENCE_SECONDS)  # interpreter shutdown; its work is done
    if one.process.is_alive():
        one.process.kill()
        one.process.join()
    one.pipe.close()
    if kind == "result":
        return Event(one.job, "finished", result=content, seconds=seconds)
    error, trace, exit_code = content
    return Event(one.job, "failed", error=error, trace=trace, exit_code=exit_code, seconds=seconds)


def _how_it_ended(exit_code: int | None) -> str:
    if exit_code == -signal.SIGKILL:
        return "the process was killed (signal 9): out of memory, or by hand"
    if exit_code is not None and exit_code < 0:
        return f"the process ended by signal {-exit_code} ({signal.Signals(-exit_code).name})"
    return f"the process ended with exit code {exit_code} before its work was done"


def _end(running: Sequence[_Running]) -> None:
    for one in running:
        one.process.terminate()
    deadline = time.monotonic() + PATIENCE_SECONDS
    for one in running:
        one.process.join(max(0.0, deadline - time.monotonic()))
        if one.process.is_alive():
            one.process.kill()
            one.process.join()
        one.pipe.close()


def _work(job: Job, pipe: Connection, environment: dict[str, str]) -> None:
    """The process of a job: everything it prints goes to its log, everything it has to say through the pipe.

    environment: of the process that asked; the fork server's own is as old as its start.
    """
    _die_with_parent()
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, _stop)
    job.log.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    report_to(lambda beat: pipe.send(("beat", beat)))
    try:
        if job.lock is None:
            result = _call(job)
        else:
            with exclusive(job.lock, job.name, PATIENCE_SECONDS):
                result = _call(job)
        pipe.send(("result", result))
    except RmlabError as error:
        traceback.print_exc()
        pipe.send(("failed", (str(error), "", error.exit_code)))
    except Exception as error:
        trace = traceback.format_exc()
        print(trace, file=sys.stderr)
        pipe.send(("failed", (f"{type(error).__name__}: {error}", trace, 1)))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _call(job: Job) -> Any:
    from rmlab.configuration import load_program, restore

    program = load_program(job.program)
    function = getattr(program, job.function)
    configs = [restore(job.program, plain) for plain in job.configs]
    if job.planned is not None:
        now = program.identity(configs[0]).config_hash
        if now != job.planned:
            raise RmlabError(f"{job.name} is now another run ({now}) than when the sweep was planned ({job.planned}): "
                             "code or data changed since. Give the command again; finished cells of this state stay finished.")
    return function(configs) if job.many else function(*configs)


def _stop(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _die_with_parent() -> None:
    """Ends this process when the fork server or the process that asked for it is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    if sys.platform == "linux":  # works while native code holds the interpreter, too
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
