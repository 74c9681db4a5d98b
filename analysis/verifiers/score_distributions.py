"""Where do scores of resolved and of unresolved attempts lie, at each level? One panel a level, all seeds together."""

from pathlib import Path
from typing import Any

import numpy as np

from analysis.presentation import style
from analysis.registry import Needs, figure
from analysis.sweep.tracked import SweepRuns

EDGES = np.linspace(0, 1, 26)


@figure("How are the scores of resolved and of unresolved attempts distributed?", Needs.sweep)
def draw(sweep: SweepRuns, out: Path) -> list[Path]:
    """Draws score_distributions.{pdf,png,csv} into the sweep's folder below `out`."""
    rows: list[dict[str, Any]] = []
    arm = sweep.arms[0]
    levels = [level for level in sweep.levels if sweep.at(level, arm)]
    with style.figure(*style.grid(len(levels)), 2.1, 2.3, sharex=True, sharey=True) as (drawn, axes):
        for axis in axes.flat[len(levels) :]:
            axis.set_visible(False)
        for axis, level in zip(axes.flat, levels, strict=False):
            cells = sweep.at(level, arm)
            score, label = (np.concatenate([getattr(c.scores, name) for c in cells]) for name in ("score", "resolved"))
            for value, name, colour in ((0.0, "unresolved", style.UNRESOLVED), (1.0, "resolved", style.RESOLVED)):
                chosen = score[(label == value) & ~np.isnan(score)]
                density, _ = np.histogram(chosen, EDGES, density=True)
                axis.stairs(density, EDGES, fill=True, alpha=0.45, color=colour, label=name)
                rows += [
                    {
                        "arm": arm,
                        "level": level,
                        "label": name,
                        "bin_from": round(float(low), 6),
                        "bin_to": round(float(high), 6),
                        "density": float(d),
                        "attempts": len(chosen),
                    }
                    for low, high, d in zip(EDGES[:-1], EDGES[1:], density, strict=True)
                ]
            axis.set(title=style.title(sweep.factor, level), xlabel="score", xlim=(0, 1))
        for axis in axes[:, 0]:
            axis.set_ylabel("density")
        axes[0, 0].legend()
        style.footnote(
            drawn, f"{sweep.foot()}{f' Arm {arm}.' if arm else ''} All seeds together; each label's area is one."
        )
        return style.save(drawn, sweep.folder(out), "score_distributions", rows)
