"""The bare process that programs are forked from. It sees no program, no input, no result: it forks and ends.

Orders over its control socket, one byte each: `f` (with one socket attached) forks a process that runs a program over
that socket; `t` answers with the processor time that it has used; `e` ends whatever it left and answers with its wait
status and its processor time. The program cannot change what is answered.
"""

import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from rmlab.microswe.sandbox.runner import run_program

FORK, TIME, END = b"f", b"t", b"e"
OUT_OF_MEMORY = 77  # exit status of a process that ran out of memory outside a call
STATUS, SECONDS = struct.Struct("id"), struct.Struct("d")
CHANNEL = 3
SCHEDULER_CLOCK = 2  # with a process id, complemented, above it: that process's CPU clock (Linux, CPUCLOCK_SCHED)


def serve(control: socket.socket, lock: Callable[[], None], *, own_namespace: bool) -> None:
    """Forks and ends programs until the worker closes the control socket or dies; a program that runs then ends with it.

    own_namespace: this is PID 1 of its own, and "/" is the programs' temporary folder, which is emptied after each.
    """
    child, began = 0, 0.0
    while True:
        order, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not order:
            if child:
                _end(child, own_namespace)  # reaped here: an orphan would be a zombie where nobody reaps those
            return
        if order == FORK:
            child = os.fork()
            if not child:
                _be_the_program(descriptors[0], lock)
            os.close(descriptors[0])
            began = time.monotonic()
        elif order == TIME:
            control.sendall(SECONDS.pack(_processor_seconds(child, began)))
        else:
            status, seconds = _end(child, own_namespace)
            child = 0
            if own_namespace:
                empty("/")
            control.sendall(STATUS.pack(status, seconds))


def _processor_seconds(child: int, began: float) -> float:
    """Of a process that runs or waits to be reaped; where no clock of another process can be read, the time since it began."""
    try:
        return time.clock_gettime(~child << 3 | SCHEDULER_CLOCK)
    except (AttributeError, OSError):
        return time.monotonic() - began


def _end(child: int, own_namespace: bool) -> tuple[int, float]:
    """Kills the program and all it started; the wait status and the processor time of the program itself."""
    with suppress(ProcessLookupError):
        os.kill(-1 if own_namespace else child, signal.SIGKILL)
    result, seconds = 0, 0.0
    while True:
        try:
            pid, status, used = os.wait4(-1, 0)
        except ChildProcessError:
            return result, seconds
        if pid == child:
            result, seconds = status, used.ru_utime + used.ru_stime


def empty(folder: str) -> None:
    """Removes all that is in the folder, whatever its rights or depth. Raises OSError where something stays.

    What lies deeper is moved up first, so that three descriptors are enough for any depth.
    """
    os.chmod(folder, 0o700)  # noqa: PTH101
    if not os.listdir(folder):  # noqa: PTH208
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    while names := os.listdir(descriptor):  # noqa: PTH208
        for name in names:
            if not _unlinked(name, descriptor):
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
                for deeper in os.listdir(inner):  # noqa: PTH208
                    if not _unlinked(deeper, inner):
                        os.rename(deeper, os.urandom(16).hex(), src_dir_fd=inner, dst_dir_fd=descriptor)
                os.close(inner)
                os.rmdir(name, dir_fd=descriptor)
    os.close(descriptor)


def _unlinked(name: str, folder: int) -> bool:
    """Removes it, or makes it writable where it is a folder; whether it is gone."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        os.chmod(name, 0o700, dir_fd=folder)
        return False
    return True


def _be_the_program(channel: int, lock: Callable[[], None]) -> None:
    status = 1
    leave = os._exit
    try:
        os.dup2(channel, CHANNEL)
        os.closerange(CHANNEL + 1, 256)
        os.setsid()
        run_program(CHANNEL, lock)
        status = 0
    except MemoryError:
        status = OUT_OF_MEMORY
    finally:
        leave(status)  # no atexit function, no finaliser, no flush
