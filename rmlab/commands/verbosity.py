"""`-q` and `-v`: how much progress a command shows; and a message while a command is still importing."""

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TextIO

import typer

from rmlab.commands.common import with_options
from rmlab.errors import UsageError
from rmlab.progress import set_verbosity

OPTIONS = {
    "quiet": Annotated[bool, typer.Option("--quiet", "-q", help="Print only results and errors, no progress.")],
    "verbose": Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Print progress as lines that stay, name the logs, show tables in full."),
    ],
}
PATIENCE_SECONDS = 0.8
WORD = "starting ..."
ERASE = "\r\x1b[K"


def tells_progress(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the options -q and -v."""

    @functools.wraps(command)
    def told(*arguments: Any, quiet: bool = False, verbose: bool = False, **given: Any) -> Any:
        if quiet and verbose:
            raise UsageError("--quiet and --verbose exclude each other: give one of them")
        set_verbosity(verbose - quiet)
        return command(*arguments, **given)

    return with_options(command, told, {name: (kind, False) for name, kind in OPTIONS.items()})


@contextmanager
def word_while_starting() -> Iterator[None]:
    """Where errors go to a terminal, a command that has printed nothing for a moment (it may be importing torch) shows a message, which
    its first output replaces."""
    if not sys.stderr.isatty():
        yield
        return
    word = _Word((sys.stdout, sys.stderr))
    try:
        yield
    finally:
        word.end()


class _Word:
    """The word, and the `write` of the streams until one of them is written to."""

    def __init__(self, streams: tuple[TextIO, TextIO]) -> None:
        self.streams, self.shown, self.over, self.lock = streams, False, False, threading.RLock()
        self.write = streams[1].write
        for stream in streams:
            setattr(stream, "write", self._first(stream.write))  # noqa: B010 - a method of one stream, not of its class
        self.timer = threading.Timer(PATIENCE_SECONDS, self._show)
        self.timer.daemon = True
        self.timer.start()

    def end(self) -> None:
        """Takes the word away; what is written from now on is written as ever."""
        with self.lock:
            if self.over:
                return
            self.over = True
            self.timer.cancel()
            for stream in self.streams:
                delattr(stream, "write")
            if self.shown:
                self._put(ERASE)

    def _first(self, write: Callable[[str], int]) -> Callable[[str], int]:
        def write_first(text: str) -> int:
            self.end()
            return write(text)

        return write_first

    def _show(self) -> None:
        with self.lock:
            if not self.over:
                self.shown = True
                self._put(WORD)

    def _put(self, text: str) -> None:
        self.write(text)
        self.streams[1].flush()
