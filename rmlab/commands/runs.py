"""`rmlab runs ...`: tracked runs as a table or as CSV with everything that they measured; bundles that carry them to other machines."""

import csv
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmlab.errors import UsageError
from rmlab.paths import SWEEPS
from rmlab.wording import counted, near

if TYPE_CHECKING:
    from rmlab.tracking.bundles.reading import AnyRun
    from rmlab.tracking.run_index import RunInfo
    from rmlab.tracking.store import Store

app = typer.Typer(no_args_is_help=True, help="List, export and import tracked runs.")

StoreOption = Annotated[
    str | None, typer.Option("--store", help="A store: URL or sqlite URI. Default: the project's own.")
]


KINDS = ("verifier", "rl", "warm_start", "pretrain", "collection", "summary", "benchmark")
"""What runs are of: those of RL and of its first policy are `rl` and `warm_start`."""
PREFIXES = ("", "eval/", "rl/", "train/")
FACTS = ("name", "kind", "status", "sweep", "preset", "level", "arm", "started", "minutes")
SHORT = 8  # characters of an id in a table; `rmlab runs list --csv` has it whole
NAMED = 5  # of many, so many are named


@app.command("list", epilog="Example: `rmlab runs list --sweep data_scale --sort auc_task`")
def list_runs(
    sweep: Annotated[str | None, typer.Option(help="Only runs of this sweep.")] = None,
    kind: Annotated[str | None, typer.Option(help=f"Only runs of this kind: {', '.join(KINDS)}.")] = None,
    sort: Annotated[
        str | None, typer.Option(help="Sort by a metric, a parameter, name, started or minutes, largest first.")
    ] = None,
    ascending: Annotated[bool, typer.Option("--ascending", help="Sort smallest first.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Show at most this many runs.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with all parameters and metrics.")] = False,
    store: Annotated[
        str | None,
        typer.Option(
            "--store", help="A store's URL or file, a bundle, or a folder of bundles. Default: the project's own."
        ),
    ] = None,
) -> None:
    """List tracked runs as a table, newest first."""
    from rmlab.tracking.bundles.several import bundled_runs, bundles_named
    from rmlab.tracking.dead_runs import LeaseMonitor, close_dead
    from rmlab.tracking.query import runs
    from rmlab.tracking.run_index import run_infos
    from rmlab.tracking.store import Store, default_uri

    tags = {name: value for name, value in (("sweep", sweep), ("kind", kind)) if value}
    found: Sequence[AnyRun]
    every: Sequence[RunInfo]
    if bundles := bundles_named(store):
        with bundled_runs(bundles) as bundled:
            every = bundled  # a list needs no artifacts
        found = sorted((run for run in bundled if tags.items() <= run.tags.items()), key=lambda run: -run.start_time)
    else:
        opened = Store.to_read(store)
        found = runs(opened, tags=tags) if opened else []
        if opened and close_dead(opened, [run for run in found if run.end_time is None], LeaseMonitor()):
            found = runs(opened, tags=tags)
        every = run_infos(opened) if opened and not (found and as_csv) else []
    if not found:
        _check_known(tags, every, store or default_uri())
        print(
            f"no runs{''.join(f' of {name} {value}' for name, value in tags.items())} in {store or default_uri()}",
            file=sys.stderr if as_csv else sys.stdout,
        )
        return
    if sort:
        found = by(found, sort, ascending)
    chosen = found[:limit]
    if as_csv:
        _write_csv(chosen)
    else:
        _draw(chosen, [run.run_id for run in every], with_sweep=sweep is None)
        if len(chosen) < len(found):
            print(f"{len(chosen)} of {counted(len(found), 'run')}")


def _check_known(tags: Mapping[str, str], every: "Sequence[RunInfo]", where: str) -> None:
    """Raises UsageError for a sweep or kind that no run has and that there is not at all: a misspelt name."""
    for name, known in (("sweep", [path.stem for path in SWEEPS.glob("*.yaml")]), ("kind", KINDS)):
        there = sorted({run.tags[name] for run in every if name in run.tags})
        if name in tags and tags[name] not in (*there, *known):
            listed = ", ".join(there) or "none"
            kinds = f"the kinds are {', '.join(KINDS)}; " if name == "kind" else ""
            raise UsageError(
                f"--{name} {tags[name]}: there is no such {name}{near(tags[name], dict.fromkeys((*there, *known)))}; {kinds}in {where} "
                f"there are runs of: {listed}"
            )


