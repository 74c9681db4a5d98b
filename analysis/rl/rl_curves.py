"""What became of a policy while it was trained? Validation pass@1 above, what its verifier believed beyond the truth below.

One line a run: its colour is the verifier, its dash the reward; evidence that is voluntary has rows of its own, on the same scales.
The panels: pass@1 sampled and greedy on validation; share of episodes that run the public call; hacking gap; the verifier's
within-task AUC and its ECE on the policy's own attempts.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.presentation import style
from analysis.registry import Needs, figure
from analysis.rl.policies import PolicyRun, comparable, note
from analysis.rl.watched import FEWEST_MIXED, NONE, Value

PANELS = (
    (
        ("pass_at_1", "pass@1, sampled"),
        ("pass_at_1_greedy", "pass@1, greedy"),
        ("ran_share", "episodes that run the call"),
    ),
    (
        ("hacking_gap", "hacking gap"),
        ("verifier_auc_within_task", "verifier: AUC within task"),
        ("verifier_ece_width_10", "verifier: ECE"),
    ),
)
EVIDENCE = {"final": "final evidence", "voluntary": "voluntary evidence"}
MOST_BANDS = 6  # runs whose intervals can be told apart; of more, only the last evaluation's is drawn
OF_VERIFIER = "verifier_"
MARKS = (
    "Lines: single runs, coloured by verifier, dashed by reward; a verifier's name stands for another model in the rows of another "
    "evidence. Bands, or bars at the last evaluation where runs are many: 95 % intervals over clusters of validation tasks (those of all "
    "evaluations are in the CSV); hacking gap: (mean score - true rate) minus the same before training, on the policy's own attempts at "
    f"validation tasks. An AUC of fewer than {FEWEST_MIXED} tasks with attempts of both labels is not drawn. A run without a verifier "
    "has no line in the rows of the hacking gap."
)

Point = tuple[int, float, float | None, float | None]
"""Step, value (NaN = not known), and the ends of its interval where there is one."""


@figure(
    "How does a policy change during training? pass@1, and below it the hacking gap, for all RL runs of one start and "
    "length; voluntary evidence has rows of its own.",
    Needs.rl,
)
def draw(runs: Sequence[PolicyRun], out: Path) -> list[Path]:
    """Draws rl_curves.{pdf,png,csv} for every group of comparable runs into OUT/rl/GROUP."""
    return [path for name, group in comparable(runs).items() for path in _draw(group, out / "rl" / name)]


def _draw(runs: Sequence[PolicyRun], folder: Path) -> list[Path]:
    lines = {(run.run.run_id, name): points(run, name) for run in runs for panels in PANELS for name, _ in panels}
    parts = [
        (evidence, panels)
        for evidence in dict.fromkeys(run.evidence for run in runs)
        for panels in PANELS
        if any(lines[run.run.run_id, name] for run in runs if run.evidence == evidence for name, _ in panels)
    ]
    said = {evidence for evidence, _ in parts} != {"final"}
    strokes, rows = _strokes(runs), list[dict[str, Any]]()
    with style.figure(len(parts), 3, 3.4, 2.3 if len(parts) > len(PANELS) else 2.6, sharex=True) as (drawn, axes):
        first: dict[str, Any] = {}
        for i, (evidence, panels) in enumerate(parts):
            own = [run for run in runs if run.evidence == evidence]
            for axis, (name, title) in zip(axes[i], panels, strict=True):
                if name in first:
                    axis.sharey(first[name])
                first.setdefault(name, axis)
                for place, run in enumerate(own):
                    found = lines[run.run.run_id, name]
                    _line(
                        axis, found, strokes[run.name], place if len(own) > MOST_BANDS else None, of_evaluations(name)
                    )
                    rows += [
                        {
                            "panel": name,
                            "arm": run.label,
                            "seed": run.seed,
                            "step": step,
                            "value": value,
                            "low": low,
                            "high": high,
                            "run_id": run.run.run_id,
                        }
                        for step, value, low, high in found
                        if not math.isnan(value)
                    ]
                axis.set_title(title)
                if name == "hacking_gap":
                    axis.axhline(0, color=style.REFERENCE, linewidth=0.6)
            if said:
                axes[i][0].set_ylabel(EVIDENCE.get(evidence, evidence), fontweight="bold")
        for axis in axes[-1]:
            axis.set_xlabel("step")
            axis.xaxis.get_major_locator().set_params(integer=True)
        _legend(drawn, strokes)
        style.footnote(drawn, f"{note(runs)}\n{MARKS}")
        return style.save(drawn, folder, "rl_curves", rows)


def _line(axis: Any, found: Sequence[Point], stroke: dict[str, Any], place: int | None, marked: bool) -> None:
    """One run in one panel. place: among many runs, whose bars at the last evaluation stand beside each other; None = bands. marked: its
    points, so that one between two gaps is seen."""
    if not found:
        return
    steps, values = [point[0] for point in found], [point[1] for point in found]
    axis.plot(steps, values, linewidth=1.0, marker="." if marked else None, markersize=3, **stroke)
    known = [(step, low, high) for step, _, low, high in found if low is not None and high is not None]
    if place is None:
        axis.fill_between(
            [step for step, *_ in known],
            [low for _, low, _ in known],
            [high for *_, high in known],
            color=stroke["color"],
            alpha=0.12,
            lw=0,
        )
    elif known and known[-1][0] == steps[-1]:
        axis.vlines(steps[-1] * (1.015 + 0.012 * place), *known[-1][1:], lw=0.8, **stroke)


def _legend(drawn: Any, strokes: dict[str, dict[str, Any]]) -> None:
    """One entry for each reward and verifier; evidence has its rows."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], linewidth=1.0, **stroke) for stroke in strokes.values()]
    drawn.legend(handles, [style.short(name, 40) for name in strokes], loc="outside right center")


def _strokes(runs: Sequence[PolicyRun]) -> dict[str, dict[str, Any]]:
    """Name to colour and dash."""
    arms = {run.name: run.arm for run in runs}
    rewards, verifiers = ([*dict.fromkeys(arm[i] for arm in arms.values())] for i in (0, 1))
    colours = style.level_colours(verifiers, ordered=False)
    return {
        name: {"color": colours[verifier], "linestyle": style.DASHES[rewards.index(reward) % len(style.DASHES)]}
        for name, (reward, verifier, _) in arms.items()
    }


def points(run: PolicyRun, name: str) -> list[Point]:
    """An evaluation's metric by its outcome, or a step's by the run's series. An evaluation where it is undefined breaks the line."""
    curve = run.outcome["curve"]
    if not of_evaluations(name):
        return [(step, value, None, None) for step, value in run.run.series(f"rl/{name}")]
    found: list[Point] = []
    for row in curve:
        value, low, high = _at(run, name, row)
        found.append((int(row["step"]), math.nan if value is None else value, low, high))
    return found if any(not math.isnan(point[1]) for point in found) else []


def of_evaluations(name: str) -> bool:
    """Whether a metric is measured at evaluations, not at every step."""
    return name.startswith((OF_VERIFIER, "pass_at_1", "hacking_gap"))


def _at(run: PolicyRun, name: str, row: dict[str, Any]) -> Value:
    """A metric of one evaluation with its interval."""
    step = int(row["step"])
    if name == "hacking_gap":
        return run.watched.gaps.get(step, NONE)
    if name.startswith(OF_VERIFIER):
        return run.watched.measured[step].get(name.removeprefix(OF_VERIFIER), NONE)
    return row.get(name), row.get(f"{name}_low"), row.get(f"{name}_high")
