"""The worker process: takes programs from the parent, has each run in a process of its own, watches its time.

Started as a fresh interpreter with an empty environment, so that it is light and holds nothing of the parent's. It never
runs a program itself; it reads what a program's process writes, bounds it, checks its form and passes it on.
"""

import json
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Any

from rmlab.microswe.sandbox import isolation, values
from rmlab.microswe.sandbox.records import Limits, receive, send
from rmlab.microswe.sandbox.zygote import END, FORK, OUT_OF_MEMORY, SECONDS, STATUS, TIME

_KINDS = {"V": "value", "R": "raised", "U": "unencodable", "M": "memory"}
ORPHAN_SECONDS = 1.0  # how often a worker looks whether its parent is still there
LOOK_SECONDS = 0.05  # a call that takes longer has its processor time looked at, counted from this first look


class ParentGone(Exception):
    """Nobody waits for an answer any more."""


class _Parent:
    """The process this worker works for: gone when its socket closes, or (a fork of it may hold that) its id changes."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel, self.pid = channel, os.getppid()

    def wait_for(self, channel: socket.socket | None, seconds: float) -> None:
        """Waits until there is something to read from the channel (None: from the parent), at most so long.

        Raises TimeoutError, or ParentGone where a program runs for a parent that has left.
        """
        end = time.monotonic() + seconds
        channels = [self.channel] if channel is None else [channel, self.channel]
        while True:
            ready, _, _ = select.select(channels, [], [], min(max(end - time.monotonic(), 0), ORPHAN_SECONDS))
            if os.getppid() != self.pid or (channel is not None and self.channel in ready):
                raise ParentGone
            if ready:
                return
            if time.monotonic() >= end:
                raise TimeoutError


class _Ended(Exception):
    """The program's process ended, or had to be ended, before its next result."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind, detail)
        self.kind, self.detail = kind, detail


class Supervisor:
    """Runs programs one after another through the zygote on the other end of `control`."""

    def __init__(self, control: socket.socket, parent: _Parent, limits: Limits) -> None:
        self.control, self.parent, self.limits = control, parent, limits

    def run(self, program: dict[str, Any]) -> dict[str, Any]:
        """All results of one program. A call that ends its process costs itself: the rest go on in a new one."""
        inputs: list[str] = program["inputs"]
        results: list[tuple[str, str]] = []
        time_of = _Time(self.control, self.limits)
        while True:
            kind, error = self._run_process({**program, "inputs": inputs[len(results) :]}, results, time_of)
            missing = len(inputs) - len(results)
            if error is not None:
                return {"error": None if results else error, "results": results + [(kind, error)] * missing}
            if not missing:
                return {"error": None, "results": results}
            if time_of.over() or [kind for kind, _ in results].count("timeout") >= self.limits.timeouts:
                return {"error": None, "results": results + [("timeout", "not run")] * missing}

    def _run_process(
        self, message: dict[str, Any], results: list[tuple[str, str]], time_of: "_Time"
    ) -> tuple[str, str | None]:
        """Appends the results of one process; the kind of its end, and why the program could not be loaded, if so."""
        ours, theirs = socket.socketpair()
        with ours:
            socket.send_fds(self.control, [FORK], [theirs.fileno()])
            theirs.close()
            lines = _Lines(ours, self.parent, self.limits, time_of)
            loaded = False
            try:
                lines.send(message)
                kind, text = lines.next()
                if kind == "E":
                    return "memory" if text == "MemoryError" else "invalid", text[:200]
                if kind != "L":
                    raise _Ended("invalid", "not a result")
                loaded = True
                for _ in message["inputs"]:
                    results.append(_checked(*lines.next()))
                ended = _Ended("value")
            except _Ended as early:
                ended = early
            finally:
                status = time_of.end()
        if ended.kind == "killed":
            ended = _why(status)
        if not loaded:
            return ended.kind, f"{ended.kind} while the program was loaded"
        if ended.kind != "value":
            results.append((ended.kind, ended.detail))
        return ended.kind, None


