"""Runs the unfinished cells of a sweep, each exactly once, whatever happened before or runs at the same time.

First, the fork server that the cells start from and the data that they share are made once. A cell is finished when the store has a
run with its config_hash and the tag `status=finished`, in any experiment. A cell that another sweep (or another cell of this one)
finished is logged here as a run of its own that names its source. A cell that another process is working on, here or on another host,
is waited for while the rest runs, and redone if that process dies."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from omegaconf import OmegaConf

from rmlab.configuration import load_program
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.launchers.jobs import HEAVY, Job, JobList, Launcher
from rmlab.launchers.local import LocalLauncher, start_fork_server
from rmlab.launchers.warmup import shared_reads
from rmlab.paths import runs_folder
from rmlab.stopping import uncut
from rmlab.sweep.dry_run import Redo
from rmlab.sweep.plan import Cell, plain, shape
from rmlab.sweep.progress_table import CellState, ProgressLine, ProgressTable
from rmlab.sweep.request import OnError
from rmlab.sweep.under_way import SweepUnderWay, by_hash
from rmlab.tracking.dead_runs import LeaseMonitor, close_dead
from rmlab.tracking.run_index import CellRuns, RunInfo, cell_runs
from rmlab.tracking.store import Store
from rmlab.tracking.tags import CONTROL_HASH, FINISHED


def begin(cells: Sequence[Cell], store: Store | None, launcher: Launcher, redo: Redo = lambda run: False) -> None:
    """Starts the fork server where cells will be forked from it, so that it imports and reads while this process does the same."""
    known = cell_runs(store).finished
    wanted = {
        cell.identity.config_hash
        for cell in cells
        if (run := known.get(cell.identity.config_hash)) is None or redo(run)
    }
    if wanted and isinstance(launcher, LocalLauncher):
        program = load_program(cells[0].sweep.program)
        reads = shared_reads(
            [cell.config for cell in cells if cell.identity.config_hash in wanted], getattr(program, "SHARED", {})
        )
        start_fork_server(getattr(program, "PRELOAD", HEAVY), reads)


def prepare(cells: Sequence[Cell], table: ProgressTable, preload: Sequence[str]) -> None:
    """Makes what all cells share, once, in a process of its own; the first that is wrong is raised before any cell starts."""
    job = Job(
        "prepare",
        cells[0].sweep.program,
        "prepare",
        tuple(plain(c.config) for c in cells),
        log=runs_folder() / "logs" / f"prepare-{cells[0].sweep.name}-{cells[0].sweep.preset}.log",
        many=True,
    )
    table.inform("preparing what the cells share ...")
    with closing(LocalLauncher(1).run(JobList([job]), preload)) as events:
        for event in events:
            if event is not None and event.state in ("failed", "stopped"):
                if event.trace:
                    table.say(event.trace)
                wrongly = event.exit_code == UsageError.exit_code
                kind = UsageError if wrongly else DataError if not event.trace else RmlabError
                raise kind(event.error)


@dataclass(frozen=True)
class SweepOutcome:
    """What became of a sweep. ran: cells trained now. failed: names of cells that failed, now or before. left: not started, or
    stopped again and again (a machine that stands still, a store out of reach).

    paused: cells whose own limit of time was up before they were finished; they go on where they stopped when they are run again.
    time_is_up: the sweep itself had a limit of time, and cells are left because of it.
    """

    ran: int
    failed: list[str]
    left: list[str]
    paused: list[str]
    time_is_up: bool = False


def run_cells(
    cells: Sequence[Cell],
    store: Store,
    launcher: Launcher,
    *,
    on_error: OnError = OnError.stop,
    retry_failed: bool = False,
    redo: Redo = lambda run: False,
    until: float | None = None,
) -> SweepOutcome:
    """Runs what is missing and shows it.

    on_error=stop: after a failure nothing new starts, what runs is awaited. redo: finished runs that do not count; the new run
    of such a cell takes their place. until: when it has to end, by `time.monotonic`: a cell that would take longer does not start, and
    one that still runs then is ended; it goes on from its checkpoint when it is run again.
    Raises an RmlabError where what all cells share cannot be made (a level that the data cannot fill, say), or the disk is full.
    """
    monitor = LeaseMonitor()
    known = cell_runs(store)
    if close_all_dead(store, known, monitor):
        known = cell_runs(store)
    of_hash = by_hash(cells)
    hashes = list(of_hash)
    replaces = {
        key: [run.run_id for run in known.all.get(key, []) if run.status == FINISHED and redo(run)] for key in hashes
    }
    finished = [key for key in hashes if key in known.finished and not redo(known.finished[key])]
    skipped = [] if retry_failed else [key for key in hashes if key in known.failed]
    missing = [key for key in hashes if key not in finished and key not in skipped]
    missing.sort(key=lambda key: _work(of_hash[key][0]), reverse=True)  # nobody shall wait for the longest at the end
    lines = [
        _line(cell, known.finished.get(key) if key in finished else None, key in skipped, of_hash[key][0].name)
        for key in [*finished, *skipped, *missing]
        for cell in of_hash[key]
    ]
    with ProgressTable(f"{cells[0].sweep.name}, preset {cells[0].sweep.preset}", lines) as table:
        table.inform(f"{cells[0].sweep.name}, preset {cells[0].sweep.preset}: {shape(cells)}")
        sweep = SweepUnderWay(store, cells, table, on_error, monitor, {key: replaces[key] for key in missing}, until)
        sweep.newest = _newest(known)
        sweep.before = {run.run_id for key in missing for run in known.all.get(key, [])}
        sweep.failed += [cell.name for cell in cells if cell.identity.config_hash in skipped]
        for key in finished:
            sweep.log_reuses(key, known.all[key])
        if missing and not sweep.is_time_up():  # what they share is prepared to its end, once begun
            sweep.waiting.extend(missing)
            preload = getattr(load_program(cells[0].sweep.program), "PRELOAD", HEAVY)
            prepare([sweep.of_hash[key][0] for key in sweep.waiting], table, preload)
            take_events(sweep, launcher, preload)
        left = [c.name for key in missing if key not in sweep.settled for c in sweep.of_hash[key]]
        time_is_up = bool(left) and sweep.out_of_time
    return SweepOutcome(sweep.ran, sweep.failed, left, sweep.paused, time_is_up)


def take_events(sweep: SweepUnderWay, launcher: Launcher, preload: Sequence[str]) -> None:
    """Runs what the sweep supplies until nothing is left, its time is up, or Ctrl-C. Raises RmlabError where the disk is full."""

    def close_dead_cells() -> None:  # all have ended; one that took too long for it could not say so itself
        with uncut():
            close_all_dead(sweep.store, cell_runs(sweep.store), sweep.monitor)

    try:
        with closing(launcher.run(sweep, preload)) as events:
            for event in events:
                sweep.take(event)
                if sweep.is_time_up():
                    break
    except KeyboardInterrupt:
        close_dead_cells()
        raise
    if sweep.is_time_up():
        close_dead_cells()
    if sweep.disk_is_full:
        raise RmlabError(
            "the disk is full, so nothing more was started. Free some space; the same command then continues."
        )


def close_all_dead(store: Store, known: CellRuns, monitor: LeaseMonitor) -> list[RunInfo]:
    """`close_dead` over the runs of every cell."""
    return close_dead(store, [run for own in known.all.values() for run in own], monitor)


def _newest(known: CellRuns) -> dict[tuple[str | None, str | None, str | None, str], str]:
    """The config_hash of the newest finished run by (sweep, preset, control_hash, name)."""
    runs = [(run, key) for key, own in known.all.items() for run in own if run.status == FINISHED]
    return {
        (run.tags.get("sweep"), run.tags.get("preset"), run.tags.get(CONTROL_HASH), run.name): key
        for run, key in sorted(runs, key=lambda pair: pair[0].start_time)
    }


def _line(cell: Cell, finished: RunInfo | None, failed_before: bool, first: str) -> ProgressLine:
    """How a cell is shown when the sweep begins. finished: its run. first: the name of the first cell that is the same run."""
    ran = None
    if finished is not None and finished.end_time is not None and not finished.is_reuse:
        ran = (finished.end_time - finished.start_time) / 1000
    state: CellState = "finished" if finished is not None else "failed before" if failed_before else "waiting"
    same_as = first if first != cell.name else ""
    return ProgressLine(cell.name, state, f"{cell.level} {cell.arm}", _work(cell), ran=ran, same_as=same_as)


def _work(cell: Cell) -> float:
    """How much there is to do in a cell beside the others of its sweep: trajectories that it is trained on, the same in all where
    its program has no such key."""
    return float(OmegaConf.select(cell.config, "data.scale") or 1.0)
