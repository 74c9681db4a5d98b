"""One run on several GPUs: its processes (ranks) are started here, and end together.

The process that was asked for the run starts one rank per GPU and waits. Rank 0 does everything that a single run does; its result,
progress and errors come back through a pipe. Ctrl-C goes to rank 0, which ends the training after a step, with a checkpoint.
If a rank is killed or fails, all are ended, and the error is reported once.

On Slurm one task per node does so for the GPUs of its node: `srun --ntasks-per-node=1 rmlab train runtime=multi_gpu`. Node 0 tracks.
"""

import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from rmlab.errors import RmlabError, UsageError
from rmlab.launchers.gpus import visible_gpus
from rmlab.launchers.local import ENDING, all_end, die_with_parent, how_it_ended, start_fork_server
from rmlab.progress import is_quiet, is_verbose, listener, report_to, set_verbosity
from rmlab.stopping import INTERRUPTS, end_at_once, end_on_sigterm, uncut
from rmlab.training.config import SeveralGpusRuntimeConfig
from rmlab.training.ranks import STARTED, is_of_connection, started_ranks

LATER_SECONDS = 2.0
"""After a rank has failed: whether another one says better what was wrong."""


@dataclass(frozen=True)
class Nodes:
    """The machines of a run. number: of them. index: of this one, from 0. address: of the first. port: where the ranks meet there."""

    number: int = 1
    index: int = 0
    address: str = "127.0.0.1"
    port: int = 0

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> "Nodes":
        """Of a step of Slurm with one task a node; else this machine alone. Raises UsageError where a node has several tasks."""
        number = int(environment.get("SLURM_STEP_NUM_NODES", 1))
        if number == 1:
            return cls()
        if (tasks := int(environment.get("SLURM_STEP_NUM_TASKS", number))) != number:
            raise UsageError(
                f"runtime.processes: srun started {tasks} tasks on {number} nodes. Start one per node "
                "(--ntasks-per-node=1): each starts a process for every GPU of its node."
            )
        shown = subprocess.run(
            ["scontrol", "show", "hostnames", environment["SLURM_STEP_NODELIST"]], capture_output=True, text=True
        )
        if shown.returncode or not shown.stdout.split():
            raise RmlabError(f"scontrol does not say which nodes the job has: {shown.stderr.strip() or 'no answer'}")
        port = 20000 + int(re.sub(r"\D", "", environment["SLURM_JOB_ID"]) or 0) % 20000
        return cls(number, int(environment["SLURM_NODEID"]), shown.stdout.split()[0], port)


def ranks_to_start(runtime: SeveralGpusRuntimeConfig) -> int:
    """How many ranks this machine is to start for a run; 0 = none: this process does it, or is a rank itself.

    Raises UsageError where there are fewer GPUs.
    """
    if started_ranks() > 1 or runtime.processes == 1:
        return 0
    gpus = (len(visible_gpus()) or _gpus_of_torch()) if runtime.device != "cpu" else 0
    if gpus and runtime.processes > gpus:
        raise UsageError(
            f"runtime.processes={runtime.processes}: {gpus} GPUs are visible here. Lower it, or set it to 0 to use all of them."
        )
    number = runtime.processes or max(gpus, 1)
    return number if number > 1 or Nodes.of_environment().number > 1 else 0


@dataclass
class _Rank:
    index: int
    process: ForkServerProcess
    pipe: Connection


def run_ranks(
    work: Callable[[], Any], number: int, log: Path, preload: Sequence[str], nodes: Nodes | None = None
) -> Any:
    """What `work` gives on rank 0; it is called on all ranks. number: of ranks on each node. preload: modules it needs.

    Ends all ranks and raises the error of the one that failed, RmlabError where one ended without a word, KeyboardInterrupt after Ctrl-C.
    log: takes what ranks beside rank 0 print.
    """
    nodes = nodes or Nodes.of_environment()
    context = multiprocessing.get_context("forkserver")
    start_fork_server(preload)
    meeting = {
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),  # accelerate warns where nobody says it
        "MASTER_ADDR": nodes.address,
        "MASTER_PORT": str(nodes.port or _free_port()),
        "WORLD_SIZE": str(number * nodes.number),
        "LOCAL_WORLD_SIZE": str(number),
        STARTED: str(number * nodes.number),
    }
    verbosity = -1 if is_quiet() else int(is_verbose())
    ranks: list[_Rank] = []
    try:
        for local in range(number):
            index = nodes.index * number + local
            receiver, sender = context.Pipe(duplex=False)
            together = {"RANK": str(index), "LOCAL_RANK": str(local), **meeting}
            environment = {**os.environ, **(together if number * nodes.number > 1 else {})}
            process = context.Process(
                target=_work, args=(work, log, index, sender, environment, verbosity, listener() is not None)
            )
            with uncut():
                process.start()
                ranks.append(_Rank(index, process, receiver))
            sender.close()
        with _passes_on_interrupt(ranks[0]):
            result = _result(ranks, log)
    except BaseException:
        _end(ranks, failed=True)
        raise
    _end(ranks, failed=False)
    return result


