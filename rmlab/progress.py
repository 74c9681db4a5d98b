"""One progress bar for everything that takes over a few seconds: count, rate, time left."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Advance(Protocol):
    """`advance(n, note)`: n more units are done; note is a short text shown behind the bar."""

    def __call__(self, amount: float = 1, note: str = "") -> None: ...


@contextmanager
def progress(title: str, total: float, unit: str, show: bool = True) -> Iterator[Advance]:
    """A bar on a terminal; on anything else (a log, CI) one plain line every 10 s, so that logs stay short.

    total: units in all. unit: what is counted ("tokens", "episodes"), shown as a rate per second.
    """
    if not show:
        yield lambda amount=1, note="": None
    elif sys.stderr.isatty():
        bar, task = _terminal_bar(title, total, unit)
        with bar:
            yield lambda amount=1, note="": bar.update(task, advance=amount, note=note)
    else:
        yield _PlainLines(title, total, unit)


def _terminal_bar(title: str, total: float, unit: str) -> "tuple[Progress, TaskID]":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class RateColumn(ProgressColumn):
        def render(self, task: "object") -> Text:
            speed = getattr(task, "finished_speed", None) or getattr(task, "speed", None) or 0.0
            return Text(f"{speed:,.0f} {unit}/s")

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )
    return bar, bar.add_task(title, total=total, note="")


class _PlainLines:
    EVERY_SECONDS = 10.0

    def __init__(self, title: str, total: float, unit: str):
        self.title, self.total, self.unit = title, total, unit
        self.done = 0.0
        self.start = self.last = time.monotonic()

    def __call__(self, amount: float = 1, note: str = "") -> None:
        self.done += amount
        now = time.monotonic()
        if now - self.last < self.EVERY_SECONDS:
            return
        self.last = now
        rate = self.done / (now - self.start)
        left = (self.total - self.done) / rate if rate else float("inf")
        print(
            f"{self.title}: {self.done:,.0f}/{self.total:,.0f} {self.unit}, {rate:,.0f} {self.unit}/s, {left:.0f} s left {note}".rstrip(),
            file=sys.stderr,
            flush=True,
        )
