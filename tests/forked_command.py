"""`rmlab ...` as a process of its own that has imported everything already: to be killed and interrupted, many times, in a few seconds.

A process that is started anew imports torch, transformers and MLflow first, which takes several times as long as what tests have it do.
This one is forked from the fork server of the tests, as the cells of a sweep are. It is used as a `subprocess.Popen`.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import ClassVar

import psutil

from rmlab.configuration import load_program
from rmlab.launchers import local


def start_warm_fork_server() -> None:
    """Unless this process has one already: with what verifiers need, which is all that a toy needs too, and stores that
    wait for no disk."""
    local.start_fork_server([*load_program("train_verifier").PRELOAD, "tests.unsynced"])


class ForkedCommand:
    """A command under way, in a session of its own. Its ranks, where it has any, are forked from the same server.

    environment: beside this process's. log: takes its output and its errors, after what it holds. work: what is done with the
    arguments, a function that its process can import; None = the command.
    """

    _pids: ClassVar[set[int]] = set()

    def __init__(
        self,
        *arguments: str | Path,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
        work: Callable[..., None] | None = None,
    ) -> None:
        start_warm_fork_server()
        self._folder = tempfile.TemporaryDirectory(prefix="rmlab-command-")
        self._said = [log or Path(self._folder.name) / name for name in ("out", "err")]
        self._process = multiprocessing.get_context("forkserver").Process(
            target=_work,
            args=(
                [str(word) for word in arguments],
                {**os.environ, **(environment or {})},
                str(Path.cwd()),
                [str(path) for path in self._said],
                work,
                forkserver._forkserver._forkserver_address,  # type: ignore[attr-defined]
            ),
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self._pids.add(self.pid)

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def family(self) -> list[psutil.Process]:
        """What was forked from the server and is no command, the first one first: its ranks or cells, where no other command has any."""
        found = [one for one in psutil.Process(self.pid).parent().children() if one.pid not in self._pids]
        return sorted(found, key=lambda one: one.create_time())

    def kill_all(self) -> None:
        """Kills it and its family at once, as a machine that goes down does."""
        family = self.family()
        self.kill()
        for one in family:
            with suppress(psutil.NoSuchProcess):
                one.kill()

    def said(self) -> str:
        """Its errors so far."""
        return self._said[-1].read_text() if self._said[-1].exists() else ""

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        assert self.returncode is not None, f"it did not end within {timeout:.0f} s"
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Its output and its errors, when it has ended."""
        self.wait(timeout)
        out, err = (path.read_text() for path in self._said)
        return out, err


def _work(
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    said: list[str],
    work: Callable[..., None] | None,
    server: str,
) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for stream, path in zip((sys.stdout, sys.stderr), said, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), stream.fileno())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, local.ENDING)
    own = forkserver._forkserver  # type: ignore[attr-defined]  # what it forks comes from the tests' server, too
    own._forkserver_address, own.ensure_running = server, lambda: None
    forkserver.ensure_running = own.ensure_running
    local.PATIENCE_SECONDS = 900.0  # its cells say how they end on a slow machine too
    sys.argv = ["rmlab", *arguments]
    from rmlab.__main__ import main

    try:
        if work is None:
            main()
        else:
            work(*arguments)
    finally:  # as at the end of a Python that was started anew: joblib ends its workers here, else they are waited for until they are idle
        threading._shutdown()  # type: ignore[attr-defined]
