"""pass@1 after RL on each of the four held-out benchmarks, by what pays; beside it, in a panel and a table of its own, what SWE-RM reports.

The arms are those of the figure `rl_by_reward`; of the study which_metric_foretells_rl also the good verifier, recalibrated and with
scores that are far too high, the counterpart of the paper's poorly calibrated verifier. The paper's benchmarks are other tasks, its
policies and verifiers other models: its values are not comparable in size, and stand apart.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from analysis.foretelling.runs import read_study
from analysis.presentation import style
from analysis.presentation.captions import Caption, latex, write_captions
from analysis.publication.rl_by_reward import KNOWN, by_reward, mean_over_units, named, unit
from analysis.registry import Needs, figure
from analysis.rl.policies import PolicyRun
from analysis.verifiers.discrimination_calibration import PAPER
from rmlab.files import write_text
from rmlab.rl.held_out import NAMES
from rmlab.wording import counted, estimate, number

NAME = "rl_benchmarks"
ONE_VERIFIER = {
    "recalibrated": "the good verifier alone, recalibrated",
    "shifted_far_up": "the good verifier alone, far too high",
}
"""Conditions of the study's causal experiment that are arms here; their runs are RL seeds of one verifier."""
WAYS = {"greedy": "greedy, one attempt a task", "sampled": "sampled, four attempts a task"}
SHOWN = "greedy"
"""The way that is drawn, as the paper's values are."""
REPORTED = {
    "execution": "execution",
    "execution_free": "execution-free",
    "hybrid": "hybrid",
    "poorly_calibrated": "poorly calibrated verifier",
}
LOOKS: dict[str, tuple[str, str]] = {
    "execution": (KNOWN["execution"][0], "s"),
    "execution_free": (KNOWN["execution_free"][0], "o"),
    "execution_free, voluntary evidence": (style.WORDS[2], "v"),
    "hybrid": (KNOWN["hybrid"][0], "D"),
    ONE_VERIFIER["recalibrated"]: (style.WORDS[5], "^"),
    ONE_VERIFIER["shifted_far_up"]: (style.WORDS[3], "X"),
    "poorly_calibrated": (style.WORDS[3], "X"),
}
OTHER = (style.WORDS[7], "P")


@dataclass(frozen=True)
class Arm:
    """Runs under one reward. units: of each run what it is a repetition of, its start and a name: means are over units within starts."""

    name: str
    runs: Sequence[PolicyRun]
    units: Sequence[tuple[str, str]]


@figure(
    "What is pass@1 after RL on each held-out benchmark, by what pays? A figure and a table (`rl_benchmarks.md`, `rl_benchmarks.tex`); the "
    "paper's values are in a panel and a table of their own.",
    Needs.rl_study,
)
def draw(runs: Sequence[PolicyRun], out: Path) -> list[Path]:
    """Draws rl_benchmarks.{pdf,png,csv,md,tex}, rl_benchmarks_one_column.pdf and their captions into OUT/rl/rl_benchmarks."""
    rows = measured(arms_of(runs))
    if not rows:
        print(f"{NAME}: no finished RL run was judged on a held-out benchmark", file=sys.stderr)
        return []
    folder, paths = out / "rl" / NAME, list[Path]()
    paper = reported()
    for columns, width, height in ((2, style.TWO_COLUMNS, 3.0), (1, style.ONE_COLUMN, 5.4)):
        with style.figure(2 // columns, columns, width / columns, height / (2 // columns)) as (drawn, axes):
            left, right = axes.flat
            _panel(left, [row for row in rows if row["way"] == SHOWN], "micro-SWE, measured")
            _panel(right, paper, "SWE-RM, as reported")
            for axis in (left, right):  # below the two lines of its benchmarks' names
                axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2 if columns > 1 else -0.25))
            if columns > 1:
                paths += style.save(drawn, folder, NAME, [*rows, *paper])
            else:
                paths.append(style.save_picture(drawn, folder / f"{NAME}_one_column.pdf"))
    write_text(folder / f"{NAME}.md", markdown(rows, paper))
    write_text(folder / f"{NAME}.tex", tabular(rows))
    return [*paths, folder / f"{NAME}.md", folder / f"{NAME}.tex", *write_captions(folder, NAME, caption(rows))]


