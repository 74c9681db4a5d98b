"""`rmlab sweep`: launches or resumes `sweeps/NAME.yaml`, one process per cell, and shows the results."""

import time
from typing import Annotated

import typer

from rmlab.commands.common import complete_sweep, sweep_names
from rmlab.sweep.request import OnError, SweepOptions

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
    from rmlab.sweep.launch import describe, plan_to_launch, run_sweep
    from rmlab.sweep.own_launchers import is_own, own_launcher, own_settings
    from rmlab.sweep.request import read_request

    until = None if options.stop_after is None else time.monotonic() + 60 * options.stop_after
    options = options.dated()
    request = read_request(asked)
    if not is_own(request.launcher):  # Hydra sets it up, and its sweeper goes on with it
        from rmlab.commands.multirun import multirun

        multirun(request.spec(name).program, [f"+sweep={name}", *asked], options)
        return
    # what is wrong with them is said before the sweep is planned, and in a dry run too
    own_settings(request.launcher, request.settings)
    plan = plan_to_launch(name, asked, options)
    if options.explain or options.dry_run:
        describe(plan, options)
        return
    from analysis.summaries import summary_runs

    launcher = own_launcher(request.launcher, request.settings, plan.cells[0].config, options.workers)
    run_sweep(plan, options, launcher, until, summary_runs)
