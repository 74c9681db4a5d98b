"""How tests wait: until something holds, never for a length of time that a slow machine may need longer for."""

import subprocess
import time
from collections.abc import Callable

PATIENCE = 900.0
"""Seconds after which a test hangs; nothing that is merely slow takes so long."""


def until(holds: Callable[[], object], process: subprocess.Popen | None = None) -> None:
    """Waits until `holds` says so. A process that ends before that, and a wait without end, fail the test."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert process is None or process.poll() is None or holds(), process.communicate()
        assert time.monotonic() < deadline, f"waited {PATIENCE:.0f} s in vain"
        time.sleep(0.02)
