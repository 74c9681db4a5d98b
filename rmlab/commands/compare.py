"""`rmlab compare A B`: by how much is A above B on the same trajectories, and could that be chance?

A and B are score tables or tracked verifier runs, or one of them is a rule that needs no verifier (`rmlab.commands.compare_rules`). The
test is paired: all rows of a cluster swap sides together. Two RL runs are compared by what their policies solve (`rmlab.rl.held_out`),
two levels of a sweep across their seeds (`rmlab.commands.compare_levels`).
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmlab.commands.compare_levels import compare_halves, compare_levels
from rmlab.commands.compare_rules import beside_rule, rule_among, rules
from rmlab.commands.compare_shown import show_policies, show_scores
from rmlab.commands.compare_sides import Side, lookup, show_sides, with_runs
from rmlab.errors import DataError, UsageError

if TYPE_CHECKING:
    from rmlab.scores.columns import ColumnNames
    from rmlab.scores.scores import Scores
    from rmlab.tracking.bundles.reading import AnyRun

app = typer.Typer()

RL, SCORES = "rl", "scores.parquet"


@app.command(epilog="Example: `rmlab compare data_scale=1000 data_scale=4000 --sweep data_scale`")
def compare(
    a: Annotated[
        str | None,
        typer.Argument(
            help="A score table, a run (its id or its name), a cell (data_scale/demo/4000/s0) or a folder; with --sweep, a level.",
            show_default=False,
        ),
    ] = None,
    b: Annotated[
        str | None,
        typer.Argument(
            help="The other one, on the same trajectories, or a rule that needs no verifier (last_value, public_execution, length, shape, "
            "policy_identity, task_difficulty, random, oracle); with --sweep, the level that is the baseline.",
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
    trajectories: Annotated[
        Path | None,
        typer.Option(
            help="The trajectories that a rule reads. Default: those that the run was trained on and judged on; a score table needs them "
            "for the rules last_value, public_execution and shape."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", help="Look the runs up here instead: a store's URL or file, a bundle, or a folder of bundles."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> dict[str, Any]:
    """Compare two runs (verifiers or policies), score tables or levels of a sweep in pairs: differences and their intervals.

    One of the two may be a rule that needs no verifier.
    """
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
    if sweep and trajectories:
        raise UsageError("--trajectories is what a rule reads; levels of a sweep are no rules: leave it out")
    if sweep:
        return compare_levels(a, b, sweep, preset=preset, as_json=as_json, source=source)
    if preset:
        raise UsageError("--preset chooses among the runs of a sweep: it needs --sweep NAME")
    rule = rule_among(a, b)
    if trajectories and not rule:
        raise UsageError(f"--trajectories is what a rule reads, and neither side is a rule ({rules()}): leave it out")
    if source and all(name == rule or Path(name).exists() for name in (a, b)):
        raise UsageError("--from says where to look up runs, but no side is a run: leave it out")
    with lookup(source) as find:
        sides = [
            Side(name, None if name == rule or Path(name).exists() else find(name), name == rule) for name in (a, b)
        ]
        policies = _policies(sides)
        if without and not policies:
            raise UsageError("--without leaves out a held-out benchmark: it needs two runs of RL")
        if policies and columns:
            raise UsageError("--columns names the columns of score tables; RL runs have none: leave it out")
        if policies:
            return _compare_policies(sides, policies, as_json, without or [])
        return _compare_scores(sides, as_json, column_names(columns or []), trajectories)


def _compare_scores(
    sides: Sequence[Side], as_json: bool, names: "ColumnNames", trajectories: Path | None
) -> dict[str, Any]:
    """trajectories: what a rule reads. Raises DataError where the two hold other trajectories."""
    from rmlab.metrics.compare import compare as paired

    own_names = _with_the_names(sides, names)
    tables = [
        _read_scores(side, own, joined=trajectories is not None)
        for side, own in zip(sides, own_names, strict=True)
        if not side.is_rule
    ]
    if rule := next((side.given for side in sides if side.is_rule), None):
        [judged] = (side for side in sides if not side.is_rule)
        tables = list(beside_rule(rule, tables[0], judged.given, judged.run, trajectories))
        if sides[0].is_rule:
            tables.reverse()
    comparison = with_runs(sides, paired(*tables))
    if as_json:
        print(json.dumps(comparison, indent=1, allow_nan=False))
    else:
        show_sides(sides, comparison)
        show_scores(comparison)
    return comparison


def _compare_policies(
    sides: Sequence[Side], policies: "tuple[AnyRun, AnyRun]", as_json: bool, without: list[str]
) -> dict[str, Any]:
    from rmlab.rl.held_out import compare_policies

    comparison = with_runs(sides, compare_policies(*policies, without))
    if as_json:
        print(json.dumps(comparison, indent=1, allow_nan=False))
    else:
        show_sides(sides, comparison)
        show_policies(comparison["benchmarks"], without)
        if comparison["unpaired"]:
            print(f"{comparison['unpaired']} held-out tasks occur in only one of the runs and are left out.")
    return comparison


def _with_the_names(sides: Sequence[Side], names: "ColumnNames") -> "list[ColumnNames]":
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
        if not side.is_rule and Path(side.given) not in having:
            print(f"{letter} ({side}) is read by the usual names: it has not all columns of --columns", file=sys.stderr)
    return [names if Path(side.given) in having else ColumnNames() for side in sides]


def _read_scores(side: Side, names: "ColumnNames", joined: bool = False) -> "Scores":
    """The score table of a file, or of the evaluation of a run. names: of the columns of a file. joined: see `read_table`."""
    from rmlab.scores.table import read_score_table, read_table
    from rmlab.tracking.references import find_artifact

    path = Path(side.given)
    if path.is_file():
        return read_table(path, names, joined).scores
    table = side.run.artifact(SCORES) if side.run else find_artifact(side.given, SCORES)
    return read_score_table(table)


def _policies(sides: Sequence[Side]) -> "tuple[AnyRun, AnyRun] | None":
    """Both runs where they are of RL, None where neither is. Raises UsageError where one is."""
    of_rl = [side.run for side in sides if side.run and side.run.tags.get("kind") == RL]
    if len(of_rl) == 1:
        raise UsageError(
            f"{of_rl[0].name} ({of_rl[0].run_id}) is an RL run and the other is not: name two RL runs, or two runs with scores"
        )
    return (of_rl[0], of_rl[1]) if of_rl else None
