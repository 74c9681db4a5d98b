"""A worker process as its parent holds it: start it, hand it a program, take the answer, end it."""

import errno
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from rmlab.errors import RmlabError
from rmlab.microswe.sandbox.isolation import IsolationLevel
from rmlab.microswe.sandbox.records import Limits, receive, send
from rmlab.paths import REPOSITORY

START_SECONDS = 60.0
END_SECONDS = 2.0  # to end by itself, with all that it started
ANSWER_SECONDS = 5.0  # to take or give one whole message
_CODE = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from rmlab.microswe.sandbox.worker import main; main()"


class LevelRefused(Exception):
    """This machine does not allow the level; the message says which step it refused."""


class Worker:
    """One worker process, and the socket to it: a fresh interpreter, nothing of the parent's in it but that socket.

    words: what it said to standard error, once it has ended: empty, or the traceback of a fault of its own.
    """

    words = ""

    def __init__(self, level: str, limits: Limits) -> None:
        options = json.dumps({"level": level, "limits": asdict(limits)})
        try:
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
        except OSError as error:
            advice = (
                "raise `ulimit -n`, or use fewer workers" if error.errno == errno.EMFILE else "`rmlab doctor` says more"
            )
            raise RmlabError(f"A sandbox worker cannot be started: {error.strerror}; {advice}.") from error

    def wait_until_ready(self) -> IsolationLevel:
        """What isolation it reached. Raises LevelRefused; RmlabError where it ended for another reason."""
        self.channel.settimeout(START_SECONDS)
        try:
            report = receive(self.channel)
        except (OSError, ValueError):
            report = None
        if report is None:
            self.close()
            raise RmlabError(
                f"A sandbox worker did not start: {self.last_word or 'it said nothing'}. "
                "`rmlab doctor` shows what this machine allows."
            )
        if "refused" in report:
            raise LevelRefused(report["refused"])
        fields = report["level"]
        return IsolationLevel(**{**fields, "namespaces": tuple(fields["namespaces"])})

    def send(self, message: dict[str, Any]) -> None:
        """Hands it a program. Raises OSError where it is gone or does not listen."""
        self.channel.settimeout(ANSWER_SECONDS)
        send(self.channel, message)

    def receive(self) -> dict[str, Any] | None:
        """Its answer; None where it is gone or stuck in the middle of it."""
        self.channel.settimeout(ANSWER_SECONDS)
        try:
            message = receive(self.channel)
        except (OSError, ValueError):
            return None
        return None if message is None else dict(message)

    def hang_up(self) -> None:
        """Tells it to end, without waiting."""
        self.channel.close()

    def close(self) -> None:
        """Ends it and waits; its zygote, and any program, end with it."""
        self.hang_up()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with suppress(
            ChildProcessError
        ):  # the first process of a container inherits, and reaps, the zygote of one that was killed
            os.waitpid(-self.process.pid, 0)
        if self.process.stderr is not None and not self.process.stderr.closed:
            with self.process.stderr as stream:
                self.words = stream.read().decode(errors="replace").strip()

    @property
    def last_word(self) -> str:
        """The last line of `words`: of a traceback, the error."""
        return self.words.rpartition("\n")[2]
