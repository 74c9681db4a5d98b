"""A request that the work of this process ends at its next safe point: it may not or cannot go on, or somebody pressed Ctrl-C.

Who finds the reason asks (the keeper of a lease, the handler of Ctrl-C); a training looks after every step, writes its
checkpoint and raises what `stop_asked` gives it.
"""

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rmlab.errors import RmlabError, StoreOutOfReach

EXIT_CODE = 75
"""Of a process that had to end before its work was done and could not say why (EX_TEMPFAIL of sysexits.h)."""


class Stopped(RmlabError):
    """The work had to end before it was done, through no fault of its own: the same command goes on with it."""


FULL = ("no space left on device", "disk quota exceeded", "not enough free space to write", "disk is full")
"""A full disk in the words of the system (and so of writers in Rust and C++), of NumPy, which gives no number, and of SQLite."""


def is_full(error: BaseException) -> bool:
    """Whether an error says that a disk, or a quota on it, is full."""
    numbered = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return numbered or any(words in str(error).lower() for words in FULL)


def is_stop(error: BaseException) -> bool:
    """Whether an error is no fault of the work that it ended: a lost lease, a store out of reach, a full disk."""
    if isinstance(error, Stopped | StoreOutOfReach) or is_full(error):
        return True
    behind = error.__cause__ or error.__context__
    return behind is not None and is_stop(behind)


_reason: str | None = None
_interrupted = False


def ask_to_stop(reason: str | None) -> None:
    """From now on the work is to end because of `reason`; None takes the request back (never that of Ctrl-C)."""
    global _reason
    _reason = reason


def stop_asked() -> Stopped | KeyboardInterrupt | None:
    """What the work is to end with at its next safe point, None = it goes on."""
    if _interrupted:
        return KeyboardInterrupt()
    return None if _reason is None else Stopped(_reason)


@contextmanager
def interrupt_asks_to_stop() -> Iterator[None]:
    """Within it Ctrl-C waits for the next safe point, so that what is kept then is whole; a second one ends the work at once."""

    def note(number: int, frame: object) -> None:
        global _interrupted
        if _interrupted:
            raise KeyboardInterrupt
        _interrupted = True
        with suppress(OSError):  # print is not safe in a handler: it may have been interrupted itself
            os.write(2, b"\nStopping after this step. Ctrl-C again stops at once and loses it.\n")

    # Only the main thread may listen; a process that ignores Ctrl-C (in the background, a cell of a sweep) goes on doing so.
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    global _interrupted
    signal.signal(signal.SIGINT, note)
    try:
        yield
        if _interrupted:  # behind the last safe point: the work that follows is not begun
            raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _interrupted = False


@contextmanager
def says_how_to_go_on(command: str) -> Iterator[None]:
    """Where Ctrl-C ends the block, `command` is printed as what goes on from the last checkpoint."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"\nStopped. Go on from the last checkpoint with: {command}", file=sys.stderr)
        raise
