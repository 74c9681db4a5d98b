"""`rmlab sweep`: launches or resumes `sweeps/NAME.yaml`, one process per cell, and shows the results.

sweep file → cells and their hashes → which are finished, anywhere in the store → what all share is made once, and every level
is checked to have enough data → the rest run → summary run, table, figures. The same command continues where it stopped.
"""

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmlab.commands.common import complete_sweep, sweep_names
from rmlab.errors import DataError, MissingModel, RmlabError, UsageError
from rmlab.paths import runs_folder
from rmlab.progress import is_quiet
from rmlab.sweep.request import OnError, SweepOptions
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.launchers.jobs import Launcher
    from rmlab.sweep.dry_run import Redo
    from rmlab.sweep.request import Plan
    from rmlab.sweep.scheduler import SweepOutcome
    from rmlab.tracking.store import Store

app = typer.Typer()


@app.command(epilog="Example: `rmlab sweep data_scale preset=smoke --workers 2`")
def sweep(
    name: Annotated[str, typer.Argument(help="A file in sweeps/, without .yaml.", autocompletion=sweep_names)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[preset=P] [OVERRIDE]...",
            help="preset, levels, seeds, arms, baseline and trials select within the sweep; hydra/launcher=NAME says where cells run; "
            "any other override applies to every cell.",
            show_default=False,
            autocompletion=complete_sweep,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the cells, which of them are finished, and the cost, without running anything."
        ),
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print what all cells share and, as a diff, how they differ.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many cells run at once. Default: as many as the cores (or GPUs) hold. Results do not depend on it.",
        ),
    ] = None,
    cells_per_gpu: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Cells that share one GPU and its memory, since small cells leave a card idle. Default: 1. A cell that runs out of memory "
            "beside others starts again beside fewer.",
        ),
    ] = None,
    on_error: Annotated[
        OnError, typer.Option(help="After a failed cell: start no more cells (stop), or run the rest (continue).")
    ] = OnError.stop,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Rerun cells that failed before.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Rerun finished cells; the new runs replace the old ones.")
    ] = False,
    redo_before: Annotated[
        str | None, typer.Option(help="Rerun cells that began before this time; continues an interrupted --force.")
    ] = None,
    rerun_stale: Annotated[
        bool, typer.Option("--rerun-stale", help="Rerun cells that another commit finished.")
    ] = False,
    rerun_without_weights: Annotated[
        bool,
        typer.Option(
            "--rerun-without-weights",
            help="Rerun finished cells whose weights are not in the store, such as those of a study's bundle.",
        ),
    ] = False,
    stop_after: Annotated[
        float | None,
        typer.Option(
            metavar="MINUTES",
            help="Stop after this many minutes. No cell starts that would take longer than the time left, judging by other cells; cells "
            "still running then are stopped, and continue from their checkpoints when the same command is given again. Not covered: "
            "the preparation of what all cells share, which runs to its end once begun.",
        ),
    ] = None,
) -> None:
    """Launch a sweep, or resume it where it stopped. Finished cells are not rerun unless asked."""
    asked = [
        *(arguments or []),
        *([f"hydra.launcher.cells_per_gpu={cells_per_gpu}"] if cells_per_gpu is not None else []),
    ]
    options = SweepOptions(
        dry_run,
        explain,
        workers,
        on_error,
        retry_failed,
        force=force,
        redo_before=redo_before,
        rerun_stale=rerun_stale,
        rerun_without_weights=rerun_without_weights,
        stop_after=stop_after,
    )
    launch_sweep(name, asked, options)


@dataclass(frozen=True)
class HydraRun:
    """How Hydra started a sweep (`rmlab train -m +sweep=NAME`): its launcher, set up, and the program."""

    launcher: Any
    program: str


