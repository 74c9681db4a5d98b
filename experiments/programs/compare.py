"""`rmlab compare A B`: what is A above B, on the same trajectories, and could that be chance?

A and B are score tables or tracked verifier runs. Paired: all rows of a cluster change sides together. Two runs of RL are
compared by what their policies solve (compare_policies).
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rmlab.configuration import load_program
from rmlab.errors import UsageError
from rmlab.metrics.compare import compare
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.tracking.query import TrackedRun

RL = "rl"
SHOWN = ("rm_at_k", "auc_within_task", "auc_pooled", "ece_width_10", "brier", "log_loss", "advantage_cosine")


def main(a: str, b: str, as_json: bool = False, uri: str | None = None) -> dict[str, Any]:
    """Prints the comparison (as one JSON object where `as_json`) and returns it.

    a, b: a score table's file or a run's id in the store `uri`. Raises DataError where they hold other trajectories.
    """
    if policies := _policies(a, b, uri):
        return cast("dict[str, Any]", load_program("compare_policies").main(*policies, as_json))
    found = compare(read_scores(a, uri), read_scores(b, uri))
    if as_json:
        print(json.dumps(found, indent=1, allow_nan=False))
    else:
        _show(a, b, found)
    return found


def read_scores(name: str, uri: str | None = None) -> Scores:
    """The score table of a file, or of the evaluation of a tracked run."""
    return read_score_table(Path(name) if Path(name).exists() else find_run(name, uri).artifact("scores.parquet"))


def _policies(a: str, b: str, uri: str | None) -> "list[TrackedRun]":
    """Both runs where they are of RL, none where neither is. Raises UsageError where one is."""
    found = [find_run(name, uri) for name in (a, b) if not Path(name).exists()]
    of_rl = [run for run in found if run.tags.get("kind") == RL]
    if len(of_rl) == 1:
        raise UsageError(
            f"{of_rl[0].name} ({of_rl[0].run_id}) is a run of RL and the other is not: name two runs of RL, or two that score"
        )
    return of_rl


def find_run(name: str, uri: str | None = None) -> "TrackedRun":
    """A run of the store by its id. Raises UsageError where nothing is tracked, StoreError where it is not there."""
    from rmlab.tracking.query import get_run
    from rmlab.tracking.store import Store

    store = Store.existing(uri)
    if store is None:
        raise UsageError(f"{name}: there is no such file, and no run either: nothing is tracked yet")
    return get_run(store, name)


def _show(a: str, b: str, found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"A = {a}\nB = {b}", markup=False, soft_wrap=True)
    table = Table(
        "metric", "A", "B", "A - B", "95 %", "p", title=counted(found["trajectories"], "attempt"), title_justify="left"
    )
    for name in SHOWN:
        values = found["metrics"].get(name) or {}
        curve = "difference" not in values
        for k, value in sorted(values.items(), key=lambda pair: int(pair[0])) if curve else [("", values)]:
            ends = value["ci95"]
            table.add_row(
                name.replace("_k", f"_{k}") if curve else name,
                *(_number(value[key]) for key in ("a", "b", "difference")),
                f"{ends[0]:+.4f} to {ends[1]:+.4f}" if ends else "",
                _number(value["p"]),
            )
    console.print(table)
    console.print(
        f"p: two-sided, {found['swaps']:,} swaps of whole clusters ({found['clusters']:,}). One comparison, no correction.",
        style="dim",
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
