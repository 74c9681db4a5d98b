"""Tracked runs as a table on a terminal, or as CSV with everything that they measured.

What `rmlab runs export` and `rmlab runs import` say of what they did.
"""

import csv
import difflib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rmlab.errors import UsageError
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.bundles.importing import import_bundle
from rmlab.tracking.bundles.reading import AnyRun, is_bundle, open_bundle
from rmlab.tracking.headline import DIGITS, HEADLINE
from rmlab.tracking.leases import LeaseMonitor, close_dead
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store, default_uri
from rmlab.tracking.tags import CONTINUED_BY
from rmlab.wording import counted

SHOWN = tuple(HEADLINE.values())
PREFIXES = ("", "eval/", "rl/", "train/")
FACTS = ("name", "kind", "status", "sweep", "preset", "level", "arm", "started", "minutes")


def show_runs(
    uri: str | None = None,
    sweep: str | None = None,
    *,
    kind: str | None = None,
    sort: str | None = None,
    ascending: bool = False,
    limit: int | None = None,
    as_csv: bool = False,
) -> None:
    """Prints the runs of a store or of a bundle (by its path), newest first.

    sweep, kind: only such runs. sort: a metric, a parameter or one of FACTS, largest first (smallest where ascending); runs
    without it come last. limit: so many lines. as_csv: all parameters and metrics (the last value of each) as CSV.
    Raises UsageError for a name to sort by that no run has. A run that says `running` though its process is dead is closed as killed.
    """
    tags = {name: value for name, value in (("sweep", sweep), ("kind", kind)) if value}
    found: Sequence[AnyRun]
    if uri and is_bundle(Path(uri)):
        with open_bundle(Path(uri)) as bundle:
            inside = [run for run in bundle.runs() if tags.items() <= run.tags.items()]
        found = sorted(inside, key=lambda run: -run.start_time)
    else:
        store = Store.to_read(uri)
        found = runs(store, tags=tags) if store else []
        if store and close_dead(store, [run for run in found if run.end_time is None], LeaseMonitor()):
            found = runs(store, tags=tags)
    if not found:
        print(
            f"no runs{''.join(f' of {name} {value}' for name, value in tags.items())} in {uri or default_uri()}",
            file=sys.stderr if as_csv else sys.stdout,
        )
        return
    if sort:
        found = by(found, sort, ascending)
    chosen = found[:limit]
    if as_csv:
        _write_csv(chosen)
    else:
        _draw(chosen)
        if len(chosen) < len(found):
            print(f"{len(chosen)} of {counted(len(found), 'run')}")


def by(found: Sequence[AnyRun], name: str, ascending: bool = False) -> list[AnyRun]:
    """Runs in the order of a metric, a parameter or a fact: numbers by size, words by the alphabet; runs without it last."""
    names = {key for run in found for key in (*run.metrics, *run.params, *FACTS)}
    key = next((prefix + name for prefix in PREFIXES if prefix + name in names), None)
    if key is None:
        close = difflib.get_close_matches(name, sorted({known.rpartition("/")[2] for known in names}), n=2)
        hint = f" (did you mean {' or '.join(close)}?)" if close else ""
        raise UsageError(f"--sort {name}: no run has a metric or parameter of that name{hint}")
    values = {run.run_id: value for run in found if (value := _value(run, key)) not in (None, "")}
    there = [run for run in found if run.run_id in values]
    try:
        numbers = {run_id: float(value) for run_id, value in values.items()}
        there.sort(key=lambda run: numbers[run.run_id], reverse=not ascending)
    except (TypeError, ValueError):
        there.sort(key=lambda run: str(values[run.run_id]), reverse=not ascending)
    return there + [run for run in found if run.run_id not in values]


def _value(run: AnyRun, key: str) -> str | float | None:
    if key in run.metrics:
        return run.metrics[key]
    return run.params[key] if key in run.params else _facts(run)[key] if key in FACTS else None


def _facts(run: AnyRun) -> dict[str, str]:
    status = f"{run.status} (reused)" if run.is_reuse else run.status
    if CONTINUED_BY in run.tags:
        status += ", continued"
    minutes = f"{(run.end_time - run.start_time) / 60_000:.1f}" if run.end_time else ""
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.start_time / 1000))
    tags = {name: run.tags.get(name, "") for name in ("kind", "sweep", "preset", "level", "arm")}
    return {"name": run.name, "status": status, **tags, "started": started, "minutes": minutes}


def _draw(found: Sequence[AnyRun]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = [name for name in SHOWN if any(name in run.metrics for run in found)]
    table = Table(box=None)
    for name in ("run", "kind", "status", "preset", *shown, "minutes", "started", "id"):
        table.add_column(name, no_wrap=name != "run", overflow="fold")  # a long name takes lines, and is not cut
    for run in found:
        facts = _facts(run)
        values = [f"{run.metrics[name]:.{DIGITS}g}" if name in run.metrics else "" for name in shown]
        table.add_row(
            *(facts[name] for name in ("name", "kind", "status", "preset")),
            *values,
            facts["minutes"],
            facts["started"],
            run.run_id,
        )
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:  # for a pipe: nothing cut
        console.width = 1000
    console.print(table, soft_wrap=True)


def _write_csv(found: Sequence[AnyRun]) -> None:
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


NAMED = 5  # of many, so many are named


def show_export(
    output: Path,
    run_ids: Sequence[str],
    *,
    sweep: str | None,
    kind: str | None,
    preset: str | None,
    control: str | None,
    models: bool,
    study: bool,
    uri: str | None,
) -> None:
    """Exports runs and prints what the bundle has, and what it has not."""
    store = Store.existing(uri)
    if store is None:
        raise UsageError(f"there is nothing to export: no run was ever tracked in {uri or default_uri()}")
    done = export_runs(
        store, output, run_ids, sweep=sweep, kind=kind, preset=preset, control=control, models=models, study=study
    )
    along = f" and {counted(done.sources, 'run')} that they reuse" if done.sources else ""
    print(
        f"{output}: {counted(done.runs, 'run')}{along}, {counted(done.artifacts, 'artifact')}, {done.bytes / 1e6:.2f} MB"
    )
    if done.running:
        print(f"not taken, under way: {_named(done.running)}")
    if done.left_out:
        size = f"{sum(done.left_out.values()) / 1e6:.1f} MB"
        names = sorted({name.rpartition(": ")[2] for name in done.left_out})
        what = counted(len(done.left_out), "artifact" if study else "model")
        print(f"left out: {what}, {size}: {_named(names if study else list(done.left_out))}")


def show_import(bundle: Path, uri: str | None) -> set[str]:
    """Imports a bundle and prints what came, and what is still missing. Returns the experiments of its runs."""
    store = Store.open(uri)
    done = import_bundle(bundle, store)
    resumed = f" ({done.resumed} of them begun by an earlier import)" if done.resumed else ""
    completed = f", {done.completed} completed with artifacts that were missing" if done.completed else ""
    print(f"{store.uri}: {counted(done.added, 'run')} added{resumed}{completed}, {done.there} there already")
    if done.without:
        print(
            f"without their models: {counted(len(done.without), 'run')}: {_named([f'{k}: {v}' for k, v in done.without.items()])}"
        )
    return done.experiments


def _named(names: Sequence[str]) -> str:
    more = f", and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
