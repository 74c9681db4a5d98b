"""How tests wait: until something holds, never for a length of time that a slow machine may need longer for."""

import time
from collections.abc import Callable
from typing import Any, Protocol

PATIENCE = 900.0
"""Seconds after which a test hangs; nothing that is merely slow takes so long."""


class Process(Protocol):
    """One of `subprocess`, or of `tests.forked`."""

    def poll(self) -> int | None: ...
    def communicate(self) -> tuple[Any, Any]: ...


def until(holds: Callable[[], object], process: Process | None = None) -> None:
    """Waits until `holds` says so. A process that ends before that, and a wait without end, fail the test."""
    began = time.monotonic()
    deadline = began + PATIENCE
    while not holds():
        assert process is None or process.poll() is None or holds(), process.communicate()
        looked = time.monotonic()
        assert looked < deadline, f"waited {PATIENCE:.0f} s in vain"
        time.sleep(
            max(0.02, looked - began)
        )  # looking takes at most half of the time that what is waited for could have
        began = time.monotonic()
