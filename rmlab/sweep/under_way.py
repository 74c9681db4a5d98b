"""A running sweep: which cell starts next, and how reports from launchers and other processes change its state."""

import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Sequence

from rmlab.launchers.jobs import Event, Job
from rmlab.paths import runs_folder
from rmlab.progress import is_verbose
from rmlab.stopping import is_full
from rmlab.sweep.plan import Cell, plain
from rmlab.sweep.progress_table import CellState, ProgressTable
from rmlab.sweep.request import OnError
from rmlab.sweep.stopped_cells import has_checkpoint
from rmlab.tracking.config import sweep_params, sweep_tags
from rmlab.tracking.dead_runs import LeaseMonitor, close_dead
from rmlab.tracking.leases import replace
from rmlab.tracking.reuse import log_reuse
from rmlab.tracking.run_index import RunInfo, finished_run, runs_of
from rmlab.tracking.store import Store
from rmlab.tracking.tags import CONTROL_HASH, ERROR, FAILED, FINISHED

LOOK_SECONDS = 2.0
"""How often a cell that is at work elsewhere is looked at."""
MOST_STOPS = 3
"""How often in a launch a cell is taken up again that had to stop (a machine that stood still, a store out of reach)."""

_jitter = random.SystemRandom()


def by_hash(cells: Sequence[Cell]) -> defaultdict[str, list[Cell]]:
    """The cells of each config_hash, in their order: cells of one hash are one run."""
    cells_of: defaultdict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        cells_of[cell.identity.config_hash].append(cell)
    return cells_of