def _result(ranks: Sequence[_Rank], log: Path) -> Any:
    """Waits for all; what the first of them (on node 0 it is rank 0) gave."""
    result: Any = None
    running = {rank.pipe: rank for rank in ranks}
    while running:
        for pipe in wait(list(running)):
            assert isinstance(pipe, Connection)
            rank = running[pipe]
            kind, content = _received(rank)
            if kind == "beat":
                if (tell := listener()) is not None:
                    tell(content)
                continue
            del running[pipe]
            if kind == "result":
                result = content if rank is ranks[0] else result
                continue
            raise _worst(rank, kind, content, running, log)
    return result


def _worst(rank: _Rank, kind: str, content: Any, running: Mapping[Connection, _Rank], log: Path) -> BaseException:
    """The error of a run whose rank failed: what another one reports at the same time may be the cause of it."""
    reports = [(rank, kind, content)]
    deadline = time.monotonic() + LATER_SECONDS
    open_pipes = dict(running)
    while open_pipes and (ready := wait(list(open_pipes), timeout=max(deadline - time.monotonic(), 0))):
        for pipe in ready:
            assert isinstance(pipe, Connection)
            another = open_pipes[pipe]
            kind, content = _received(another)
            if kind != "beat":
                del open_pipes[pipe]
                reports.append((another, kind, content))
    order = ("interrupted", "killed", "error", "failed", "cut off", "result")
    rank, kind, content = min(reports, key=lambda one: (order.index(one[1]), one[0].index))
    if kind == "interrupted":
        return KeyboardInterrupt()
    if kind == "error":
        assert isinstance(content, BaseException)
        return content
    if kind in ("failed", "cut off"):
        content, trace = content
        print(trace, file=sys.stderr, flush=True)
    beside = f" What the other ranks printed is in {log}." if log.is_file() else ""
    return RmlabError(
        f"rank {rank.index}: {content}. All ranks were ended; the same command continues from the last checkpoint.{beside}"
    )


def _received(rank: _Rank) -> tuple[str, Any]:
    """(beat, result, error, failed, cut off, interrupted or killed; what belongs to it)."""
    try:
        kind, content = rank.pipe.recv()
    except (EOFError, OSError):
        rank.process.join()
        return "killed", how_it_ended(rank.process.exitcode)
    return str(kind), content


@contextmanager
def _passes_on_interrupt(rank: _Rank) -> Iterator[None]:
    """Ctrl-C, and SIGTERM where it is the same, reach this process alone (ranks have a session of their own) and go to one rank, which
    decides."""
    here = threading.current_thread() is threading.main_thread()
    found = {number: signal.getsignal(number) for number in ENDING if here}
    mine = {number: handler for number, handler in found.items() if handler in INTERRUPTS}

    def pass_on(number: int, frame: object) -> None:
        if rank.process.is_alive() and rank.process.pid:
            os.kill(rank.process.pid, signal.SIGINT)

    for number in mine:
        signal.signal(number, pass_on)
    try:
        yield
    finally:
        for number, handler in mine.items():
            signal.signal(number, handler)


def _end(ranks: Sequence[_Rank], failed: bool) -> None:
    """Rank 0 has a moment to record what became of the run; where one failed the others only wait for it."""
    with all_end([rank.process for rank in ranks]):
        for rank in ranks:
            if failed:
                (rank.process.terminate if rank.index == 0 else rank.process.kill)()
    for rank in ranks:
        rank.pipe.close()


def _work(
    work: Callable[[], Any],
    log: Path,
    index: int,
    pipe: Connection,
    environment: dict[str, str],
    verbosity: int,
    relayed: bool,
) -> None:
    """The process of a rank."""
    die_with_parent()
    with suppress(PermissionError):
        os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN if index else signal.default_int_handler)
    end_on_sigterm(end_at_once)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    set_verbosity(verbosity)
    if index:
        log.parent.mkdir(parents=True, exist_ok=True)
        written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(written, stream.fileno())
    elif relayed:
        report_to(lambda beat: pipe.send(("beat", beat)))
    report: tuple[str, Any]
    try:
        report = "result", work()
    except KeyboardInterrupt:
        report = "interrupted", None
    except RmlabError as error:
        report = "error", error
    except Exception as error:
        line = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        report = "cut off" if is_of_connection(error) else "failed", (line, traceback.format_exc())
    try:
        pipe.send(report)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _gpus_of_torch() -> int:
    """Where nobody names the GPUs and nvidia-smi is missing."""
    import torch

    return torch.cuda.device_count()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
