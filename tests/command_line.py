"""`rmlab ...` in the tests' own process, which has imported everything already: where nothing depends on a process of its own."""

import io
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from rmlab import cli


def rmlab_here(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, output and errors. What it starts (the cells of a sweep) are processes of their own all the same."""
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        patched.setattr(sys, "unraisablehook", sys.unraisablehook)
        patched.setattr(sys, "argv", ["rmlab", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert isinstance(ended.value.code, int)
    return ended.value.code, out.getvalue(), err.getvalue()