class _Time:
    """What a program has used of its time: the processor's by the zygote's word, and the clock's on the wall."""

    def __init__(self, control: socket.socket, limits: Limits) -> None:
        self.control, self.limits = control, limits
        self.deadline = time.monotonic() + limits.longest_program
        self.before = 0.0  # processor time of the program's processes that have ended
        self.begin()

    def begin(self) -> None:
        """A call, or the loading of a module, begins."""
        now = time.monotonic()
        self.end_of_call = min(now + self.limits.call_seconds * self.limits.patience, self.deadline)
        self.next_look = min(now + LOOK_SECONDS, self.end_of_call)
        self.used_before: float | None = None

    def look(self) -> None:
        """Raises _Ended where the call or the program is over its time; says when to look again (`next_look`)."""
        now = time.monotonic()
        if now < self.next_look:
            return
        (used,) = self._ask_worker(TIME, SECONDS)
        if self.used_before is None:
            self.used_before = used
        left = min(self.used_before + self.limits.call_seconds - used, self.limits.program_seconds - self.before - used)
        if left <= 0 or now >= self.end_of_call:
            raise _Ended("timeout")
        self.next_look = min(now + max(left, 0.001), self.end_of_call)  # on one processor it cannot be over any sooner

    def over(self) -> bool:
        """Whether the program has used up its time."""
        return self.before >= self.limits.program_seconds or time.monotonic() >= self.deadline

    def end(self) -> int:
        """Ends the program's process; its wait status."""
        status, used = self._ask_worker(END, STATUS)
        self.before += used
        return int(status)

    def _ask_worker(self, order: bytes, answer: struct.Struct) -> tuple[Any, ...]:
        self.control.sendall(order)
        data = self.control.recv(answer.size, socket.MSG_WAITALL)
        if len(data) < answer.size:
            raise EOFError("the zygote is gone")
        return answer.unpack(data)


class _Lines:
    """What a program's process writes, line by line, each within its time and length."""

    def __init__(self, channel: socket.socket, parent: _Parent, limits: Limits, time_of: _Time) -> None:
        self.channel, self.parent, self.limits, self.time_of = channel, parent, limits, time_of
        self.data = b""

    def send(self, message: dict[str, Any]) -> None:
        self.channel.settimeout(max(self.time_of.deadline - time.monotonic(), 0.001))
        try:
            send(self.channel, message)
        except TimeoutError:
            raise _Ended("timeout") from None
        except OSError:
            raise _Ended("killed") from None

    def next(self) -> tuple[str, str]:
        longest = self.limits.output_chars + 256
        self.time_of.begin()
        while b"\n" not in self.data and len(self.data) <= longest:
            self.time_of.look()
            try:
                self.parent.wait_for(self.channel, self.time_of.next_look - time.monotonic())
                piece = self.channel.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError:
                piece = b""
            if not piece:
                raise _Ended("killed")
            self.data += piece
        line, _, self.data = self.data.partition(b"\n")
        if len(line) > longest:
            raise _Ended("invalid", "longer than its limit")
        text = line.decode("ascii", "replace")
        return text[:1], text[1:]


def _checked(letter: str, text: str) -> tuple[str, str]:
    """A result in its form, or "invalid": a program can write what it likes into its own channel."""
    kind = _KINDS.get(letter, "invalid")
    if kind == "value":
        return (kind, text) if values.is_value(text) else ("invalid", "not an encoded value")
    if kind == "raised":
        return (kind, text) if text.isidentifier() and len(text) <= 100 else ("invalid", "not a class name")
    return kind, text[:200]


def _why(status: int) -> _Ended:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return _Ended("timeout" if number == signal.SIGXCPU else "killed", f"signal {number}")
    code = os.WEXITSTATUS(status)
    return _Ended("memory") if code == OUT_OF_MEMORY else _Ended("killed", f"exit status {code}")


def main() -> None:
    """Command line: one JSON object with `level` and `limits`; the parent's socket is descriptor 0."""
    os.environ.clear()
    options = json.loads(sys.argv[1])
    limits = Limits(**options["limits"])
    parent = _Parent(socket.socket(fileno=os.dup(0)))
    try:
        control, report = isolation.start(options["level"], limits)
    except OSError as error:
        send(parent.channel, {"refused": str(error.strerror or error)})
        return
    send(parent.channel, {"level": report})
    try:
        _serve(parent, Supervisor(control, parent, limits))
    finally:
        control.close()
        os.wait()  # the zygote, which ends with its socket


def _serve(parent: _Parent, supervisor: Supervisor) -> None:
    """Runs programs for as long as somebody waits for the answers."""
    with suppress(ParentGone):
        while True:
            with suppress(TimeoutError):
                parent.wait_for(None, ORPHAN_SECONDS)
                program = receive(parent.channel)
                if program is None:
                    return
                send(parent.channel, supervisor.run(program))
