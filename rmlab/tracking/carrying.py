"""What `rmlab runs export` and `rmlab runs import` say of what they did."""

from collections.abc import Sequence
from pathlib import Path

from rmlab.errors import UsageError
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.bundles.importing import import_bundle
from rmlab.tracking.store import Store, default_uri
from rmlab.wording import counted

NAMED = 5  # of many, so many are named


def show_export(
    output: Path, run_ids: Sequence[str], *, sweep: str | None, kind: str | None, models: bool, uri: str | None
) -> None:
    """Exports runs and prints what the bundle has, and what it has not."""
    store = Store.existing(uri)
    if store is None:
        raise UsageError(f"there is nothing to export: no run was ever tracked in {uri or default_uri()}")
    done = export_runs(store, output, run_ids, sweep=sweep, kind=kind, models=models)
    along = f" and {counted(done.sources, 'run')} that they reuse" if done.sources else ""
    print(
        f"{output}: {counted(done.runs, 'run')}{along}, {counted(done.artifacts, 'artifact')}, {done.bytes / 1e6:.2f} MB"
    )
    if done.running:
        print(f"not taken, under way: {_named(done.running)}")
    if done.left_out:
        print(
            f"left out: {counted(len(done.left_out), 'model')}, {sum(done.left_out.values()) / 1e6:.1f} MB: {_named(list(done.left_out))}"
        )


def show_import(bundle: Path, uri: str | None) -> None:
    """Imports a bundle and prints what came, and what is still missing."""
    store = Store.open(uri)
    done = import_bundle(bundle, store)
    resumed = f" ({done.resumed} of them begun by an earlier import)" if done.resumed else ""
    completed = f", {done.completed} completed with artifacts that were missing" if done.completed else ""
    print(f"{store.uri}: {counted(done.added, 'run')} added{resumed}{completed}, {done.there} there already")
    if done.without:
        print(
            f"without their models: {counted(len(done.without), 'run')}: {_named([f'{k}: {v}' for k, v in done.without.items()])}"
        )


def _named(names: Sequence[str]) -> str:
    more = f", and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