@app.command(
    "export",
    epilog="Example: `rmlab runs export --sweep data_scale --without-models -o data_scale.zip`. For the page of a study: "
    "`rmlab runs export --study --sweep label_ratio --preset demo -o experiments/studies/label_ratio/runs.zip`",
)
def export(
    output: Annotated[Path, typer.Option("--out", "-o", help="The bundle to write: one zip file.")],
    run: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Ids of runs, or how they begin. Default: all runs that have ended.",
            show_default=False,
        ),
    ] = None,
    sweep: Annotated[str | None, typer.Option(help="Only runs of this sweep.")] = None,
    kind: Annotated[str | None, typer.Option(help=f"Only runs of this kind: {', '.join(KINDS)}.")] = None,
    without_models: Annotated[
        bool, typer.Option("--without-models", help="Leave model weights out; the rest fits into a few MB.")
    ] = False,
    preset: Annotated[str | None, typer.Option(help="Only runs of this preset.")] = None,
    control: Annotated[
        str | None, typer.Option(help="Only runs with this control hash, or one that begins so.")
    ] = None,
    study: Annotated[
        bool,
        typer.Option(
            "--study",
            help="Only what figures, tables and comparisons read, small enough for the repository: the newest finished run of each cell, "
            "without weights, pages, paths, host or user names. The same runs give the same bytes.",
        ),
    ] = False,
    store: StoreOption = None,
) -> None:
    """Export runs, with their artifacts and hashes, into one file for the store of another machine."""
    from rmlab.tracking.bundles.exporting import export_runs
    from rmlab.tracking.store import Store, default_uri

    opened = Store.existing(store)
    if opened is None:
        raise UsageError(f"there is nothing to export: no run has been tracked in {store or default_uri()}")
    done = export_runs(
        opened,
        output,
        run or [],
        sweep=sweep,
        kind=kind,
        preset=preset,
        control=control,
        models=not without_models,
        study=study,
    )
    along = f" and {counted(done.sources, 'run')} that they reuse" if done.sources else ""
    print(
        f"{output}: {counted(done.runs, 'run')}{along}, {counted(done.artifacts, 'artifact')}, {done.bytes / 1e6:.2f} MB"
    )
    if done.running:
        print(f"not exported, still running: {_named(done.running)}")
    if done.left_out:
        size = f"{sum(done.left_out.values()) / 1e6:.1f} MB"
        names = sorted({name.rpartition(": ")[2] for name in done.left_out})
        what = counted(len(done.left_out), "artifact" if study else "model")
        print(f"left out: {what}, {size}: {_named(names if study else list(done.left_out))}")


@app.command("import", epilog="Example: `rmlab runs import data_scale.zip`")
def import_runs(
    bundles: Annotated[list[Path], typer.Argument(metavar="BUNDLE...", help="Files that `rmlab runs export` wrote.")],
    store: StoreOption = None,
    without_summary: Annotated[
        bool,
        typer.Option(
            "--without-summary",
            help="Make no summary runs. This is quicker, and enough for `rmlab sweep` to find the cells finished.",
        ),
    ] = False,
) -> None:
    """Add the runs of bundles to the store. Hashes are checked first; runs that are already there are left alone. A sweep without a
    summary run, as in a study's bundle, gets one: table, figures, which levels differ. Imported cells that are finished count as
    finished for `rmlab sweep`, with or without their models."""
    from analysis.summaries.summary_runs import summarise_imported
    from rmlab.tracking.store import Store

    opened = Store.open(store)
    sweeps = {name for bundle in bundles for name in _show_import(bundle, opened)}
    for summary in summarise_imported(opened, sweeps) if not without_summary else ():
        print(f"summary run with table and figures: {summary}")


def _show_import(bundle: Path, store: "Store") -> set[str]:
    """Imports a bundle and prints what was added and what is still missing. Returns the experiments of its runs."""
    from rmlab.tracking.bundles.importing import import_bundle

    done = import_bundle(bundle, store)
    resumed = f" ({done.resumed} of them begun by an earlier import)" if done.resumed else ""
    completed = f", {done.completed} completed with artifacts that were missing" if done.completed else ""
    print(f"{store.uri}: {counted(done.added, 'run')} added{resumed}{completed}, {done.there} there already")
    if done.without:
        print(
            f"without their weights: {counted(len(done.without), 'run')}: {_named(list(done.without))}. They count as finished; "
            "`rmlab sweep NAME preset=P --rerun-without-weights` trains cells here"
        )
    return done.experiments