def launch_sweep(name: str, arguments: Sequence[str], options: SweepOptions, hydra: HydraRun | None = None) -> None:
    """Launches, resumes or (dry_run, explain) only describes a sweep.

    Raises UsageError for a wrong name or value, RmlabError for data that cannot fill a level and when cells failed.
    """
    from rmlab.sweep.multirun import is_own, multirun
    from rmlab.sweep.request import make_plan, read_request

    until = None if options.stop_after is None else time.monotonic() + 60 * options.stop_after
    options = options.dated()
    request = read_request(arguments)
    if hydra is None and not is_own(request.launcher):  # Hydra sets it up, and calls this again with it
        multirun(request.spec(name).program, [f"+sweep={name}", *arguments], options)
        return
    try:
        plan = make_plan(name, arguments, shlex.join(["rmlab", "sweep", name, *arguments, *options.flags()]))
    except MissingModel:
        spec = request.spec(name)
        if options.dry_run and spec.search is None:
            from rmlab.sweep.dry_run import names_alone

            print(names_alone(spec))
        raise
    if hydra is not None and hydra.program != plan.spec.program:
        raise UsageError(
            f"sweep {name} runs the program {plan.spec.program}, not {hydra.program}: use rmlab sweep {name}"
        )
    if options.explain or options.dry_run:
        print(_described(plan, options))
        if options.dry_run and not options.explain and not plan.spec.search:
            _check(plan, options)
    else:
        _run(plan, options, _launcher(plan, options, hydra), until)


def _check(plan: "Plan", options: SweepOptions) -> None:
    """Says what the cells that would run need, and raises the RmlabError by which the launch would refuse them."""
    from rmlab.sweep.dry_run import cells_to_check, check_cells, told_needs
    from rmlab.tracking.store import Store

    store = Store.existing(plan.uri)
    cells = cells_to_check(plan.cells, store, _redo(plan, options, store))
    line, refusal = told_needs(cells)
    if line:
        print(line)
    check_cells(cells)
    if refusal:
        raise DataError(refusal)


def _described(plan: "Plan", options: SweepOptions) -> str:
    """What would run, or (explain) how the cells differ."""
    from rmlab.sweep.dry_run import description, explanation, search_description
    from rmlab.tracking.store import Store

    if options.explain:
        return explanation(plan.cells)
    if plan.spec.search:
        return search_description(plan.cells)
    store = Store.existing(plan.uri)
    return description(plan.cells, store, options.retry_failed, _redo(plan, options, store))


def _redo(plan: "Plan", options: SweepOptions, store: "Store | None") -> "Redo":
    """Which finished runs do not count."""
    from rmlab.sweep.dry_run import redo_rule, runs_without_weights

    lacking = runs_without_weights(plan.cells, store) if options.rerun_without_weights else ()
    return redo_rule(options.redo_before, options.rerun_stale, lacking)


def _launcher(plan: "Plan", options: SweepOptions, hydra: HydraRun | None) -> "Launcher":
    """The launcher of the cells: one of ours, even where Hydra set it up, else Hydra's own launcher in batches."""
    from rmlab.launchers.hydra import ThroughHydra
    from rmlab.sweep.multirun import own_launcher

    config = plan.cells[0].config
    if hydra is None:
        return own_launcher(plan.request.launcher, plan.request.settings, config, options.workers)
    if hasattr(hydra.launcher, "cells_launcher"):
        own: Launcher = hydra.launcher.cells_launcher(config, options.workers)
        return own
    return ThroughHydra(hydra.launcher, options.batch or options.workers or (1 if plan.spec.search else None))


def _run(plan: "Plan", options: SweepOptions, launcher: "Launcher", until: float | None) -> None:
    """Runs the unfinished cells, unless another process runs this sweep, and shows the results. until: see `run_cells`."""
    from analysis.summaries import show_sweep
    from rmlab.files import exclusive
    from rmlab.sweep.dry_run import weights_words
    from rmlab.sweep.scheduler import begin, run_cells
    from rmlab.tracking.store import Store

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
                _search(plan, options, launcher, store)
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
            print(f"\nStopped; finished cells stay finished. Continue with: {plan.command}", file=sys.stderr)
            raise
        if outcome.time_is_up:  # no figures: there is no time for them
            print(
                f"The time is up: {len(outcome.left)} of {counted(len(plan.cells), 'cell')} left. Finished cells stay finished. "
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
            show_sweep(plan, store)
    _refuse_unfinished(plan, options, outcome)


def _search(plan: "Plan", options: SweepOptions, launcher: "Launcher", store: "Store") -> None:
    """Makes the missing trials of a search, and shows the results."""
    from analysis.summaries import show_search
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
    show_search(plan, study, name.hash, store)


def _refuse_unfinished(plan: "Plan", options: SweepOptions, outcome: "SweepOutcome") -> None:
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
