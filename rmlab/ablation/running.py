"""Runs the cells of a sweep that are not finished yet, each exactly once, whatever happened before.

A cell is finished when the store has a run with its config_hash and the tag `status=finished`, in any experiment. What
another sweep (or another cell of this one) finished is logged here as a run of its own that names its source.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rmlab.ablation.board import Board, CellState
from rmlab.ablation.processes import HEAVY, Event, Job, run_jobs
from rmlab.ablation.sweeps import Cell, plain
from rmlab.configuration import load_program
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.paths import runs_folder
from rmlab.tracking.config import sweep_tags
from rmlab.tracking.heads import CONTROL_HASH, CellRuns, cell_runs
from rmlab.tracking.query import close_stale, log_reuse
from rmlab.tracking.store import Store

OnError = Literal["stop", "continue"]


@dataclass(frozen=True)
class Outcome:
    """What became of a sweep. ran: cells trained now. failed: names of cells that failed, now or before. left: not started."""

    ran: int
    failed: list[str]
    left: list[str]


def run_cells(
    cells: Sequence[Cell], store: Store, *, workers: int, on_error: OnError = "stop", retry_failed: bool = False
) -> Outcome:
    """Runs what is missing, `workers` cells at once, and shows it.

    The caller holds the sweep's lock. on_error=stop: after a failure nothing new starts, what runs is awaited.
    Raises an RmlabError where what all cells share cannot be made (a level that the data cannot fill, say).
    """
    known = cell_runs(store)
    if close_stale(store, [run for found in known.all.values() for run in found]):
        known = cell_runs(store)
    hashes = list(dict.fromkeys(cell.identity.config_hash for cell in cells))
    skipped = [] if retry_failed else [key for key in hashes if key in known.failed]
    missing = [key for key in hashes if key not in known.finished and key not in skipped]
    states = {cell.name: _state(cell, known, skipped) for cell in cells}
    with Board(f"{cells[0].sweep.name}, preset {cells[0].sweep.preset}", states) as board:
        sweep = _Sweep(store, cells, board, on_error)
        sweep.failed += [cell.name for cell in cells if cell.identity.config_hash in skipped]
        for key in hashes:
            if key in known.finished:
                sweep.log_reuses(key, known)
        if missing:
            first = sorted((sweep.of_hash[key][0] for key in missing), key=_cost, reverse=True)
            preload = getattr(load_program(cells[0].sweep.program), "PRELOAD", HEAVY)
            _prepare(first, board, preload)
            for event in run_jobs([_job(cell) for cell in first], workers, sweep.may_start, preload):
                sweep.take(event)
        left = [c.name for key in missing if key not in sweep.started for c in sweep.of_hash[key]]
    return Outcome(sweep.ran, sweep.failed, left)


class _Sweep:
    """A sweep under way: takes the events of its cells and does what each calls for."""

    def __init__(self, store: Store, cells: Sequence[Cell], board: Board, on_error: OnError) -> None:
        self.store, self.board, self.on_error = store, board, on_error
        self.of_hash: dict[str, list[Cell]] = defaultdict(list)
        for cell in cells:
            self.of_hash[cell.identity.config_hash].append(cell)
        self.hash_of = {cell.name: cell.identity.config_hash for cell in cells}
        self.started: set[str] = set()
        self.failed: list[str] = []
        self.ran = 0
        self.stopping = False

    def may_start(self) -> bool:
        """Whether another cell may begin."""
        return not self.stopping

    def take(self, event: Event | None) -> None:
        """An event of the processes, None for a quiet moment."""
        self.board.tell(event)
        if event is None or event.state == "progress":
            return
        name, key = event.job.name, self.hash_of[event.job.name]
        if event.state == "started":
            self.started.add(key)
            self.board.note(name, "running")
        elif event.state == "finished":
            self.ran += 1
            self.board.note(name, "finished", event.seconds)
            if len(self.of_hash[key]) > 1:
                self.log_reuses(key, cell_runs(self.store))
        else:
            self.stopping = self.on_error == "stop"
            self.failed += [cell.name for cell in self.of_hash[key]]
            self.board.note(name, "failed", event.seconds)
            self.board.say(f"{name} failed: {event.trace or event.error}\n    its output: {event.job.log}")
            close_stale(self.store, cell_runs(self.store).all.get(key, []), error=event.error)

    def log_reuses(self, key: str, known: CellRuns) -> None:
        """Gives every cell of a finished hash a finished run of its own name in its own sweep."""
        there = {(r.tags.get("sweep"), r.tags.get("preset"), r.tags.get(CONTROL_HASH), r.name)
                 for r in known.all[key] if r.status == "finished"}
        for cell in self.of_hash[key]:
            if (cell.sweep.name, cell.sweep.preset, cell.identity.control_hash, cell.name) not in there:
                tags = {**sweep_tags(cell.config.tracking), CONTROL_HASH: cell.identity.control_hash}
                log_reuse(self.store, known.finished[key], cell.sweep.name, cell.name, tags)
                self.board.note(cell.name, "reused")


def _state(cell: Cell, known: CellRuns, skipped: Sequence[str]) -> CellState:
    key = cell.identity.config_hash
    return "finished" if key in known.finished else "failed before" if key in skipped else "waiting"


def _job(cell: Cell) -> Job:
    key = cell.identity.config_hash
    folder = runs_folder()
    return Job(cell.name, cell.sweep.program, "run", (plain(cell.config),), log=folder / "logs" / f"{key}.log",
               lock=folder / "locks" / f"cell-{key}.lock", planned=key)


def _cost(cell: Cell) -> float:
    """Larger levels first: the longest cell must not be what everyone waits for at the end."""
    try:
        return float(cell.level)
    except ValueError:
        return 0.0


def _prepare(cells: Sequence[Cell], board: Board, preload: Sequence[str]) -> None:
    """Makes what all cells share, once, in a process of its own; the first that is wrong is raised before any cell starts."""
    job = Job("prepare", cells[0].sweep.program, "prepare", tuple(plain(c.config) for c in cells),
              log=runs_folder() / "logs" / f"prepare-{cells[0].sweep.name}-{cells[0].sweep.preset}.log", many=True)
    board.say("preparing what the cells share ...")
    for event in run_jobs([job], 1, preload=preload):
        if event is not None and event.state == "failed":
            if event.trace:
                board.say(event.trace)
            kind = UsageError if event.exit_code == UsageError.exit_code else DataError if not event.trace else RmlabError
            raise kind(event.error)


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
