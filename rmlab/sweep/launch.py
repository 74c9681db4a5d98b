"""A sweep is launched, resumed, or only described.

sweep file → cells and their hashes → which are finished, anywhere in the store → what all share is made once, and every level
is checked to have enough data → the rest run → summary run, table, figures. The same command continues where it stopped.
"""

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rmlab.errors import DataError, MissingModel, RmlabError, UsageError
from rmlab.files import exclusive
from rmlab.paths import runs_folder
from rmlab.progress import is_quiet
from rmlab.sweep.dry_run import (
    Redo,
    cells_to_check,
    check_cells,
    description,
    explanation,
    names_alone,
    redo_rule,
    runs_without_weights,
    search_description,
    told_needs,
    weights_words,
)
from rmlab.sweep.request import Plan, SweepOptions, make_plan, read_request
from rmlab.tracking.store import Store
from rmlab.tracking.tags import rmlab_as_called
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.launchers.jobs import Launcher
    from rmlab.sweep.scheduler import SweepOutcome
    from rmlab.sweep.study import Study


KEPT = "finished cells stay finished, and cells that were running keep their checkpoints"
"""What a stop leaves."""


class Summaries(Protocol):
    """What shows the results of a sweep at its end: the module `analysis.summaries.summary_runs`."""

    def show_sweep(self, plan: Plan, store: Store) -> None:
        """What came out of all cells."""

    def show_search(self, plan: Plan, study: "Study", study_hash: str, store: Store) -> None:
        """What came out of all trials."""


def plan_to_launch(name: str, arguments: Sequence[str], options: SweepOptions) -> Plan:
    """The plan of `rmlab sweep NAME`, with the command that continues it.

    Raises UsageError for a wrong name or value, RmlabError for data that cannot fill a level.
    """
    try:
        return make_plan(name, arguments, shlex.join([*rmlab_as_called(), "sweep", name, *arguments, *options.flags()]))
    except MissingModel:
        spec = read_request(arguments).spec(name)
        if options.dry_run and spec.search is None:
            print(names_alone(spec))
        raise


def describe(plan: Plan, options: SweepOptions) -> None:
    """Prints what would run, or (explain) how the cells differ. Raises RmlabError where a cell could not run."""
    if options.explain:
        print(explanation(plan.cells))
        return
    if plan.spec.search:
        print(search_description(plan.cells))
        return
    store = Store.existing(plan.uri)
    redo = _redo(plan, options, store)
    print(description(plan.cells, store, options.retry_failed, redo))
    cells = cells_to_check(plan.cells, store, redo)
    try:
        line, refusal = told_needs(cells)
    except RmlabError:
        check_cells(cells)  # where it refuses the same, it names the cell
        raise
    if line:
        print(line)
    check_cells(cells)
    if refusal:
        raise DataError(refusal)


def _redo(plan: Plan, options: SweepOptions, store: Store | None) -> Redo:
    """Which finished runs do not count."""
    lacking = runs_without_weights(plan.cells, store) if options.rerun_without_weights else ()
    return redo_rule(options.redo_before, options.rerun_stale, lacking)


def run_sweep(
    plan: Plan, options: SweepOptions, launcher: "Launcher", until: float | None, summaries: Summaries
) -> None:
    """Runs the unfinished cells, unless another process runs this sweep, and shows the results. until: see `run_cells`.

    Raises RmlabError when cells failed or were left, UsageError for a time limit of a search.
    """
    from rmlab.sweep.scheduler import begin, run_cells

    if plan.spec.search and until is not None:
        raise UsageError("--stop-after does not apply to a search. Limit its number of trials with trials=N.")
    lock = runs_folder() / "locks" / f"sweep-{plan.spec.name}-{plan.spec.preset}.lock"
    with exclusive(lock, f"sweep {plan.spec.name} at preset {plan.spec.preset}", patience=0):
        before = Store.existing(plan.uri)
        redo = _redo(plan, options, before)
        begin(plan.cells, before, launcher, redo)
        store = Store.open(plan.uri)
        store.describe(plan.spec.name, plan.spec.question, list(plan.spec.search.space) if plan.spec.search else [])
        try:
            if plan.spec.search:
                _search(plan, options, launcher, store, summaries)
                return
            outcome = run_cells(
                plan.cells,
                store,
                launcher,
                on_error=options.on_error,
                retry_failed=options.retry_failed,
                redo=redo,
                until=until,
            )
        except KeyboardInterrupt:
            print(f"\nStopped; {KEPT}. Continue with: {plan.command}", file=sys.stderr)
            raise
        if outcome.time_is_up:  # no figures: there is no time for them
            print(
                f"The time is up: {len(outcome.left)} of {counted(len(plan.cells), 'cell')} left; {KEPT}. "
                f"Continue with: {plan.command}",
                file=sys.stderr,
            )
        if outcome.paused:
            print(
                f"{len(outcome.paused)} of {counted(len(plan.cells), 'cell')} paused, their time is up ({', '.join(outcome.paused)}). "
                f"Continue with: {plan.command}",
                file=sys.stderr,
            )
        elif not (outcome.ran or outcome.failed or outcome.left or is_quiet()):
            print("every cell was already finished: nothing was trained", file=sys.stderr)
        told = is_quiet() or options.rerun_without_weights
        if not told and (words := weights_words(plan.cells, store, plan.command)):
            print(words, file=sys.stderr)
        if not outcome.time_is_up:
            summaries.show_sweep(plan, store)
    _refuse_unfinished(plan, options, outcome)


def _search(plan: Plan, options: SweepOptions, launcher: "Launcher", store: Store, summaries: Summaries) -> None:
    """Makes the missing trials of a search, and shows the results."""
    from rmlab.sweep.search import run_search
    from rmlab.sweep.study import Study
    from rmlab.sweep.study_identity import other_studies, study_name

    search = plan.spec.search
    assert search is not None
    name = study_name(plan.cells)
    study = Study(str(name), search, options.retry_failed, name.comparable)
    for line in other_studies(name, search):
        print(line)
    run_search(plan.cells, plan.request.overrides, study, store, launcher, options.retry_failed)
    summaries.show_search(plan, study, name.hash, store)


def _refuse_unfinished(plan: Plan, options: SweepOptions, outcome: "SweepOutcome") -> None:
    """Raises RmlabError where cells failed or were left, with the command that goes on."""
    if outcome.failed:
        left = f", {len(outcome.left)} not started" if outcome.left else ""
        raise RmlabError(
            f"{len(outcome.failed)} of {counted(len(plan.cells), 'cell')} failed ({', '.join(outcome.failed)}){left}. "
            f"{'Fix what the errors name, then try' if options.retry_failed else 'Try'} them again with: {plan.command} --retry-failed"
        )
    if outcome.left and not outcome.time_is_up:
        raise RmlabError(
            f"{len(outcome.left)} of {len(plan.cells)} cells were stopped repeatedly ({', '.join(outcome.left)}), for the reasons above. "
            f"Continue with: {plan.command}"
        )
