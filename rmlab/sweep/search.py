"""Runs a search: trials are requested one by one as workers become free, and each consists of one cell per seed.

The cells of a trial are found, run, waited for and reused like those of any sweep, so settings that were run before, in this search
or elsewhere, take their values from the finished run. The values of a trial are means over its seeds.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from omegaconf import open_dict

from rmlab.configuration import compose, load_program
from rmlab.configured_values import with_values
from rmlab.launchers.jobs import HEAVY, Event, Job, Launcher
from rmlab.sweep.plan import Cell, check_control, shape
from rmlab.sweep.progress_table import ProgressTable
from rmlab.sweep.request import OnError
from rmlab.sweep.scheduler import close_all_dead, prepare, take_events
from rmlab.sweep.study import Study
from rmlab.sweep.under_way import SweepUnderWay
from rmlab.tracking.dead_runs import LeaseMonitor
from rmlab.tracking.query import TrackedRun, get_run
from rmlab.tracking.run_index import RunInfo, cell_runs, finished_run, runs_of
from rmlab.tracking.store import Store
from rmlab.tracking.tags import ERROR, FAILED, set_tags
from rmlab.tracking.ui import run_address

Settings = Mapping[str, Any]
TRIAL = "trial"
"""Tag of a run: the numbers of the trials that it answered."""


def run_search(
    templates: Sequence[Cell],
    overrides: Sequence[str],
    study: Study,
    store: Store,
    launcher: Launcher,
    retry_failed: bool = False,
) -> None:
    """Makes trials until their total is reached.

    templates: the cells of the settings that the search starts from, one a seed. overrides: the user's. study: where trials are
    kept. Raises an RmlabError where what all trials share cannot be made.
    """
    sweep = templates[0].sweep
    if not study.is_open():
        return
    monitor = LeaseMonitor()
    close_all_dead(store, cell_runs(store), monitor)
    with ProgressTable(f"{sweep.name}, preset {sweep.preset}") as table:
        table.inform(f"{sweep.name}, preset {sweep.preset}: {shape(templates)}")
        search = _Search(store, templates, overrides, table, monitor, study, retry_failed)
        preload = getattr(load_program(sweep.program), "PRELOAD", HEAVY)
        prepare(templates, table, preload)
        take_events(search, launcher, preload)


class _Search(SweepUnderWay):
    """A sweep whose cells come from a study."""

    def __init__(
        self,
        store: Store,
        templates: Sequence[Cell],
        overrides: Sequence[str],
        table: ProgressTable,
        monitor: LeaseMonitor,
        study: Study,
        retry_failed: bool,
    ) -> None:
        super().__init__(store, [], table, OnError.cont, monitor, {})
        self.templates, self.overrides, self.study, self.retry_failed = templates, overrides, study, retry_failed
        self.trials_of: dict[str, list[int]] = defaultdict(list)
        self.open_keys: dict[int, set[str]] = {}
        self.keys: dict[int, list[str]] = {}
        self.under_way: set[str] = set()
        self.pruned: set[str] = set()
        self._pruned_at = 0.0

    def next(self) -> Job | None:
        """A cell of an open trial, else of a new one."""
        while (
            (job := super().next()) is None and not self.stopping and self.study.is_open() and self.study.wants_more()
        ):
            self._ask()
        return job

    def is_open(self) -> bool:
        """Whether trials are still to be made or awaited."""
        return super().is_open() or (self.study.is_open() and not self.stopping)

    def unwanted(self) -> Collection[str]:
        """Cells whose trial is pruned."""
        return self.pruned

    def take(self, event: Event | None) -> None:
        """As a sweep's; a pruned cell's end is no failure."""
        if event is not None and event.state in ("failed", "stopped", "crowded") and event.job.planned in self.pruned:
            assert event.job.planned is not None
            self.table.note(event.job.name, "pruned", event.seconds)
            self._settle(event.job.planned, None, lambda number: self.study.tell_pruned(number))
            return
        super().take(event)
        if self.study.spec.pruning and time.monotonic() - self._pruned_at > 1.0:
            self._pruned_at = time.monotonic()
            self._prune(str(self.study.spec.pruning["metric"]))
        self.study.is_open()  # keeps its trials' leases alive

    def _ask(self) -> None:
        if (asked := self.study.ask()) is None:
            return
        number, settings = asked
        cells = [trial_cell(template, settings, self.overrides) for template in self.templates]
        check_control([self.templates[0], *cells])
        keys = list(dict.fromkeys(cell.identity.config_hash for cell in cells))
        self.keys[number], self.open_keys[number] = keys, set(keys)
        for key, cell in zip(keys, cells, strict=True):
            self.trials_of[key].append(number)
            if cell.name not in [known.name for known in self.of_hash[key]]:
                self.of_hash[key].append(cell)
                self.table.add(cell.name)
            if key in self.under_way:
                continue
            runs = runs_of(self.store, key)
            last = max(runs, key=lambda run: run.start_time, default=None)
            self.before |= {run.run_id for run in runs}
            if finished_run(runs) is not None:
                self.on_finished(key, runs)
            elif last is not None and last.status == FAILED and not self.retry_failed:
                error = last.tags.get(ERROR, "")
                self.on_failed(key, error, f"before ({error}); it is run again only with --retry-failed", None)
            else:
                self.under_way.add(key)
                self.waiting.append(key)

    def on_finished(self, key: str, runs: Sequence[RunInfo]) -> None:
        """Reports each trial that waits for this cell alone."""
        self.pruned.discard(key)  # it was done before it could be stopped
        super().on_finished(key, runs)
        self._settle(key, None, lambda number: None)

    def on_failed(self, key: str, error: str, why: str, seconds: float | None) -> None:
        """Each trial of this cell fails."""
        super().on_failed(key, error, why, seconds)
        self._settle(key, error, lambda number: None)

    def _settle(self, key: str, failure: str | None, instead: Callable[[int], None]) -> None:
        """Reports to the study each trial that has no open cell left. A trial that `instead` has reported is not reported again."""
        self.under_way.discard(key)
        for number in self.trials_of.pop(key, []):
            if number not in self.open_keys:
                continue
            self.open_keys[number].discard(key)
            if key in self.pruned:
                instead(number)
                del self.open_keys[number]
            elif failure is not None:
                self.study.tell_failed(number, failure)
                del self.open_keys[number]
            elif not self.open_keys[number]:
                del self.open_keys[number]
                values, runs = self._values(number)
                self._name_trial(number, runs)
                addresses = [run_address(self.store, run.experiment_id, run.run_id) for run in runs]
                if not self.study.tell(number, values, [run.run_id for run in runs], addresses):
                    self.table.say(f"trial {number} failed: an objective is missing or not finite ({values})")
        self.pruned.discard(key)

    def _name_trial(self, number: int, runs: Sequence[RunInfo]) -> None:
        """Says in a trial's runs which trial they are of, and where the study's page shows it."""
        for run in runs:
            numbers = sorted({*run.tags.get(TRIAL, "").split(), str(number)}, key=int)
            where = self.study.address(numbers) if len(numbers) == 1 else self.study.address([])
            set_tags(self.store, run.run_id, {TRIAL: " ".join(numbers), "trial_address": where})

    def _values(self, number: int) -> tuple[list[float | None], list[TrackedRun]]:
        """Each objective's mean over the seeds of a trial (None where one does not define it), and the runs that it is from."""
        finished = [finished_run(runs_of(self.store, key)) for key in self.keys[number]]
        runs = [get_run(self.store, info.run_id) for info in finished if info is not None]
        values: list[float | None] = []
        for name in self.study.spec.objectives:
            metric, _, step = name.partition("@")
            of_seed = [dict(run.series(metric)).get(int(step)) if step else run.metrics.get(metric) for run in runs]
            values.append(
                None if None in of_seed or not of_seed else sum(v for v in of_seed if v is not None) / len(of_seed)
            )
        return values, runs

    def _prune(self, metric: str) -> None:
        for number, keys in self.open_keys.items():
            for key in keys & self.under_way:
                running = [run for run in runs_of(self.store, key) if self.monitor.holder([run])]
                if running and self.study.report(number, get_run(self.store, running[0].run_id).series(metric)):
                    self.pruned.add(key)


def trial_cell(template: Cell, settings: Settings, overrides: Sequence[str]) -> Cell:
    """The cell of a search's settings at the template's seed."""
    sweep = template.sweep
    sets = [text for factor in sweep.factors for text in sweep.meaning(factor.name, settings[factor.name])]
    config = with_values(template.config, sets)
    if config is None:
        config = compose(sweep.program, [*sweep.overrides, *overrides, *sets])
        config.seed, config.tracking = template.seed, template.config.tracking
    words = " ".join(
        f"{name}={f'{value:.3g}' if isinstance(value, float) else value}" for name, value in settings.items()
    )
    with open_dict(config):
        config.tracking.level, config.tracking.name = "", f"{words} s{template.seed}"
        config.tracking.place = None
        config.tracking.settings = {name: str(value) for name, value in settings.items()}
    identity = load_program(sweep.program).identity(config)
    return _TrialCell(sweep, "", "", template.seed, config, identity)


class _TrialCell(Cell):
    """A cell that is named by its settings."""

    @property
    def name(self) -> str:
        """As its run."""
        return str(self.config.tracking.name)
