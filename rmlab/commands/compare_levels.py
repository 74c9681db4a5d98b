"""`rmlab compare LEVEL LEVEL --sweep NAME`: do two levels of a sweep differ, or only their seeds, or only these tasks?

All levels of the sweep are tested against the second one, so that the variance between seeds is pooled and Holm's
correction covers the sweep, whichever row is read. The sweep's own baseline is the second one wherever it is one of the two: the verdict
is then that of the sweep's figures and pages. With `--halves` the seeds of one level are compared with each other: how
often does the test report a difference that does not exist?
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rmlab.errors import UsageError
from rmlab.wording import counted, near

if TYPE_CHECKING:
    from analysis.sweep.tracked import SweepRuns
    from rmlab.metrics.sweep_levels import LevelTest


def compare_levels(
    a: str, b: str, sweep: str, *, preset: str | None = None, as_json: bool = False, source: str | None = None
) -> dict[str, Any]:
    """Prints by how much level a is above level b in every arm (as one JSON object where `as_json`) and returns it.

    a, b: levels, or FACTOR=LEVEL; where a is the sweep's baseline they are exchanged. source: a store or a bundle, None = the project's
    own store.
    Raises UsageError for a sweep, preset or level that has no finished run.
    """
    from rmlab.metrics.sweep_levels import distinct

    group = _group(source, sweep, preset, [a, b])
    high, low = (_level(group, text) for text in (a, b))
    if high == low:
        raise UsageError(
            f"{a} and {b} are the same level; `rmlab compare --halves` compares a level's seeds with each other"
        )
    if high == group.baseline:
        high, low = low, high
        print(f"{low} is the sweep's baseline, so it is B here, and {high} is A", file=sys.stderr)
    group = replace(group, baseline=low)
    tests = [(arm, test) for (arm, level, _), test in group.tests.items() if level == high]
    tested = len(distinct(list(group.tests.values())))
    comparison = {
        "sweep": group.sweep,
        "preset": group.preset,
        "control_hash": group.control_hash,
        "a": high,
        "b": low,
        "family": tested,
        "tests": [{"arm": arm, **_plain(test)} for arm, test in tests],
    }
    if as_json:
        print(json.dumps(comparison, indent=1, allow_nan=False))
    else:
        named = [(arm, replace(test, metric=group.reported(test.metric))) for arm, test in tests]
        _show(f"{group.factor}: A = {high}, B = {low} ({group.note()})", named)
        print(
            f"Differences A - B, paired by seed. B = {low} is the baseline: p (Holm) is corrected over the {counted(tested, 'test')} of "
            f"all levels against {low}.",
            *group.cautions(),
            sep="\n",
        )
    return comparison


def compare_halves(
    sweep: str, *, level: str | None = None, preset: str | None = None, as_json: bool = False, source: str | None = None
) -> dict[str, Any]:
    """Prints how the halves of one level's seeds compare (as one JSON object where `as_json`) and returns it.

    level: None where the sweep has one. Raises UsageError where that does not name one, DataError for too few seeds.
    """
    from rmlab.metrics.same_level import same_level

    group = _group(source, sweep, preset, [level] if level else [])
    if level is None and len(group.levels) > 1:
        raise UsageError(
            f"sweep {sweep} has the levels {', '.join(group.levels)}: name one, e.g. "
            f"`rmlab compare {group.factor}={group.levels[0]} --halves --sweep {sweep}`"
        )
    name = _level(group, level) if level else group.levels[0]
    cells = group.at(name, group.arms[0])
    level_test = same_level([cell.scores for cell in cells])
    seeds = [cell.seed for cell in cells][: level_test.seeds]
    half = level_test.seeds // 2
    answer = {
        "sweep": group.sweep,
        "preset": group.preset,
        "control_hash": group.control_hash,
        "level": name,
        "seeds": seeds,
        "declared": [_plain(test) for test in level_test.declared],
        "splits": level_test.splits,
        "rejected": level_test.rejected,
        "families": level_test.families,
    }
    if as_json:
        print(json.dumps(answer, indent=1, allow_nan=False))
    else:
        _show(
            f"{group.factor}={name}: seeds {seeds[half:]} against seeds {seeds[:half]} ({group.note()})",
            [("", test) for test in level_test.declared],
        )
        shares = ", ".join(f"{metric} {share:.1%}" for metric, share in level_test.rejected.items())
        print(
            f"All {level_test.splits} splits of these seeds into two halves: p <= 0.05 in {shares}; any difference after Holm in "
            f"{level_test.families:.1%}. The splits share seeds: this is one draw of the rate, not an estimate over independent sweeps."
        )
    return answer


def _group(source: str | None, sweep: str, preset: str | None, levels: Sequence[str] = ()) -> "SweepRuns":
    """The sweep's runs at a preset, with their score tables; of several control hashes the one that ran last, of those that have
    the levels if any has."""
    from analysis.sweep.tracked import group_runs, source_runs

    with source_runs(source, ("verifier",)) as (_, tracked):
        groups = group_runs(tracked)
        mine = [group for group in groups if group.sweep == sweep]
        presets = sorted({group.preset for group in mine})
        chosen = [group for group in mine if preset in (None, group.preset)]
        if not chosen:
            there = (
                f"presets: {', '.join(presets)}"
                if mine
                else f"sweeps: {', '.join(sorted({g.sweep for g in groups})) or 'none'}"
            )
            asked = f"{sweep} at preset {preset}" if preset else sweep
            hint = "" if mine else near(sweep, sorted({group.sweep for group in groups}))
            where = source or "the project's store"
            raise UsageError(f"{where} has no finished verifier run of sweep {asked}{hint}; {there}")
        if preset is None and len(presets) > 1:
            raise UsageError(
                f"sweep {sweep} has finished runs at the presets {', '.join(presets)}: choose with --preset"
            )
        asked_for = {text.rpartition("=")[2] for text in levels}
        chosen = [group for group in chosen if asked_for <= set(group.levels)] or chosen
        latest = max(chosen, key=lambda group: max(cell.run.start_time for cell in group.cells))
        for cell in latest.cells:
            _ = cell.scores, cell.report  # kept from here on, where a bundle closes
        return latest


def _level(group: "SweepRuns", text: str) -> str:
    factor, equals, value = text.partition("=")
    if equals and factor != group.factor:
        raise UsageError(f"{text!r}: sweep {group.sweep} varies {group.factor}, not {factor}")
    level = value if equals else text
    if level not in group.levels:
        raise UsageError(
            f"{group.factor}={level} has no finished run in sweep {group.sweep}, preset {group.preset}; "
            f"levels: {', '.join(group.levels)}"
        )
    return level


def _plain(test: "LevelTest") -> dict[str, Any]:
    from analysis.sweep.level_tests import verdict

    plain = {**asdict(test), "by_seed": list(test.by_seed), "ci95": list(test.ci95) if test.ci95 else None}
    return {**plain, "verdict": verdict(test)}


def _show(title: str, tests: "Sequence[tuple[str, LevelTest]]") -> None:
    from rich.console import Console
    from rich.table import Table

    from analysis.sweep.level_tests import p_words, power, verdict
    from rmlab.console_table import print_table

    console = Console(highlight=False, markup=False)
    console.print(title, soft_wrap=not console.is_terminal)
    columns = ("metric", "seeds", "A - B", "95 %", "p", "p (Holm)", "80 % power from (alone / Holm)", "")
    table = Table(*columns, box=None)
    for arm, test in tests:
        ends = f"{test.ci95[0]:+.4f} to {test.ci95[1]:+.4f}" if test.ci95 else ""
        numbers = ["-" if test.difference is None else f"{test.difference:.4f}", *map(p_words, (test.p, test.p_holm))]
        table.add_row(
            f"{test.metric} {arm}".strip(), str(test.seeds), numbers[0], ends, *numbers[1:], power(test), verdict(test)
        )
    print_table(console, table)
