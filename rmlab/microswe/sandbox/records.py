"""What goes into a sandbox and what comes out: programs, limits, results; and messages between its processes (a length of 8 digits, then
JSON). Standard library only.
"""

import json
import socket
from dataclasses import dataclass
from typing import Any, Literal

from rmlab.microswe.sandbox import values

Kind = Literal["value", "raised", "timeout", "memory", "unencodable", "killed", "invalid"]


@dataclass(frozen=True)
class Limits:
    """What one program may use. Whatever is over costs that program, never its neighbours.

    Every command runs programs under these defaults, so that none gives another label than the next. The time that counts is
    the processor's, which other work on the machine does not use up; the clock on the wall ends what waits or sleeps.

    call_seconds, program_seconds: processor time of one call, or of loading the module, and of all of a program.
    patience: how many times as long either may take by the clock on the wall. A machine with that many times the work it has
    processors for is the only one where the clock ends what computes.
    timeouts: after so many calls that ran out of time, the program's other calls are not run and count as the same.
    batch_seconds: wall clock from when a program is handed over, with all others of its batch or by itself, until it has
    ended, the time it waits for a worker included. None = without end; for `Sandbox.run` what its programs may use in sum,
    and 10 s.
    memory_mb: address space above what the bare process has. file_kb: the longest file it may write.
    output_chars: the longest encoded value. descriptors: open files.
    """

    call_seconds: float = 1.0
    program_seconds: float = 8.0
    patience: float = 10.0
    timeouts: int = 1
    batch_seconds: float | None = None
    memory_mb: int = 512
    file_kb: int = 1024
    output_chars: int = values.CHARS
    descriptors: int = 16

    @property
    def longest_program(self) -> float:
        """Seconds on the wall after which a program is ended, whatever it does."""
        return self.program_seconds * self.patience


@dataclass(frozen=True)
class Program:
    """One function to call.

    context: imports and helpers, executed first. code: the function's text, executed after it in the same module.
    entry: name of the function. inputs: Python source of argument tuples, e.g. "([1, 2], 3)".

    Every call has a fresh module and freshly evaluated arguments, `random.seed(0)`, and string hashes of seed 0. The calls
    of one program share a process, unless one ends it: what a call changes in an imported module, the next one finds. What
    a program leaves, no other program finds, but for files at the level `limits`. An input sees the names of the context,
    and nan, inf, Fraction, Decimal, deque, Counter, OrderedDict and defaultdict. Expected outputs have no place here: they
    never go to where the program runs.

    without: a function of the standard library, as module.name, that is not there for this program ("" for none, and no
    matter where its module cannot be imported): the one that a task is about.
    """

    context: str
    code: str
    entry: str
    inputs: tuple[str, ...]
    without: str = ""


@dataclass(frozen=True)
class Result:
    """How one call ended. value: the encoded value, the exception's class name, or what is known about the end."""

    kind: Kind
    value: str = ""

    @property
    def encoded(self) -> str | None:
        """The output in the encoding of `rmlab.microswe.sandbox.values`; None where the call neither returned nor raised."""
        if self.kind == "value":
            return self.value
        return values.raised(self.value) if self.kind == "raised" else None

    def matches(self, expected: str) -> bool:
        """Whether the call gave the expected encoded output, by type and value."""
        encoded = self.encoded
        return encoded is not None and values.same(encoded, expected)

    def show(self, limit: int = 120) -> str:
        """What an agent is shown: `7`, `raised TypeError`, `no value (timeout)`."""
        encoded = self.encoded
        return f"no value ({self.kind})" if encoded is None else values.show(encoded, limit)


@dataclass(frozen=True)
class Outcome:
    """How one program ended: one result per input, in order.

    error: why it could not be called at all ("SyntaxError: line 2: ...", "no function `f`"); its results are then all
    of the kind "invalid" (or "timeout", "memory", "killed" where loading it ended so). None otherwise.
    broken: the sandbox failed, not the program (its worker was lost twice, or the batch's time was over before it ran):
    such an outcome says nothing about the program and is no ground for a label.
    """

    results: tuple[Result, ...]
    error: str | None = None
    broken: bool = False

    def passed(self, expected: tuple[str, ...]) -> bool:
        """Whether every call gave its expected encoded output."""
        return len(expected) == len(self.results) and all(
            r.matches(e) for r, e in zip(self.results, expected, strict=True)
        )


LONGEST = 99_999_999


def send(channel: socket.socket, message: Any) -> None:
    """Writes one message. Raises ValueError if it is longer than 8 digits can say."""
    body = json.dumps(message).encode("ascii")
    if len(body) > LONGEST:
        raise ValueError(f"a message of {len(body):,} bytes: at most {LONGEST:,}")
    channel.sendall(b"%08d" % len(body) + body)


def receive(channel: socket.socket) -> Any:
    """Reads one message; None at the end of the stream."""
    head = _exactly(channel, 8)
    body = _exactly(channel, int(head)) if head else b""
    return json.loads(body) if body else None


def _exactly(channel: socket.socket, size: int) -> bytes:
    """`size` bytes, or none where the stream ended before."""
    pieces: list[bytes] = []
    while size:
        piece = channel.recv(min(size, 1 << 20))
        if not piece:
            return b""
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
