"""The state of a sweep: one live table on a terminal, one line per change of a cell elsewhere, nothing with --quiet."""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, TypeVar

from rmlab.launchers.jobs import Event
from rmlab.progress import ENDED, Beat, is_quiet, is_verbose, speed
from rmlab.sweep.time_left import CellTime, seconds_left, seconds_of
from rmlab.wording import counted, duration, left

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

CellState = Literal[
    "waiting", "submitted", "running", "elsewhere", "finished", "reused", "paused", "failed", "failed before", "pruned"
]
"""submitted: given to a scheduler that starts it when it has room."""
DONE, UNDER_WAY = ("finished", "reused"), ("running", "submitted", "elsewhere")
EVERY_SECONDS = 30.0
LONGEST_TABLE = 24
COLOURS = {
    "running": "cyan",
    "submitted": "blue",
    "elsewhere": "blue",
    "finished": "green",
    "reused": "green",
    "failed": "red",
    "failed before": "red",
    "pruned": "yellow",
    "paused": "yellow",
    "waiting": "dim",
}
WORDS = {"running": "started", "elsewhere": "is at work elsewhere: waiting for it"}
RESUMED = "resumed from its checkpoint"


@dataclass
class ProgressLine:
    """One cell as it is shown. seconds: what it took; began: when it started to run, by the monotonic clock; ran: from then to its
    end, so without the time in a queue. where: what a scheduler calls it, "" on this machine. group, work: see `CellTime`. same_as:
    the cell that is the same run, so that this one takes no time. resumes: whether it starts from a checkpoint that it left before."""

    name: str
    state: CellState
    group: str = ""
    work: float = 1.0
    beat: Beat | None = None
    seconds: float | None = None
    began: float | None = None
    ran: float | None = None
    where: str = ""
    same_as: str = ""
    resumes: bool = False

    @property
    def is_at_work(self) -> bool:
        """Whether it takes a worker's time: not where it has ended and its batch goes on."""
        return self.state in ("running", "elsewhere") and self.ran is None

    @property
    def time(self) -> CellTime:
        """What is known of its time."""
        began = self.began
        running = self.state == "running" and began is not None
        elapsed = time.monotonic() - began if running and began is not None else None
        if self.state == "elsewhere":
            elapsed = 0.0  # it runs, for how long already is not known
        left = self.beat.seconds_left if running and self.beat is not None else None
        return CellTime(self.group, self.work, self.ran, elapsed, left)


P = ParamSpec("P")
R = TypeVar("R")


def _guarded(method: Callable[Concatenate["ProgressTable", P], R]) -> Callable[Concatenate["ProgressTable", P], R]:
    """Under the table's lock: what changes its lines, and what goes through them."""

    @wraps(method)
    def held(table: "ProgressTable", /, *args: P.args, **options: P.kwargs) -> R:
        with table._lock:
            return method(table, *args, **options)

    return held


