"""A process forked from the tests' own, which has imported everything already, so that it can be killed in the middle within a moment."""

import multiprocessing
from collections.abc import Callable
from typing import Any


def exit_code(work: Callable[..., Any], *arguments: Any) -> int | None:
    """How a process that does this ended: its code, or minus the signal that ended it."""
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments)
    process.start()
    process.join()
    return process.exitcode
