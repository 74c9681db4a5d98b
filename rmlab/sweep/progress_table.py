"""What a sweep is doing: one live table on a terminal, one line per change of a cell on anything else."""

import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from rmlab.launchers.jobs import Event
from rmlab.progress import Beat, speed
from rmlab.wording import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

CellState = Literal[
    "waiting", "running", "elsewhere", "finished", "reused", "paused", "failed", "failed before", "pruned"
]
EVERY_SECONDS = 30.0
LONGEST_TABLE = 24


@dataclass
class ProgressLine:
    """One cell as it is shown. seconds: what it took; began: when it started, by the monotonic clock."""

    name: str
    state: CellState
    beat: Beat | None = None
    seconds: float | None = None
    began: float = 0.0


class ProgressTable:
    """Shows the cells of a sweep. Used as a context; `tell` takes every event, `note` a state that no process reports."""

    def __init__(self, title: str, cells: dict[str, CellState]) -> None:
        self.title = title
        self.lines = {name: ProgressLine(name, state) for name, state in cells.items()}
        self._live: Live | None = None
        self._last = time.monotonic()

    def __enter__(self) -> "ProgressTable":
        if sys.stderr.isatty():
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

    def add(self, name: str) -> None:
        """A cell that was not known when the sweep began."""
        self.lines.setdefault(name, ProgressLine(name, "waiting"))

    def say(self, text: str) -> None:
        """A line above the table, or just a line."""
        if self._live:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def note(self, name: str, state: CellState, seconds: float | None = None) -> None:
        """A cell's new state."""
        line = self.lines[name]
        line.state, line.seconds, line.beat = state, seconds, None
        if state == "running":
            line.began = time.monotonic()
        if self._live is None:
            done = sum(x.state in ("finished", "reused") for x in self.lines.values())
            took = f" in {seconds:.0f} s" if seconds is not None else ""
            words = {"running": "started", "elsewhere": "is at work elsewhere: waiting for it"}.get(state, state)
            self.say(f"[{done}/{len(self.lines)}] {name} {words}{took}")

    def tell(self, event: Event | None) -> None:
        """An event of the processes; None = nothing happened."""
        if event is not None and event.state == "progress" and event.job.name in self.lines:
            self.lines[event.job.name].beat = event.beat
        if self._live is None and time.monotonic() - self._last > EVERY_SECONDS:
            self._last = time.monotonic()
            for line in self.lines.values():
                if line.state == "running":
                    self.say(
                        f"    {line.name}: {time.monotonic() - line.began:.0f} s; {', '.join(filter(None, _columns(line)))}"
                    )

    def _table(self) -> "RenderableType":
        from rich.table import Table

        states = [line.state for line in self.lines.values()]
        done, left = sum(s in ("finished", "reused") for s in states), sum(s == "waiting" for s in states)
        table = Table(
            title=f"{self.title}: {done} of {counted(len(states), 'cell')} finished, {left} waiting",
            title_justify="left",
        )
        table.add_column("cell")
        for name in ("state", "step", "rate", "left", ""):
            table.add_column(name, justify="right" if name in ("rate", "left") else "left")
        shown = list(self.lines.values())
        if len(shown) > LONGEST_TABLE:  # what moves, what went wrong, and the last that ended
            shown = [x for x in shown if x.state in ("running", "elsewhere", "failed")] + [
                x for x in shown if x.state == "finished"
            ][-5:]
        colour = {
            "running": "cyan",
            "elsewhere": "blue",
            "finished": "green",
            "reused": "green",
            "failed": "red",
            "failed before": "red",
            "pruned": "yellow",
            "paused": "yellow",
            "waiting": "dim",
        }
        for line in shown:
            state = f"{line.state} {line.seconds:.0f} s" if line.seconds is not None else line.state
            table.add_row(line.name, f"[{colour[line.state]}]{state}[/]", *_columns(line))
        return table


def _columns(line: ProgressLine) -> list[str]:
    """step, rate, time left, note: of a running cell, else empty."""
    beat = line.beat
    if line.state != "running" or beat is None:
        return ["", "", "", ""]
    title = beat.title if beat.title != line.name else "training"
    if beat.total and beat.done >= beat.total:
        return [f"{title} done", "", "", ""]
    share = f"{beat.done / beat.total:.0%}" if beat.total else ""
    left = "" if beat.seconds_left is None else f"{beat.seconds_left:.0f} s left"
    return [f"{title} {share}", speed(beat.rate, beat.unit) if beat.rate else "", left, beat.note]