def by(found: "Sequence[AnyRun]", name: str, ascending: bool = False) -> "list[AnyRun]":
    """Runs in the order of a metric, a parameter or a fact: numbers by size, words by the alphabet; runs without it last."""
    names = {key for run in found for key in (*run.metrics, *run.params, *FACTS)}
    key = next((prefix + name for prefix in PREFIXES if prefix + name in names), None)
    if key is None:
        hint = near(name, sorted({known.rpartition("/")[2] for known in names}))
        raise UsageError(
            f"--sort {name}: no run has a metric or parameter of that name{hint}. `rmlab runs list --csv` has a column for each."
        )
    values = {run.run_id: value for run in found if (value := _value(run, key)) not in (None, "")}
    there = [run for run in found if run.run_id in values]
    try:
        numbers = {run_id: float(value) for run_id, value in values.items()}
        there.sort(key=lambda run: numbers[run.run_id], reverse=not ascending)
    except (TypeError, ValueError):
        there.sort(key=lambda run: str(values[run.run_id]), reverse=not ascending)
    return there + [run for run in found if run.run_id not in values]


def _value(run: "AnyRun", key: str) -> str | float | None:
    if key in run.metrics:
        return run.metrics[key]
    return run.params[key] if key in run.params else _facts(run)[key] if key in FACTS else None


def _facts(run: "AnyRun") -> dict[str, str]:
    from rmlab.tracking.tags import CONTINUED_BY, FAILED

    status = f"{run.status} (reused)" if run.is_reuse else run.status
    if CONTINUED_BY in run.tags:
        status += ", retried" if run.status == FAILED else ", continued"
    minutes = f"{(run.end_time - run.start_time) / 60_000:.1f}" if run.end_time else ""
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.start_time / 1000))
    tags = {name: run.tags.get(name, "") for name in ("kind", "sweep", "preset", "level", "arm")}
    return {"name": run.name, "status": status, **tags, "started": started, "minutes": minutes}


def short_ids(ids: "Sequence[str]") -> dict[str, str]:
    """The beginning of each id that no other one has, of the same length for all."""
    length = next(n for n in range(SHORT, 33) if n == 32 or len({one[:n] for one in ids}) == len(set(ids)))
    return {one: one[:length] for one in ids}


def _draw(found: "Sequence[AnyRun]", ids: Sequence[str], with_sweep: bool = True) -> None:
    """ids: of all runs there are, listed or not. with_sweep: say of which sweep each run is, where any is of one. A run's name need not
    say it: a summary is named by its preset, a cell by its factor, which several sweeps may vary. The UI has a sweep's runs on one page."""
    from rich.console import Console
    from rich.table import Table

    from rmlab.console_table import print_table
    from rmlab.tracking.views import DIGITS, HEADLINE, OF_RL

    shown = [name for name in HEADLINE.values() if any(name in run.metrics for run in found)]
    sweeps = ["sweep"] if with_sweep and any("sweep" in run.tags for run in found) else []
    table = Table("run", *sweeps, "id", "kind", "status", "preset", *shown, "minutes", "started", box=None)
    short = short_ids([*ids, *(run.run_id for run in found)])
    for run in found:
        facts = _facts(run)
        values = [f"{run.metrics[name]:.{DIGITS}g}" if name in run.metrics else "" for name in shown]
        table.add_row(
            facts["name"],
            *(facts[name] for name in sweeps),
            short[run.run_id],
            *(facts[name] for name in ("kind", "status", "preset")),
            *values,
            facts["minutes"],
            facts["started"],
        )
    console = Console(highlight=False, markup=False)
    print_table(console, table)
    if of_rl := [words for name, words in OF_RL.items() if name in shown]:
        console.print(f"{'; '.join(of_rl)}.", style="dim", soft_wrap=not console.is_terminal)


def _write_csv(found: "Sequence[AnyRun]") -> None:
    params = sorted({name for run in found for name in run.params})
    metrics = sorted({name for run in found for name in run.metrics})
    hashes = ["config_hash", "control_hash", "commit", "device"]
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(["run_id", *FACTS, *hashes, *(f"param {name}" for name in params), *metrics])
    for run in found:
        facts = _facts(run)
        rows.writerow(
            [
                run.run_id,
                *(facts[name] for name in FACTS),
                *(run.tags.get(name, "") for name in hashes),
                *(run.params.get(name, "") for name in params),
                *(run.metrics.get(name, "") for name in metrics),
            ]
        )


def _named(names: Sequence[str]) -> str:
    more = f", and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
