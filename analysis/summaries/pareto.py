"""What did a search find? Each pair of its objectives, all complete trials, and those that no other beats in everything."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from analysis.presentation import style
from analysis.registry import Needs, figure


@figure(
    "Which trials of a search are on the Pareto front, so that no other beats them in every objective? `rmlab sweep` "
    "draws it for a search, into the same folder.",
    Needs.search,
)
def draw(rows: Sequence[Mapping[str, Any]], objectives: Mapping[str, str], folder: Path, note: str) -> list[Path]:
    """Writes pareto.pdf, .png and .csv into a folder and returns them.

    rows: one a trial, with trial, best ("yes") and a value of each objective (None unless complete). objectives: metric to goal.
    One objective alone is drawn over the trials.
    """
    complete = [row for row in rows if all(row[name] is not None for name in objectives)]
    pairs = list(combinations(objectives, 2)) or [("trial", next(iter(objectives)))]
    with style.figure(1, len(pairs), 3.0, 2.8) as (drawn, axes):
        for panel, (x, y) in zip(axes[0], pairs, strict=True):
            for best, marks in (("", {"color": style.REFERENCE, "s": 14}), ("yes", {"color": style.RESOLVED, "s": 26})):
                chosen = [row for row in complete if row["best"] == best]
                panel.scatter(
                    [row[x] for row in chosen], [row[y] for row in chosen], label="best" if best else "other", **marks
                )
                if best:
                    for row in chosen:
                        panel.annotate(
                            str(row["trial"]), (row[x], row[y]), xytext=(3, 3), textcoords="offset points", fontsize=6
                        )
            panel.set_xlabel(_label(x, objectives))
            panel.set_ylabel(_label(y, objectives))
        axes[0][0].legend()
        style.footnote(drawn, f"{note} Numbers are trials; best = no other trial is better in every objective.")
        return style.save(drawn, folder, "pareto", [dict(row) for row in complete])


def _label(name: str, objectives: Mapping[str, str]) -> str:
    goal = objectives.get(name)
    return name if goal is None else f"{name} ({'lower' if goal == 'minimize' else 'higher'} is better)"