class SweepUnderWay:
    """A sweep under way: supplies its cells, takes the events about them and does what each calls for.

    waiting, elsewhere: config hashes that nobody is known to be at work on, and that somebody else is (when to look again).
    settled: finished, reused, paused or failed. before: runs that were there when the sweep began. until: when it has to end, by
    `time.monotonic`; out_of_time: a cell was left because of that.

    What may be extended (a search does): `next`, `is_open`, `unwanted` and `take`, as launchers call them, and `on_finished` and
    `on_failed`, which are called once a cell is settled, also where another process did it.
    """

    def __init__(
        self,
        store: Store,
        cells: Sequence[Cell],
        table: ProgressTable,
        on_error: OnError,
        monitor: LeaseMonitor,
        replaces: dict[str, list[str]],
        until: float | None = None,
    ) -> None:
        self.store, self.table, self.on_error, self.monitor, self.replaces = store, table, on_error, monitor, replaces
        self.of_hash = by_hash(cells)
        self.waiting: deque[str] = deque()
        self.elsewhere: dict[str, float] = {}
        self.settled: set[str] = set()
        self.before: set[str] = set()
        self.newest: dict[tuple[str | None, str | None, str | None, str], str] = {}
        self.failed: list[str] = []
        self.paused: list[str] = []
        self.ran = 0
        self.stops: Counter[str] = Counter()
        self.stopping, self.disk_is_full = False, False
        self.until, self.out_of_time = until, False

    def next(self) -> Job | None:
        """The next cell that nobody is at work on."""
        self._look_elsewhere()
        while not self.stopping and (key := self._in_time()) is not None:
            self.waiting.remove(key)
            if not self._is_elsewhere(key):
                self.table.lines[self.of_hash[key][0].name].resumes = has_checkpoint(key)
                return _job(self.of_hash[key][0], self.replaces.get(key, []))
        return None

    def is_open(self) -> bool:
        """Whether a cell waits to start, or to be finished by somebody else."""
        return (self._in_time() is not None or bool(self.elsewhere)) and not self.stopping

    def is_time_up(self) -> bool:
        """Whether the sweep has to end now, whatever runs."""
        if self.until is None or time.monotonic() < self.until:
            return False
        self.out_of_time = True
        return True

    def _in_time(self) -> str | None:
        """The first cell that waits and would end in time, as long as the others took; None where there is none."""
        if self.until is None:
            return next(iter(self.waiting), None)
        left = self.until - time.monotonic()
        for key in self.waiting:
            if (self.table.seconds_of(self.of_hash[key][0].name) or 0.0) < left:
                return key
        self.out_of_time |= bool(self.waiting)
        return None

    def unwanted(self) -> Collection[str]:
        """None: what runs is wanted."""
        return ()

    def heard(self, event: Event) -> None:
        """How far a job is, from a launcher that is blocked while it runs."""
        self.table.tell(event)

    def take(self, event: Event | None) -> None:
        """An event of the launcher, None for a quiet moment."""
        self.table.tell(event)
        if event is None or event.state == "progress":
            self._look_elsewhere()
            return
        key = event.job.planned
        assert key is not None
        if event.state in ("started", "submitted"):
            state: CellState = "running" if event.state == "started" else "submitted"
            self.table.note(event.job.name, state, where=event.where)
            if is_verbose():
                self.table.inform(f"    its output: {event.job.log}")
        elif event.state == "finished":
            runs = runs_of(self.store, key)
            if self._whole(key, runs) is None:
                self._paused(key, event.seconds)
                return
            self.ran += 1
            self.table.note(event.job.name, "finished", event.seconds)
            self.on_finished(key, runs)
        elif event.state == "elsewhere":
            self._wait_for(key)
        elif event.state == "crowded":
            close_dead(self.store, runs_of(self.store, key), self.monitor)
            self.table.say(f"{event.job.name} {event.error}")
            self.table.note(event.job.name, "waiting", event.seconds)
            self.waiting.appendleft(key)  # its launcher starts fewer beside it each time, so this ends
        elif event.state == "stopped":
            close_dead(self.store, runs_of(self.store, key), self.monitor)
            self._stopped(key, event.error, event.seconds)
        else:
            close_dead(self.store, runs_of(self.store, key), self.monitor, error=event.error)
            self.on_failed(
                key, event.error, f"{event.trace or event.error}\n    its output: {event.job.log}", event.seconds
            )

    def log_reuses(self, key: str, runs: Sequence[RunInfo]) -> None:
        """Gives every cell of a finished hash a finished run of its own name in its own sweep. runs: all of that hash."""
        source = finished_run(runs)
        assert source is not None
        there = {
            (r.tags.get("sweep"), r.tags.get("preset"), r.tags.get(CONTROL_HASH), r.name)
            for r in runs
            if r.status == FINISHED
        }
        for cell in self.of_hash[key]:
            name = (cell.sweep.name, cell.sweep.preset, cell.identity.control_hash, cell.name)
            # The newest run of a name stands for it in tables and figures: one that meant something else, before the sweep file was
            # edited back, must not.
            if name not in there or self.newest.get(name, key) != key:
                tags = {**sweep_tags(cell.config.tracking), CONTROL_HASH: cell.identity.control_hash}
                params = sweep_params(cell.config.tracking)
                log_reuse(self.store, source, cell.sweep.name, cell.name, tags, params)
                self.table.note(cell.name, "reused")

    def _is_elsewhere(self, key: str) -> bool:
        """Whether a cell that is about to start is finished by now, or somebody is at work on it; it is waited for then."""
        runs = runs_of(self.store, key)
        if self._whole(key, runs) is None and self.monitor.holder(runs) is None:
            close_dead(self.store, runs, self.monitor)
            return False
        self._wait_for(key)
        return True

    def _wait_for(self, key: str) -> None:
        self.elsewhere[key] = time.monotonic() + _jitter.uniform(0.2, 1.0)
        self.table.note(self.of_hash[key][0].name, "elsewhere")

    def _look_elsewhere(self) -> None:
        """What became of the cells that others are at work on."""
        for key in [key for key, when in self.elsewhere.items() if when < time.monotonic()]:
            runs = runs_of(self.store, key)
            if self._whole(key, runs) is not None:
                del self.elsewhere[key]
                self.table.note(self.of_hash[key][0].name, "finished")
                self.on_finished(key, runs)
            elif self.monitor.holder(runs) is not None:
                self.elsewhere[key] = time.monotonic() + LOOK_SECONDS
            else:
                del self.elsewhere[key]
                close_dead(self.store, runs, self.monitor)
                new = [run for run in runs if run.run_id not in self.before]  # not the last one: clocks of hosts differ
                if failed := next((run for run in new if run.status == FAILED), None):
                    error = failed.tags.get(ERROR, "")
                    self.on_failed(key, error, f"{error}\n    in run {failed.run_id} of another process", None)
                else:
                    self.table.note(self.of_hash[key][0].name, "waiting")
                    self.waiting.append(key)

    def _whole(self, key: str, runs: Sequence[RunInfo]) -> RunInfo | None:
        return finished_run(run for run in runs if run.run_id not in self.replaces.get(key, []))

    def _paused(self, key: str, seconds: float) -> None:
        """The cell ended without an error and without being finished: its own limit of time was up."""
        self.settled.add(key)
        self.paused += [cell.name for cell in self.of_hash[key]]
        self.table.note(self.of_hash[key][0].name, "paused", seconds)

    def _stopped(self, key: str, why: str, seconds: float) -> None:
        """The cell had to end through no fault of its own: it goes on from its checkpoint, now where that was not tried often yet."""
        self.table.say(f"{self.of_hash[key][0].name} stopped: {why}")
        self.stops[key] += 1
        self.table.note(self.of_hash[key][0].name, "waiting", seconds)
        if is_full(why):  # for every cell: nothing starts any more, and what runs is awaited
            self.stopping = self.disk_is_full = True
        elif self.stops[key] <= MOST_STOPS:
            self.waiting.append(key)  # else it is left for the next launch

    def on_finished(self, key: str, runs: Sequence[RunInfo]) -> None:
        """A cell is finished. runs: all of its hash."""
        self.settled.add(key)
        if self.replaces.get(key):
            new = self._whole(key, runs)
            assert new is not None
            replace(self.store, self.replaces[key], new.run_id)
            runs = runs_of(self.store, key)
        self.log_reuses(key, runs)

    def on_failed(self, key: str, error: str, why: str, seconds: float | None) -> None:
        """A cell failed. error: in one line; why: as it is shown; seconds: None where another process ran it."""
        self.settled.add(key)
        self.stopping = self.on_error == OnError.stop
        self.failed += [cell.name for cell in self.of_hash[key]]
        name = self.of_hash[key][0].name
        self.table.note(name, "failed", seconds)
        self.table.say(f"{name} failed: {why}")


def _job(cell: Cell, replaces: Sequence[str]) -> Job:
    key = cell.identity.config_hash
    config = plain(cell.config)
    config["tracking"]["replaces"] = list(replaces)
    return Job(cell.name, cell.sweep.program, "run", (config,), log=runs_folder() / "logs" / f"{key}.log", planned=key)
