"""A request to end the work of this process at its next safe point, because it must not or cannot continue, or because of Ctrl-C.

The code that finds the reason makes the request (the keeper of a lease, the handler of Ctrl-C); training checks after every step,
writes its checkpoint and raises the exception that `stop_asked` returns. Ctrl-C and SIGTERM cut what changes nothing that is kept
(`interrupt_stops_at_once`), however long it would go on.
"""

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from rmlab.errors import RmlabError, StoreOutOfReach

EXIT_CODE = 75
"""Of a process that had to end before its work was done and could not say why (EX_TEMPFAIL of sysexits.h)."""


class Stopped(RmlabError):
    """The work had to end early through no fault of its own; the same command continues it."""


FULL = ("no space left on device", "disk quota exceeded", "not enough free space to write", "disk is full")
"""A full disk in the words of the system (and so of writers in Rust and C++), of NumPy, which gives no number, and of SQLite."""


def is_full(error: BaseException | str) -> bool:
    """Whether an error, or what it says, is that a disk, or a quota on it, is full."""
    numbered = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return numbered or any(words in str(error).lower() for words in FULL)


def stop_behind(error: BaseException) -> BaseException | None:
    """The first of an error and what is behind it that is no fault of the work that it ended: a lost lease, a store out of reach, a
    full disk."""
    if isinstance(error, Stopped | StoreOutOfReach) or is_full(error):
        return error
    behind = error.__cause__ or error.__context__
    return None if behind is None else stop_behind(behind)


INTERRUPTED = 130
"""Exit code of a command that Ctrl-C or SIGTERM ended."""
SOON = 0.05
"""Seconds after which a signal that could not end anything where it came is raised again."""

_reason: str | None = None
_asking = False  # within `interrupt_asks_to_stop`
_uncut = 0  # blocks of `uncut`, one within another
_import_waits = False  # Ctrl-C came within an import and has not ended anything yet
_once = False  # a second SIGTERM says nothing that the first did not say
_ending = False  # SIGTERM is ending the work: it says how it ended, and tidies up
_waiting: int | None = None  # a signal that came within these and has not ended anything yet
_before: dict[int, Callable[[int, FrameType | None], Any]] = {}  # what a signal does where it does not wait


def ask_to_stop(reason: str | None) -> None:
    """From now on the work is to end because of `reason`; None takes the request back (never that of Ctrl-C)."""
    global _reason
    _reason = reason


