"""One progress bar for everything that takes over a few seconds: count, rate, time left.

A process that works for another one (a cell of a sweep) reports its progress to that one instead of drawing a bar.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rmlab.wording import left

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID


class Advance(Protocol):
    """`advance(n, note)`: n more units are done; note is a short text shown behind the bar."""

    def __call__(self, amount: float = 1, note: str = "") -> None: ...


@dataclass(frozen=True)
class Beat:
    """How far something is. rate: units a second. is_sampled: whether enough was done to tell from the rate how long the rest takes."""

    title: str
    done: float
    total: float
    unit: str
    rate: float
    note: str
    is_sampled: bool = True

    @property
    def seconds_left(self) -> float | None:
        """Time left at this rate, None before enough was done to tell."""
        return max((self.total - self.done) / self.rate, 0.0) if self.rate and self.is_sampled else None


STARTED, ENDED = Beat("starting", 0, 0, "", 0.0, ""), Beat("work", 1, 1, "", 0.0, "")
"""What a process tells before its first unit of work, and after its last."""

_listener: Callable[[Beat], None] | None = None
_verbosity = 0


def set_verbosity(level: int) -> None:
    """How much this process tells of its progress: -1 nothing, 0 what is usual, 1 as lines that stay, and more of them."""
    global _verbosity
    _verbosity = level


def is_quiet() -> bool:
    """Whether only results and errors are to be shown."""
    return _verbosity < 0


def is_verbose() -> bool:
    """Whether more than usual is to be shown."""
    return _verbosity > 0


def report_to(listener: Callable[[Beat], None] | None) -> None:
    """From now on every `progress` of this process tells `listener`, at most twice a second, and draws nothing."""
    global _listener
    _listener = listener


def listener() -> Callable[[Beat], None] | None:
    """Whom this process tells of its progress; None where it draws it."""
    return _listener


@contextmanager
def progress(title: str, total: float, unit: str, show: bool = True, already: float = 0) -> Iterator[Advance]:
    """A bar on a terminal; on anything else (a log, CI) one plain line every 10 s, so that logs stay short. Quiet: nothing.
    Verbose: lines on a terminal too, every 2 s.

    total: units in all. unit: what is counted ("tokens", "episodes"), shown as a rate per second. already: units that were done
    before this process began: they count as done, and not for the rate.
    """
    if _listener is not None:
        reporter = _Reporter(title, total, unit, already, _listener)
        reporter.tell("")
        yield reporter
        reporter.tell("")
    elif not show or is_quiet():
        yield lambda amount=1, note="": None
    elif sys.stderr.isatty() and not is_verbose():
        counted = _Counted(title, total, unit, already)
        bar, task = _terminal_bar(counted)

        def advance(amount: float = 1, note: str = "") -> None:
            counted.count(amount)
            bar.update(task, advance=amount, note=note)

        with bar:
            yield advance
    else:
        yield _PlainLines(title, total, unit, already)


def _terminal_bar(counted: "_Counted") -> "tuple[Progress, TaskID]":
    """A bar of what is counted. Its rate is of the last minutes, without the first unit, which often takes longer than the rest."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class RateColumn(ProgressColumn):
        def render(self, task: "object") -> Text:
            rate = getattr(task, "finished_speed", None) or getattr(task, "speed", None) or 0.0
            return Text(speed(rate, counted.unit))

    class TimeLeftColumn(TimeRemainingColumn):
        def render(self, task: "Task") -> Text:
            return (
                super().render(task) if counted.is_sampled or task.finished else Text("-:--:--", "progress.remaining")
            )

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeLeftColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
        get_time=time.monotonic,
        speed_estimate_period=600,  # of half a minute, as rich has it, a unit that takes longer would have no rate
    )
    return bar, bar.add_task(counted.title, total=counted.total, completed=int(counted.already), note="")


def speed(rate: float, unit: str) -> str:
    """A rate as people say it: "1,204 tokens/s", "2.5 episodes/s", "2.7 s a step", "16.6 s an episode"."""
    if 0 < rate < 1:
        one = f"{unit.removesuffix('ies')}y" if unit.endswith("ies") else unit.removesuffix("s")
        return f"{1 / rate:,.1f} s {'an' if unit[:1] in 'aeio' else 'a'} {one}"
    return f"{rate:,.{0 if rate >= 10 else 1}f} {unit}/s"


class _Counted:
    """What is done of something, and since when."""

    SAMPLE, SHARE = 5, 0.05
    """Times that something was done, or the share of what there is to do, from which the time left is told: what comes first often takes
    longer than the rest."""

    def __init__(self, title: str, total: float, unit: str, already: float):
        self.title, self.total, self.unit, self.already = title, total, unit, already
        self.done, self.times = already, 0
        self.start = self.last = time.monotonic()

    def count(self, amount: float) -> None:
        self.done += amount
        self.times += 1

    @property
    def is_sampled(self) -> bool:
        """Whether enough was done to tell the time left."""
        return self.times >= self.SAMPLE or self.done - self.already >= self.SHARE * (self.total - self.already)

    def beat(self, now: float, note: str) -> Beat:
        done, seconds = self.done - self.already, now - self.start
        rate = done / seconds if seconds > 0 else 0.0
        return Beat(self.title, self.done, self.total, self.unit, rate, note, self.is_sampled)


class _PlainLines(_Counted):
    EVERY_SECONDS = 10.0
    EVERY_SECONDS_VERBOSE = 2.0

    def __call__(self, amount: float = 1, note: str = "") -> None:
        self.count(amount)
        now = time.monotonic()
        if now - self.last < (self.EVERY_SECONDS_VERBOSE if is_verbose() else self.EVERY_SECONDS):
            return
        self.last = now
        beat = self.beat(now, note)
        words = [
            f"{self.done:,.0f}/{self.total:,.0f} {self.unit}",
            speed(beat.rate, self.unit),
            left(beat.seconds_left),
        ]
        print(f"{self.title}: {', '.join(filter(None, words))} {note}".rstrip(), file=sys.stderr, flush=True)


class _Reporter(_Counted):
    EVERY_SECONDS = 0.5

    def __init__(self, title: str, total: float, unit: str, already: float, listener: Callable[[Beat], None]):
        super().__init__(title, total, unit, already)
        self.listener = listener

    def __call__(self, amount: float = 1, note: str = "") -> None:
        self.count(amount)
        if time.monotonic() - self.last >= self.EVERY_SECONDS:
            self.tell(note)

    def tell(self, note: str) -> None:
        self.last = time.monotonic()
        self.listener(self.beat(self.last, note))