def arms_of(runs: Sequence[PolicyRun]) -> list[Arm]:
    """The arms, in the order in which they are shown."""
    arms = [Arm(name, own, [unit(run) for run in own]) for name, own in by_reward(runs).items()]
    of_one = [run for run in read_study(runs).of("distortion") if run.cell["condition"] in ONE_VERIFIER]
    for condition, name in ONE_VERIFIER.items():
        own = [run.policy for run in of_one if run.cell["condition"] == condition]
        if own:  # of one verifier and start: a seed is the unit, whichever weights it began from
            arms.append(Arm(name, own, [("", run.run.run_id) for run in own]))
    return arms


def measured(arms: Sequence[Arm]) -> list[dict[str, Any]]:
    """A row an arm, benchmark and way to attempt: mean pass@1 before and after, and its change, over units with 95 % intervals (t,
    within starts; NaN where there are too few units)."""
    rows = []
    for arm in arms:
        for way in WAYS:
            for name in NAMES:
                known = [
                    (of, held_out[name][way])
                    for run, of in zip(arm.runs, arm.units, strict=True)
                    if way in (held_out := run.outcome["held_out"]).get(name, {})
                ]
                if not known:
                    continue
                after, low, high = mean_over_units([(of, float(ends["after"])) for of, ends in known])
                change, least, most = mean_over_units([(of, float(ends["difference"])) for of, ends in known])
                rows.append(
                    {
                        "panel": "measured",
                        "arm": arm.name,
                        "benchmark": name,
                        "way": way,
                        "before": mean_over_units([(of, float(ends["before"])) for of, ends in known])[0],
                        "value": after,
                        "low": low,
                        "high": high,
                        "change": change,
                        "change_low": least,
                        "change_high": most,
                        "runs": len(known),
                        "units": len({of for of, _ in known}),
                        "tasks": max(int(ends["tasks"]) for _, ends in known),
                    }
                )
    return rows


def reported() -> list[dict[str, Any]]:
    """pass@1 (greedy) of SWE-RM as reported, a row an arm and benchmark; values that are not reported are left out."""
    given = yaml.safe_load(PAPER.read_text(encoding="utf-8"))["rl"]
    return [
        {"panel": "reported", "arm": arm, "benchmark": name, "way": "greedy", "value": value}
        for arm in REPORTED
        for name, value in zip(given["benchmarks"], given[arm], strict=True)
        if value is not None
    ]


def _panel(axis: Any, rows: Sequence[dict[str, Any]], title: str) -> None:
    """Marks of arms beside one another over the benchmarks, with intervals where there are any; a short grey line: before RL."""
    names, arms = list(dict.fromkeys(row["benchmark"] for row in rows)), list(dict.fromkeys(row["arm"] for row in rows))
    for number_of, arm in enumerate(arms):
        own = {row["benchmark"]: row for row in rows if row["arm"] == arm}
        place = [names.index(name) + 0.8 * ((number_of + 0.5) / len(arms) - 0.5) for name in own]
        colour, mark = LOOKS.get(arm, OTHER)
        words = REPORTED[arm] if own and next(iter(own.values()))["panel"] == "reported" else named(arm)
        axis.plot(place, [row["value"] for row in own.values()], mark, color=colour, markersize=4, label=words)
        for x, row in zip(place, own.values(), strict=True):
            if not np.isnan(row.get("low", np.nan)):
                axis.plot([x, x], [row["low"], row["high"]], color=colour, linewidth=0.9)
            if "before" in row:
                axis.plot([x - 0.06, x + 0.06], [row["before"]] * 2, color=style.REFERENCE, linewidth=0.9, zorder=1)
    labels = [name.replace("_", " ").replace("-Bench", "- Bench").replace(" ", "\n", 1) for name in names]
    axis.set_xticks(range(len(names)), labels, fontsize=7)
    axis.set(title=title, ylabel=f"pass@1, {SHOWN}")
    axis.set_ylim(bottom=min(-0.01, axis.get_ylim()[0]))
    axis.grid(visible=False, axis="x")


