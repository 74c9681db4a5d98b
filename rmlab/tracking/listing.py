"""Tracked runs as a table on a terminal."""

import time

from rmlab.tracking.heads import SOURCE_RUN
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store, default_uri

SHOWN = {"eval/auc_within_task": "AUC within", "eval/auc_pooled": "AUC", "eval/ece_width_10": "ECE", "eval/rm_at_k": "RM@most"}


def show_runs(uri: str | None, sweep: str | None) -> None:
    """Prints the runs of a store (of one sweep), newest first."""
    from rich.console import Console
    from rich.table import Table

    store = Store.existing(uri)
    found = runs(store, tags={"sweep": sweep} if sweep else None) if store else []
    if not found:
        print(f"no runs{f' of sweep {sweep}' if sweep else ''} in {uri or default_uri()}")
        return
    table = Table(box=None)
    for name in ("run", "kind", "status", "preset", *SHOWN.values(), "minutes", "started", "id"):
        table.add_column(name, no_wrap=True)
    for run in found:
        status = f"{run.status} (reused)" if SOURCE_RUN in run.tags else run.status
        minutes = f"{(run.end_time - run.start_time) / 60_000:.1f}" if run.end_time else ""
        values = [f"{run.metrics[name]:.3f}" if name in run.metrics else "" for name in SHOWN]
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.start_time / 1000))
        table.add_row(run.name, run.tags.get("kind", ""), status, run.tags.get("preset", ""), *values, minutes, started, run.run_id)
    console = Console(highlight=False)
    if not console.is_terminal:  # for a pipe: nothing cut
        console.width = 1000
    console.print(table, soft_wrap=True)
