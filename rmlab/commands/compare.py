"""`rmlab compare A B`: what is A above B, on the same trajectories, and could that be chance?

A and B are score tables or tracked verifier runs. Paired: all rows of a cluster change sides together. Two runs of RL are
compared by what their policies solve (`rmlab.rl.evaluation`), two levels of a sweep over their seeds
(`rmlab.commands.compare_levels`).
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmlab.commands.compare_levels import compare_halves, compare_levels
from rmlab.errors import UsageError
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.scores.scores import Scores
    from rmlab.tracking.query import TrackedRun

app = typer.Typer()

RL = "rl"
SHOWN = (
    "rm_at_k",
    "rm_at_k_weighted",
    "auc_within_task",
    "auc_within_task_patches",
    "auc_pooled",
    "ece_width_10",
    "ece_less_floor",
    "brier",
    "log_loss",
    "advantage_cosine",
)


@app.command(epilog="Example: `rmlab compare data_scale=8000 data_scale=3000 --sweep data_scale`")
def compare(
    a: Annotated[
        str | None,
        typer.Argument(
            help="A score table, a run, a cell (data_scale/demo/8000/s0) or a folder; with --sweep a level.",
            show_default=False,
        ),
    ] = None,
    b: Annotated[str | None, typer.Argument(help="Another on the same trajectories.", show_default=False)] = None,
    sweep: Annotated[
        str | None, typer.Option(help="A and B are levels of this sweep: seeds in pairs, Holm's correction.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Of the sweep. Default: the one that has finished runs.")] = None,
    halves: Annotated[
        bool, typer.Option("--halves", help="Compare the seeds of one level with each other (A/A).")
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Of two runs of RL: a held-out benchmark that stays out of `all`, such as two_bugs."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="A store's URL or file; with --sweep a bundle too.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> dict[str, Any]:
    """Paired comparison of two runs (verifiers or policies), score tables or levels of a sweep: differences and their intervals."""
    if halves and sweep and b is None:
        return compare_halves(sweep, level=a, preset=preset, as_json=as_json, source=source)
    if a is None or b is None or halves:
        raise UsageError(
            "name two: `rmlab compare A B`, `rmlab compare LEVEL LEVEL --sweep NAME` or "
            "`rmlab compare --halves --sweep NAME`"
        )
    if without and (sweep or not (policies := _policies(a, b, source))):
        raise UsageError("--without leaves out a held-out benchmark: it needs two runs of RL")
    if sweep:
        return compare_levels(a, b, sweep, preset=preset, as_json=as_json, source=source)
    if policies := _policies(a, b, source):
        return _compare_policies(policies, as_json, without or [])
    return _compare_scores(a, b, as_json, source)


def _compare_scores(a: str, b: str, as_json: bool, source: str | None) -> dict[str, Any]:
    """Raises DataError where the two hold other trajectories."""
    from rmlab.metrics.compare import compare as paired

    found: dict[str, Any] = paired(_read_scores(a, source), _read_scores(b, source))
    if as_json:
        print(json.dumps(found, indent=1, allow_nan=False))
    else:
        _show_scores(a, b, found)
    return found


def _compare_policies(policies: "tuple[TrackedRun, TrackedRun]", as_json: bool, without: list[str]) -> dict[str, Any]:
    from rmlab.rl.evaluation import compare_policies

    found = compare_policies(*policies, without)
    if as_json:
        print(json.dumps(found, indent=1, allow_nan=False))
    else:
        _show_policies(*policies, found["benchmarks"])
        if without:
            print(f"all: without {', '.join(without)}.")
        if found["unpaired"]:
            print(f"{found['unpaired']} held-out tasks are of one run alone and left out.")
    return found


def _read_scores(name: str, source: str | None) -> "Scores":
    """The score table of a file, or of the evaluation of a run."""
    from rmlab.scores.table import read_score_table
    from rmlab.tracking.query import find_artifact

    return read_score_table(Path(name) if Path(name).is_file() else find_artifact(name, "scores.parquet", source))


def _policies(a: str, b: str, source: str | None) -> "tuple[TrackedRun, TrackedRun] | None":
    """Both runs where they are of RL, None where neither is. Raises UsageError where one is."""
    from rmlab.tracking.query import find_run

    found = [find_run(name, source) for name in (a, b) if not Path(name).exists()]
    of_rl = [run for run in found if run.tags.get("kind") == RL]
    if len(of_rl) == 1:
        raise UsageError(
            f"{of_rl[0].name} ({of_rl[0].run_id}) is a run of RL and the other is not: name two runs of RL, or two that score"
        )
    return (of_rl[0], of_rl[1]) if of_rl else None


def _show_scores(a: str, b: str, found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
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
        f"p: two-sided, {found['swaps']:,} swaps of whole clusters ({found['clusters']:,}); of pooled AUC and ECE, which mix "
        f"clusters, {found['replicates']:,} resamples. One comparison, no correction.",
        style="dim",
    )


def _show_policies(a: "TrackedRun", b: "TrackedRun", found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    console.print(f"A = {a.name} ({a.run_id})\nB = {b.name} ({b.run_id})", markup=False, soft_wrap=True)
    table = Table("held out", "tasks", "A", "B", "A - B", "95 %", title="pass@1 after training", title_justify="left")
    for benchmark, ways in found.items():
        for way, row in ways.items():
            table.add_row(
                f"{benchmark}, {way}",
                str(row["tasks"]),
                f"{row['after']:.3f}",
                f"{row['before']:.3f}",
                f"{row['difference']:+.3f}",
                f"{row['low']:+.3f} to {row['high']:+.3f}",
            )
    console.print(table)
    console.print(
        "Intervals over clusters of held-out tasks. One run each: what another seed would give is not in them.",
        style="dim",
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
