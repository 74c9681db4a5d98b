"""What became of a policy while it was trained? Validation pass@1 above, what its verifier believed beyond the truth below.

One line a run: its colour is the verifier, its dash the reward; evidence that is voluntary has rows of its own, on the same scales.
The panels: pass@1 sampled and greedy on validation; share of episodes that run the public call; hacking gap; the verifier's
within-task AUC and its ECE on the policy's own attempts.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis import style
from analysis.looks import FEWEST_MIXED
from analysis.policies import PolicyRun, comparable, note

PANELS = (
    (("pass_at_1", "pass@1, sampled"), ("pass_at_1_greedy", "pass@1, greedy"), ("ran_share", "episodes that run the call")),
    (("hacking_gap", "hacking gap"), ("verifier_auc_within_task", "verifier: AUC within task"), ("verifier_ece_width_10", "verifier: ECE")),
)
EVIDENCE = {"final": "final evidence", "voluntary": "voluntary evidence"}
MOST_BANDS = 6  # runs whose intervals can be told apart; of more, only the last look's is drawn
MOST_MARKED = 20  # points of a line that are marked, so that one between two gaps is seen
MARKS = ("Lines: single runs, coloured by verifier, dashed by reward; bands, or bars at the last look where runs are many: 95 % intervals "
         "over clusters of validation tasks (all are in the CSV); hacking gap: (mean score - true rate) minus the same before training, "
         "on the policy's own attempts at validation tasks. An AUC of fewer than "
         f"{FEWEST_MIXED} tasks with attempts of both labels is not drawn. A run without a verifier has no line in the lower row; "
         "where no run has one there is none.")

Point = tuple[int, float, float | None, float | None]
"""Step, value (NaN = not shown), and the ends of its interval where there is one."""


def draw(runs: Sequence[PolicyRun], out: Path) -> list[Path]:
    """Draws rl_curves.{pdf,png,csv} for every group of comparable runs into OUT/rl/GROUP."""
    return [path for name, group in comparable(runs).items() for path in _draw(group, out / "rl" / name)]


def _draw(runs: Sequence[PolicyRun], folder: Path) -> list[Path]:
    lines = {(run.run.run_id, name): points(run, name) for run in runs for panels in PANELS for name, _ in panels}
    parts = [(evidence, panels) for evidence in dict.fromkeys(run.evidence for run in runs) for panels in PANELS
             if any(lines[run.run.run_id, name] for run in runs if run.evidence == evidence for name, _ in panels)]
    apart = len({evidence for evidence, _ in parts}) > 1
    marks, rows = _looks(runs), list[dict[str, Any]]()
    with style.figure(len(parts), 3, 3.4, 2.3 if apart else 2.6, sharex=True) as (drawn, axes):
        scales: dict[str, Any] = {}
        for i, (evidence, panels) in enumerate(parts):
            own = [run for run in runs if run.evidence == evidence]
            for axis, (name, title) in zip(axes[i], panels, strict=True):
                axis.sharey(scales.setdefault(name, axis)) if name in scales else scales.update({name: axis})
                for run in own:
                    found = lines[run.run.run_id, name]
                    _line(axis, found, marks[run.label], own.index(run) if len(own) > MOST_BANDS else None)
                    rows += [{"panel": name, "arm": run.label, "seed": run.seed, "step": step, "value": value, "low": low,
                              "high": high, "run_id": run.run.run_id} for step, value, low, high in found if not math.isnan(value)]
                axis.set_title(title)
                if name == "hacking_gap":
                    axis.axhline(0, color=style.REFERENCE, linewidth=0.6)
            if apart:
                axes[i][0].set_ylabel(EVIDENCE.get(evidence, evidence), fontweight="bold")
        for axis in axes[-1]:
            axis.set_xlabel("step")
        _legend(drawn, runs, marks)
        style.footnote(drawn, f"{note(runs)}\n{MARKS}")
        return style.save(drawn, folder, "rl_curves", rows)


def _line(axis: Any, found: Sequence[Point], marks: dict[str, Any], place: int | None) -> None:
    """One run in one panel. place: among many runs, whose bars at the last look stand beside each other; None = bands."""
    if not found:
        return
    steps, values, lows, highs = (list(side) for side in zip(*found, strict=True))
    axis.plot(steps, values, linewidth=1.0, marker="." if len(steps) <= MOST_MARKED else None, markersize=3, **marks)
    if any(low is None for low in lows):
        return
    if place is None:
        axis.fill_between(steps, lows, highs, color=marks["color"], alpha=0.12, lw=0)
    else:
        axis.vlines(steps[-1] * (1.015 + 0.012 * place), lows[-1], highs[-1], color=marks["color"], linestyle=marks["linestyle"], lw=0.8)


def _legend(drawn: Any, runs: Sequence[PolicyRun], marks: dict[str, dict[str, Any]]) -> None:
    """One entry for each reward and verifier; evidence has its rows."""
    from matplotlib.lines import Line2D

    entries = {", ".join(filter(None, run.arm[:2])): marks[run.label] for run in runs}
    drawn.legend([Line2D([], [], linewidth=1.0, **mark) for mark in entries.values()], list(entries), loc="outside right center")


def _looks(runs: Sequence[PolicyRun]) -> dict[str, dict[str, Any]]:
    """Label to colour and dash."""
    arms = {run.label: run.arm for run in runs}
    rewards, verifiers = ([*dict.fromkeys(arm[i] for arm in arms.values())] for i in (0, 1))
    colours = style.level_colours(verifiers, ordered=False)
    return {label: {"color": colours[verifier], "linestyle": style.DASHES[rewards.index(reward) % len(style.DASHES)]}
            for label, (reward, verifier, _) in arms.items()}


def points(run: PolicyRun, name: str) -> list[Point]:
    """A look's metric by its outcome, or a step's by the run's series."""
    curve = {int(row["step"]): row for row in run.outcome["curve"] if name in row}
    if not curve:
        return [(step, value, None, None) for step, value in run.run.series(f"rl/{name}")]
    found: list[Point] = []
    for step, row in curve.items():
        low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
        if name == "hacking_gap" and step in run.looks.gaps:
            low, high = run.looks.gaps[step].low, run.looks.gaps[step].high
        found.append((step, float(row[name]) if run.looks.shows(name, step) else math.nan, low, high))
    return found
