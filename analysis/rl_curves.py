"""What became of a policy while it was trained? Validation pass@1 above, what its verifier believed beyond the truth below.

One line a run: its colour is the verifier, its dash the reward, circles are voluntary evidence. The panels: pass@1 sampled and
greedy on validation, with intervals; share of episodes that run the public call; hacking gap; the verifier's within-task AUC and
its ECE on the policy's own attempts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis import style
from analysis.policies import PolicyRun, comparable, note

PANELS = (
    (("pass_at_1", "pass@1, sampled"), ("pass_at_1_greedy", "pass@1, greedy"), ("ran_share", "episodes that run the call")),
    (("hacking_gap", "hacking gap"), ("verifier_auc_within_task", "verifier: AUC within task"), ("verifier_ece_width_10", "verifier: ECE")),
)
MOST_BANDS = 6  # runs whose intervals can be told apart
MARKS = ("Lines: single runs, coloured by verifier, dashed by reward, with circles where evidence is voluntary; bands, where runs are few: "
         "95 % intervals over validation tasks (all are in the CSV); hacking gap: (mean score - true rate) minus the same before "
         "training, on the policy's own attempts at validation tasks. A run without a verifier has no line "
         "in the lower row; where no run has one there is none.")


def draw(runs: Sequence[PolicyRun], out: Path) -> list[Path]:
    """Draws rl_curves.{pdf,png,csv} for every group of comparable runs into OUT/rl/GROUP."""
    return [path for name, group in comparable(runs).items() for path in _draw(group, out / "rl" / name)]


def _draw(runs: Sequence[PolicyRun], folder: Path) -> list[Path]:
    looks = _looks(runs)
    rows: list[dict[str, Any]] = []
    named: set[str] = set()
    shown = [panels for panels in PANELS if any(series(run, name) for run in runs for name, _ in panels)]
    with style.figure(len(shown), 3, 3.4, 2.6, sharex=True) as (drawn, axes):
        for i, panels in enumerate(shown):
            for axis, (name, title) in zip(axes[i], panels, strict=True):
                for run in runs:
                    points = series(run, name)
                    if not points:
                        continue
                    steps, values = zip(*points, strict=True)
                    label = run.label if run.label not in named else None
                    named.add(run.label)
                    axis.plot(steps, values, label=label, linewidth=1.0, markersize=2.5, **looks[run.label])
                    low, high = (dict(series(run, f"{name}_{end}")) for end in ("low", "high"))
                    if low and high and len(runs) <= MOST_BANDS:
                        axis.fill_between(steps, [low[step] for step in steps], [high[step] for step in steps],
                                          color=looks[run.label]["color"], alpha=0.12, lw=0)
                    rows += [{"panel": name, "arm": run.label, "seed": run.seed, "step": step, "value": value, "low": low.get(step),
                              "high": high.get(step), "run_id": run.run.run_id} for step, value in points]
                axis.set_title(title)
                if name == "hacking_gap":
                    axis.axhline(0, color=style.REFERENCE, linewidth=0.6)
        for axis in axes[-1]:
            axis.set_xlabel("step")
        drawn.legend(loc="outside right center")
        style.footnote(drawn, f"{note(runs)}\n{MARKS}")
        return style.save(drawn, folder, "rl_curves", rows)


def _looks(runs: Sequence[PolicyRun]) -> dict[str, dict[str, Any]]:
    """Label to colour, dash and marker."""
    arms = {run.label: run.arm for run in runs}
    rewards, verifiers = ([*dict.fromkeys(arm[i] for arm in arms.values())] for i in (0, 1))
    colours = style.level_colours(verifiers, ordered=False)
    return {label: {"color": colours[verifier], "linestyle": style.DASHES[rewards.index(reward) % len(style.DASHES)],
                    "marker": "o" if evidence == "voluntary" else None} for label, (reward, verifier, evidence) in arms.items()}


def series(run: PolicyRun, name: str) -> list[tuple[int, float]]:
    """(step, value) of a look's metric by its outcome, or of a step's metric by the run's series."""
    curve = [(int(row["step"]), float(row[name])) for row in run.outcome["curve"] if name in row]
    return curve or run.run.series(f"rl/{name}")
