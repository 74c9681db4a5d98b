"""`rmlab compare A B`: by how much is A above B on the same trajectories, and could that be chance?

A and B are score tables or tracked verifier runs. The test is paired: all rows of a cluster swap sides together. Two RL runs are
compared by what their policies solve (`rmlab.rl.held_out`), two levels of a sweep across their seeds
(`rmlab.commands.compare_levels`).
"""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmlab.commands.compare_levels import compare_halves, compare_levels
from rmlab.errors import DataError, MissingArtifact, StoreError, StoreOutOfReach, UsageError
from rmlab.files import FORMATS
from rmlab.wording import counted, number

if TYPE_CHECKING:
    from rmlab.scores.columns import ColumnNames
    from rmlab.scores.scores import Scores
    from rmlab.tracking.query import TrackedRun

app = typer.Typer()

RL = "rl"
SHOWN = (
    "rm_at_k",
    "rm_at_k_weighted",
    "auc_within_task",
    "auc_within_task_patches",
    "auc_within_task_across",
    "auc_pooled",
    "ece_width_10",
    "ece_less_floor",
    "brier",
    "log_loss",
    "advantage_cosine",
)


@app.command(epilog="Example: `rmlab compare data_scale=1000 data_scale=4000 --sweep data_scale`")
def compare(
    a: Annotated[
        str | None,
        typer.Argument(
            help="A score table, a run, a cell (data_scale/demo/4000/s0) or a folder; with --sweep, a level.",
            show_default=False,
        ),
    ] = None,
    b: Annotated[
        str | None,
        typer.Argument(
            help="The other one, on the same trajectories; with --sweep, the level that is the baseline.",
            show_default=False,
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            help="Compare A and B as levels of this sweep, paired by seed. B is the baseline: Holm's correction covers the tests of all "
            "levels against B. If one of the two is the sweep's own baseline, that one is B."
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Preset of the sweep. Default: the one with finished runs.")
    ] = None,
    halves: Annotated[
        bool, typer.Option("--halves", help="Compare the seeds of one level with each other (A/A).")
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(help="For two RL runs: leave this held-out benchmark out of `all`, e.g. two_bugs."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            help="ROLE=COLUMN,... as for `rmlab evaluate`, for score tables that use other names; a table without these has the usual ones."
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="URL or file of a store; with --sweep, also a bundle.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> dict[str, Any]:
    """Compare two runs (verifiers or policies), score tables or levels of a sweep in pairs: differences and their intervals."""
    from rmlab.scores.columns import column_names

    if halves and sweep and b is None:
        return compare_halves(sweep, level=a, preset=preset, as_json=as_json, source=source)
    if a is None or b is None or halves:
        raise UsageError(
            "name what to compare: `rmlab compare A B`, `rmlab compare LEVEL LEVEL --sweep NAME` or "
            "`rmlab compare --halves --sweep NAME`"
        )
    if without and sweep:
        raise UsageError("--without leaves out a held-out benchmark: it needs two runs of RL")
    if columns and sweep:
        raise UsageError(
            "--columns names the columns of score tables; levels of a sweep have the usual ones: leave it out"
        )
    if sweep:
        return compare_levels(a, b, sweep, preset=preset, as_json=as_json, source=source)
    if preset:
        raise UsageError("--preset chooses among the runs of a sweep: it needs --sweep NAME")
    if source and all(Path(name).exists() for name in (a, b)):
        raise UsageError("--from says where to look up runs, but both sides are files or folders: leave it out")
    sides = [_Side(name, None if Path(name).exists() else _run(name, source)) for name in (a, b)]
    policies = _policies(sides)
    if without and not policies:
        raise UsageError("--without leaves out a held-out benchmark: it needs two runs of RL")
    if policies and columns:
        raise UsageError("--columns names the columns of score tables; RL runs have none: leave it out")
    if policies:
        return _compare_policies(sides, policies, as_json, without or [])
    return _compare_scores(sides, as_json, source, column_names(columns or []))


def _run(name: str, source: str | None) -> "TrackedRun":
    """The run of this name. What cannot be a run's name, but a level's, is said to be one."""
    from rmlab.tracking.query import SHORTEST, find_run

    try:
        return find_run(name, source)
    except (StoreOutOfReach, MissingArtifact):
        raise
    except (DataError, StoreError) as error:
        is_file = Path(name).suffix.lower() in FORMATS
        if "/" in name or is_file or re.fullmatch(rf"[0-9a-f]{{{SHORTEST},32}}", name):
            raise
        raise type(error)(f"{str(error).rstrip('.')}. Levels of a sweep are compared with --sweep NAME.") from error


@dataclass(frozen=True)
class _Side:
    """One side of the comparison: its name as given, and its run (None for a file or a folder)."""

    given: str
    run: "TrackedRun | None"

    def __str__(self) -> str:
        return f"{self.run.name} (run {self.run.run_id})" if self.run else self.given


def differences(a: "TrackedRun", b: "TrackedRun") -> dict[str, list[Any]]:
    """How two runs differ: keys of their configurations and tags of their origin, with both values."""
    import yaml

    from rmlab.tracking.parameters import TRACKING, differing_keys

    configs = [yaml.safe_load(run.artifact("config.yaml").read_text(encoding="utf-8")) for run in (a, b)]
    differing = {}
    for key in differing_keys(*configs):
        if not key.startswith(f"{TRACKING}."):
            differing[key] = [_at(config, key) for config in configs]
    for tag in ("dataset", "commit", "device"):
        values = [run.tags.get(tag) for run in (a, b)]
        if values[0] != values[1]:
            differing[tag] = values
    return differing


def _at(config: Any, key: str) -> Any:
    for part in key.split("."):
        config = config.get(part) if isinstance(config, dict) else None
    return config


def _with_runs(sides: "Sequence[_Side]", comparison: dict[str, Any]) -> dict[str, Any]:
    """The comparison, and where both sides are runs which they are and in what they differ."""
    a, b = (side.run for side in sides)
    if a is None or b is None:
        return comparison
    names = {side: {"name": run.name, "run_id": run.run_id} for side, run in (("a", a), ("b", b))}
    try:
        return {**comparison, "runs": names, "differ_in": differences(a, b)}
    except MissingArtifact as error:  # a bundle may have come without it
        print(f"how the two differ is unknown: {error}", file=sys.stderr)
        return {**comparison, "runs": names, "differ_in": None}


def _show_sides(sides: "Sequence[_Side]", comparison: dict[str, Any]) -> None:
    """Their names, and in what they differ."""
    print(f"A = {sides[0]}\nB = {sides[1]}")
    keys = comparison.get("differ_in")
    if keys:
        print("they differ in (A | B):", *(f"  {key}: {a} | {b}" for key, (a, b) in keys.items()), sep="\n")
    elif keys is not None:
        print("they do not differ: same configuration, commit and device")


def _compare_scores(
    sides: "Sequence[_Side]", as_json: bool, source: str | None, names: "ColumnNames"
) -> dict[str, Any]:
    """Raises DataError where the two hold other trajectories."""
    from rmlab.metrics.compare import compare as paired

    own_names = _with_the_names(sides, names)
    tables = (_read_scores(side.given, source, own) for side, own in zip(sides, own_names, strict=True))
    comparison = _with_runs(sides, paired(*tables))
    if as_json:
        print(json.dumps(comparison, indent=1, allow_nan=False))
    else:
        _show_sides(sides, comparison)
        _show_scores(comparison)
    return comparison


def _compare_policies(
    sides: "Sequence[_Side]", policies: "tuple[TrackedRun, TrackedRun]", as_json: bool, without: list[str]
) -> dict[str, Any]:
    from rmlab.rl.held_out import compare_policies

    comparison = _with_runs(sides, compare_policies(*policies, without))
    if as_json:
        print(json.dumps(comparison, indent=1, allow_nan=False))
    else:
        _show_sides(sides, comparison)
        _show_policies(comparison["benchmarks"])
        if without:
            print(f"all: without {', '.join(without)}.")
        if comparison["unpaired"]:
            print(f"{comparison['unpaired']} held-out tasks occur in only one of the runs and are left out.")
    return comparison


def _with_the_names(sides: "Sequence[_Side]", names: "ColumnNames") -> "list[ColumnNames]":
    """The names by which each side is read: those given for a file that has all of these columns, the usual ones for any other.

    Raises UsageError where no side is a file, DataError where none has the columns.
    """
    from rmlab.scores.columns import ColumnNames
    from rmlab.scores.table import has_columns, read_table

    if not names.named:
        return [names for _ in sides]
    files = [Path(side.given) for side in sides if Path(side.given).is_file()]
    if not files:
        raise UsageError("--columns names the columns of score tables; those of runs have the usual ones: leave it out")
    having = {path for path in files if has_columns(path, names)}
    if not having:
        read_table(files[0], names)  # says which column is missing
        raise DataError(f"{files[0]} has not all of the columns {', '.join(names.named.values())}: correct --columns")
    for letter, side in zip("AB", sides, strict=True):
        if Path(side.given) not in having:
            print(f"{letter} ({side}) is read by the usual names: it has not all columns of --columns", file=sys.stderr)
    return [names if Path(side.given) in having else ColumnNames() for side in sides]


def _read_scores(name: str, source: str | None, names: "ColumnNames") -> "Scores":
    """The score table of a file, or of the evaluation of a run. names: of the columns of a file."""
    from rmlab.scores.table import read_score_table, read_table
    from rmlab.tracking.query import find_artifact

    path = Path(name)
    if path.is_file():
        return read_table(path, names).scores
    return read_score_table(find_artifact(name, "scores.parquet", source))


def _policies(sides: "Sequence[_Side]") -> "tuple[TrackedRun, TrackedRun] | None":
    """Both runs where they are of RL, None where neither is. Raises UsageError where one is."""
    of_rl = [side.run for side in sides if side.run and side.run.tags.get("kind") == RL]
    if len(of_rl) == 1:
        raise UsageError(
            f"{of_rl[0].name} ({of_rl[0].run_id}) is an RL run and the other is not: name two RL runs, or two runs with scores"
        )
    return (of_rl[0], of_rl[1]) if of_rl else None


def _show_scores(compared: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from rmlab.console_table import print_table
    from rmlab.metrics.thin import few_clusters

    console = Console(highlight=False, markup=False)
    title = counted(compared["trajectories"], "attempt")
    table = Table("metric", "A", "B", "A - B", "95 %", "p", title=title, title_justify="left")
    for name in SHOWN:
        values = compared["metrics"].get(name) or {}
        curve = "difference" not in values
        for k, value in sorted(values.items(), key=lambda pair: int(pair[0])) if curve else [("", values)]:
            ends = value["ci95"]
            table.add_row(
                name.replace("_k", f"_{k}") if curve else name,
                *(number(value[key], 4) for key in ("a", "b", "difference")),
                f"{ends[0]:+.4f} to {ends[1]:+.4f}" if ends else "",
                number(value["p"], 4),
            )
    print_table(console, table)
    for line in few_clusters(compared["clusters"]):
        console.print(line, soft_wrap=not console.is_terminal)
    console.print(
        f"p: two-sided, from {compared['swaps']:,} swaps of whole clusters ({compared['clusters']:,}); for pooled AUC and ECE, which mix "
        f"clusters, from {compared['replicates']:,} resamples. One comparison, no correction.",
        style="dim",
        soft_wrap=not console.is_terminal,
    )


def _show_policies(rates: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from rmlab.console_table import print_table
    from rmlab.metrics.uncertainty import too_few

    console = Console(highlight=False, markup=False)
    table = Table("held out", "tasks", "A", "B", "A - B", "95 %", title="pass@1 after training", title_justify="left")
    for benchmark, ways in rates.items():
        for way, row in ways.items():
            table.add_row(
                f"{benchmark}, {way}",
                str(row["tasks"]),
                f"{row['after']:.3f}",
                f"{row['before']:.3f}",
                f"{row['difference']:+.3f}",
                "too few tasks" if too_few(row) else f"{row['low']:+.3f} to {row['high']:+.3f}",
            )
    print_table(console, table)
    console.print(
        "Intervals over clusters of held-out tasks. With one run each, they do not include the variation between seeds.",
        style="dim",
        soft_wrap=not console.is_terminal,
    )