def stop_asked() -> Stopped | KeyboardInterrupt | None:
    """What the work is to end with at its next safe point, None = it goes on."""
    if _waiting is not None:
        return KeyboardInterrupt()
    return None if _reason is None else Stopped(_reason)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handler of Ctrl-C and SIGTERM: KeyboardInterrupt, behind the end of an import that is under way; a second Ctrl-C does not wait.

    An import that is cut leaves half a module: what imports it next fails by that, and what takes it for a package that is missing
    goes on, so that the interrupt is forgotten.
    """
    global _ending, _import_waits
    if number == signal.SIGTERM and _once and _ending:
        return
    if not _is_importing(frame):
        _import_waits = False
        _ending = _ending or number == signal.SIGTERM
        raise KeyboardInterrupt
    if number == signal.SIGINT:
        if _import_waits:
            interrupted_at_once()
        _import_waits = True
    signal.setitimer(signal.ITIMER_REAL, SOON)


def interrupted_at_once(*_: object) -> None:
    """Handler of Ctrl-C while there is nothing to tidy up (a command is starting, or over), and where an exception would be a
    traceback."""
    with suppress(OSError):
        os.write(2, b"rmlab: interrupted\n")
    os._exit(INTERRUPTED)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def end_at_once(number: int, frame: object) -> None:
    """Handler of a signal that does not wait for a safe point, but for the end of what must stay uncut."""
    raise SystemExit(128 + number)


INTERRUPTS = (signal.default_int_handler, interrupt)
"""Handlers by which a signal is a KeyboardInterrupt."""


def end_on_sigterm(handler: Callable[[int, FrameType | None], Any] = interrupt, *, once: bool = False) -> None:
    """From now on SIGTERM ends this process as Ctrl-C does (or as the handler says), and neither is lost.

    What a handler raises is lost where it comes within a callback that can raise nothing (`__del__`, one of a weak reference): a
    moment later it is raised again. once: a further SIGTERM does not cut what the first one began. For a process whose parent sends
    it on when a whole group was asked to end, and kills what does not end.
    """
    global _once
    _once = once
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, handler)
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGTERM))
    show = sys.unraisablehook

    def again(lost: "sys.UnraisableHookArgs") -> None:
        global _ending
        if issubclass(lost.exc_type, KeyboardInterrupt | SystemExit):
            _ending = False
            signal.setitimer(signal.ITIMER_REAL, SOON)
        else:
            show(lost)

    sys.unraisablehook = again


def _waits(number: int) -> bool:
    """Whether a signal has to wait: for the end of `uncut`, and for a safe point where there is one. A lease that is lost ends the
    process by SIGTERM, and leaves no time for that."""
    asks = _asking and _before[number] in INTERRUPTS
    return bool(_uncut) or (asks and (_reason is None or number == signal.SIGINT))


def _hear(number: int, frame: FrameType | None) -> None:
    global _waiting
    if not _waits(number) or (_waiting is not None and number == signal.SIGINT):
        _waiting = None
        _before[number](number, frame)
        return
    _waiting = number
    if _asking and number == signal.SIGINT:
        with suppress(OSError):  # print is not safe in a handler: it may have been interrupted itself
            os.write(2, b"\nStopping after this step. Ctrl-C again stops at once and loses it.\n")


def _end_by_waiting() -> None:
    """Does what a signal that waited would have done."""
    global _waiting
    if (number := _waiting) is not None:
        _waiting = None
        _before[number](number, None)


def _listen(*handlers: object) -> dict[int, Any]:
    """From now on signals go to `_hear` that had one of these handlers; returns what they had.

    A process that ignores Ctrl-C (in the background, a cell of a sweep) goes on doing so.
    """
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    mine: dict[int, Any] = {number: handler for number, handler in found.items() if handler in handlers}
    _before.update(mine)
    for number in mine:
        signal.signal(number, _hear)
    return mine


@contextmanager
def uncut() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait for the end of the block; a second Ctrl-C does not.

    For what must not be cut in the middle, such as a request to the store: what it leaves half done would hold the store's lock for
    as long as its traceback lives, so that neither this process nor another one could say how its run ended.
    """
    global _uncut
    if threading.current_thread() is not threading.main_thread():  # no other one hears signals
        yield
        return
    _uncut += 1  # first and last: a signal that comes between these lines ends nothing, or finds nothing half done
    try:
        before = _listen(*INTERRUPTS, end_at_once)
        yield
    finally:
        _uncut -= 1
        if not _uncut:
            for number, handler in before.items():
                signal.signal(number, handler)
            if _waiting is not None and not _waits(_waiting):
                _end_by_waiting()


@contextmanager
def interrupt_asks_to_stop() -> Iterator[None]:
    """Within it Ctrl-C and SIGTERM wait for the next safe point, so that what is kept then is whole; a second Ctrl-C ends the work at
    once."""
    global _asking, _ending, _waiting
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}
    try:
        _asking = True
        before = _listen(*INTERRUPTS)
        yield
    except BaseException:
        _ending = _ending or _waiting == signal.SIGTERM
        _waiting = None  # what ends the work is under way
        raise
    finally:
        _asking = False
        for number, handler in before.items():
            signal.signal(number, handler)
        _end_by_waiting()  # behind the last safe point: the work that follows is not begun


@contextmanager
def interrupt_stops_at_once() -> Iterator[None]:
    """Within `interrupt_asks_to_stop`, a block in which Ctrl-C and SIGTERM do not wait: it is cut where it is, by KeyboardInterrupt.

    For what takes long and changes nothing that is kept (attempts, their scores), so that it can be made again from its start.
    Outside of `interrupt_asks_to_stop` the block makes no difference.
    """
    global _asking
    if not _asking or threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        _asking = False
        _end_by_waiting()  # a signal that came since the last safe point
        yield
    finally:
        _asking = True


@contextmanager
def says_how_to_go_on(command: str) -> Iterator[None]:
    """Where Ctrl-C ends the block, `command` is printed as what goes on from the last checkpoint."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"\nStopped. Continue from the last checkpoint with: {command}", file=sys.stderr)
        raise