@dataclass
class ProgressTable:
    """Shows the cells of a sweep. Used as a context; `tell` takes every event, `note` a state that no process reports.

    cells: in the order in which they start; they are shown in the order in which they end.
    """

    title: str
    cells: list[ProgressLine] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lines = {line.name: line for line in self.cells}
        self.most_at_once = 1
        self._live: Live | None = None
        self._last = time.monotonic()
        self._lock = threading.RLock()  # a terminal's table is drawn by a thread of its own

    def __enter__(self) -> "ProgressTable":
        if sys.stderr.isatty() and not is_quiet() and not is_verbose():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), get_renderable=self._table, refresh_per_second=2)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    @_guarded
    def add(self, name: str) -> None:
        """A cell that was not known when the sweep began."""
        self.lines.setdefault(name, ProgressLine(name, "waiting"))

    def say(self, text: str) -> None:
        """A line above the table, or just a line: what went wrong, also where quiet is asked."""
        if self._live:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def inform(self, text: str) -> None:
        """A line of what goes well, but not where quiet is asked."""
        if not is_quiet():
            self.say(text)

    @_guarded
    def note(self, name: str, state: CellState, seconds: float | None = None, where: str = "") -> None:
        """A cell's new state. seconds: from its start, or from when it was submitted. where: what a scheduler calls it."""
        line = self.lines[name]
        if state == "running":
            line.began, line.ran = time.monotonic(), None
        elif state == "finished" and seconds is not None:
            line.ran = seconds = line.ran or (seconds if line.began is None else time.monotonic() - line.began)
        if state not in UNDER_WAY:
            line.began = None
            self.lines[name] = self.lines.pop(name)  # behind all that ended before it
        line.state, line.seconds, line.beat, line.where = state, seconds, None, where or line.where
        self.most_at_once = max(self.most_at_once, sum(x.is_at_work for x in self.lines.values()))
        if self._live is None:
            took = f" in {duration(seconds)}" if seconds is not None else ""
            at = f" as {line.where}" if where else ""
            word = RESUMED if state == "running" and line.resumes else WORDS.get(state, state)
            self.inform(f"[{self._done()}/{len(self.lines)}] {name} {word}{took}{at}{self._left('; ')}")

    @_guarded
    def tell(self, event: Event | None) -> None:
        """An event of the processes; None = nothing happened."""
        if event is not None and event.state == "progress" and (line := self.lines.get(event.job.name)) is not None:
            if line.state == "submitted":  # it has left the queue
                self.note(line.name, "running")
            line.beat = event.beat
            if event.beat == ENDED and line.began is not None:
                line.ran = time.monotonic() - line.began
        if self._live is None and time.monotonic() - self._last > EVERY_SECONDS:
            self._last = time.monotonic()
            for line in self.lines.values():
                if line.state == "running" and line.began is not None:
                    columns = ", ".join(filter(None, _columns(line)))
                    self.inform(f"    {line.name}: {duration(time.monotonic() - line.began)}; {columns}")
            self.inform(f"    {self._done()} of {counted(len(self.lines), 'cell')} finished{self._left(', ')}")

    @_guarded
    def seconds_left(self) -> float | None:
        """Of the whole sweep; None before anything is known, and where nothing is left."""
        lines = [line for line in self.lines.values() if not line.same_as]
        times = [line.time for line in lines if line.ran is not None or line.state in (*UNDER_WAY, "waiting")]
        if all(one.took is not None for one in times):
            return None
        return seconds_left(times, self.most_at_once)

    @_guarded
    def seconds_of(self, name: str) -> float | None:
        """That a cell takes which has not begun; None before anything is known."""
        return seconds_of(self.lines[name].time, [line.time for line in self.lines.values()])

    def _done(self) -> int:
        return sum(line.state in DONE for line in self.lines.values())

    def _left(self, before: str) -> str:
        words = left(self.seconds_left())
        return f"{before}about {words}" if words else ""

    @_guarded
    def _table(self) -> "Group":
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        waiting = sum(line.state == "waiting" for line in self.lines.values())
        count = f"{self._done()} of {counted(len(self.lines), 'cell')} finished, {waiting} waiting{self._left(', ')}"
        table = Table()
        table.add_column("cell")
        for name in ("state", "step", "rate", "left", ""):
            table.add_column(name, justify="right" if name in ("rate", "left") else "left")
        for line in self.shown():
            state = f"{line.state} {duration(line.seconds)}" if line.seconds is not None else line.state
            where = line.where if line.state in UNDER_WAY else ""
            words = [*_columns(line)[:-1], " ".join(filter(None, (where, _columns(line)[-1])))]
            table.add_row(Text(line.name), Text(state, style=COLOURS[line.state]), *(Text(word) for word in words))
        return Group(Text(f"{self.title}: {count}"), table)

    def shown(self) -> list[ProgressLine]:
        """The rows: what has ended in the order in which it ended, what is under way, what waits in the order in which it starts.

        Of very many: what moves, what went wrong, and the last that ended.
        """
        lines = list(self.lines.values())
        ended = [line for line in lines if line.state not in (*UNDER_WAY, "waiting")]
        moves = [line for line in lines if line.state in UNDER_WAY]
        if len(lines) <= LONGEST_TABLE:
            return ended + moves + [line for line in lines if line.state == "waiting"]
        recent = {line.name for line in ended[-5:]}
        return [line for line in ended if line.state == "failed" or line.name in recent] + moves[:LONGEST_TABLE]


def _columns(line: ProgressLine) -> list[str]:
    """step, rate, time left, note: of a running cell, else empty."""
    beat = line.beat
    if line.state != "running" or beat is None:
        return ["", "", "", ""]
    title = beat.title if beat.title != line.name else "training"
    if beat.total and beat.done >= beat.total:
        return [f"{title} done", "", "", ""]
    share = f" {beat.done / beat.total:.0%}" if beat.total else ""
    return [f"{title}{share}", speed(beat.rate, beat.unit) if beat.rate else "", left(beat.seconds_left), beat.note]
