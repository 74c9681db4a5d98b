"""How far a program's process is shut off from the machine: the levels, and how a worker gets there."""

import gc
import os
import resource
import socket
from collections.abc import Callable
from typing import Any

from rmlab.microswe.sandbox import modules
from rmlab.microswe.sandbox.records import Limits
from rmlab.microswe.sandbox.zygote import serve


def start(level: str, limits: Limits) -> tuple[socket.socket, dict[str, Any]]:
    """Makes this worker's zygote; the control socket to it, and what isolation was reached."""
    modules.load_all()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    ours, theirs = socket.socketpair()
    lock = make_lock(limits)
    gc.collect()
    gc.freeze()
    if not os.fork():
        ours.close()
        try:
            serve(theirs, lock, own_namespace=False)
        finally:
            os._exit(0)
    theirs.close()
    return ours, {"level": level}


def make_lock(limits: Limits) -> Callable[[], None]:
    """What a program's process does to itself before it touches the program."""
    memory = _address_space() + limits.memory_mb * 2**20
    seconds = int(limits.program_seconds) + 1
    bounds = (
        (resource.RLIMIT_CPU, (seconds, seconds + 1)),
        (resource.RLIMIT_AS, (memory, memory)),
        (resource.RLIMIT_FSIZE, (limits.file_kb * 1024, limits.file_kb * 1024)),
        (resource.RLIMIT_NOFILE, (limits.descriptors, limits.descriptors)),
        (resource.RLIMIT_NPROC, (0, 0)),
        (resource.RLIMIT_CORE, (0, 0)),
    )

    def lock() -> None:
        for name, bound in bounds:
            resource.setrlimit(name, bound)

    return lock


def _address_space() -> int:
    """Bytes of address space that this process has now."""
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()