def markdown(rows: Sequence[dict[str, Any]], paper: Sequence[dict[str, Any]]) -> str:
    """A table for each way to attempt, then the paper's."""
    lines = list[str]()
    for way, words in WAYS.items():
        own = [row for row in rows if row["way"] == way]
        names = list(dict.fromkeys(row["benchmark"] for row in own))
        heads = [f"{name} ({max(row['tasks'] for row in own if row['benchmark'] == name)} tasks)" for name in names]
        lines += [f"**pass@1 after RL on held-out benchmarks of micro-SWE, {words}** (change from the start):", ""]
        lines += [f"| what pays | runs | {' | '.join(heads)} |", "|---" * (2 + len(names)) + "|"]
        for arm in dict.fromkeys(row["arm"] for row in own):
            by_name = {row["benchmark"]: row for row in own if row["arm"] == arm}
            cells = [_cell(by_name.get(name)) for name in names]
            runs = max(row["runs"] for row in by_name.values())
            lines.append(f"| {named(arm)} | {runs} | {' | '.join(cells)} |")
        lines.append("")
    names = list(dict.fromkeys(row["benchmark"] for row in paper))
    lines += [
        "**As SWE-RM (arXiv 2512.21919) reports it, pass@1, greedy.** By public notes; other tasks, policies and verifiers, so not "
        "comparable in size:",
        "",
        f"| what pays | {' | '.join(names)} |",
        "|---" * (1 + len(names)) + "|",
    ]
    for arm, words in REPORTED.items():
        values = {row["benchmark"]: row["value"] for row in paper if row["arm"] == arm}
        lines.append(f"| {words} | {' | '.join(number(values.get(name)) for name in names)} |")
    return "\n".join([*lines, "", f"{_intervals(rows)}", ""])


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    ends = (None, None) if np.isnan(row["change_low"]) else (row["change_low"], row["change_high"])
    return f"{row['value']:.3f} ({estimate(row['change'], ends, signed=True)})"


def tabular(rows: Sequence[dict[str, Any]]) -> str:
    """The table of the way that is drawn, for LaTeX: mean pass@1 after RL and, below it, its change from the start."""
    own = [row for row in rows if row["way"] == SHOWN]
    names = list(dict.fromkeys(row["benchmark"] for row in own))
    lines = [
        rf"\begin{{tabular}}{{l{'r' * len(names)}}}",
        r"\hline",
        f"what pays & {' & '.join(map(latex, names))} \\\\",
    ]
    lines.append(r"\hline")
    for arm in dict.fromkeys(row["arm"] for row in own):
        by_name = {row["benchmark"]: row for row in own if row["arm"] == arm}
        cells = [_cell(by_name.get(name)).partition(" (") for name in names]
        lines.append(f"{latex(named(arm))} & {' & '.join(cell[0] for cell in cells)} \\\\")
        lines.append(f" & {' & '.join(latex(cell[2].removesuffix(')')) for cell in cells)} \\\\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])


def _intervals(rows: Sequence[dict[str, Any]]) -> str:
    """What the intervals are of, and of how many units each arm is."""
    counts = {row["arm"]: (row["runs"], row["units"]) for row in rows}
    words = [
        f"{named(arm)}: {counted(runs, 'run')}" + (f" of {counted(units, 'verifier')}" if units < runs else "")
        for arm, (runs, units) in counts.items()
    ]
    return (
        "Intervals: 95 %, over trainings of verifiers within starts (t); of one verifier, and of what execution alone pays, over runs; "
        f"without the part of tasks. n = {', '.join(words)}."
    )


def caption(rows: Sequence[dict[str, Any]]) -> Caption:
    """What a reader of the figure alone has to know."""
    tasks = {row["benchmark"]: row["tasks"] for row in rows}
    return Caption(
        "pass@1 after RL on four held-out benchmarks, by what pays.",
        "Left or top: micro-SWE, measured, greedy attempts; bars: 95 % intervals; short grey lines: before RL. Benchmarks: "
        f"{', '.join(f'{name} ({count} tasks)' for name, count in tasks.items())}. Right or bottom: what SWE-RM (arXiv 2512.21919) "
        "reports, by public notes; other tasks, policies and verifiers, so not comparable in size.",
        _intervals(rows),
    )
