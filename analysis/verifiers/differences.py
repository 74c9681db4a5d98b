"""Which levels differ from the baseline, and by how much? One panel a metric of the family, one mark a level.

Filled: the difference is shown at 5 % after Holm's correction over the sweep. Hollow: no difference is shown, whatever the
mark's place. Bars: 95 % t intervals of the single difference, uncorrected, so that one may miss zero and yet not be shown.
"""

from pathlib import Path
from typing import Any

from matplotlib.ticker import MaxNLocator

from analysis.presentation import style
from analysis.registry import Needs, figure
from analysis.sweep import level_tests, level_words
from analysis.sweep.tracked import SweepRuns
from rmlab.metrics.sweep_levels import FAMILY


@figure(
    "Which levels differ from the baseline, and by how much? Filled: shown after Holm's correction over the sweep. "
    "Hollow: no difference shown.",
    Needs.sweep,
    lambda sweep: "" if sweep.tests else level_tests.note(sweep),
)
def draw(sweep: SweepRuns, out: Path) -> list[Path]:
    """Draws differences.{pdf,png,csv} into the sweep's folder below `out`; nothing where no level can be compared."""
    if not sweep.tests:
        return []
    rows: list[dict[str, Any]] = []
    lines = [(arm, level) for arm in sweep.arms for level in sweep.levels if (arm, level, FAMILY[0]) in sweep.tests]
    height = max(
        1.1 + 0.2 * len(lines), 1.15 + 0.07 * len(sweep.factor)
    )  # the factor's name stands upright beside the panels
    with style.figure(1, len(FAMILY), 2.6, height, sharey=True) as (drawn, axes):
        for axis, metric in zip(axes[0], FAMILY, strict=True):
            axis.axvline(0, color=style.REFERENCE, linestyle=":", linewidth=1)
            for place, (arm, level) in enumerate(lines):
                mark(axis, sweep, arm, level, metric, place, rows)
            axis.set(title=level_tests.metric_words(sweep, metric), xlabel=f"level - {sweep.baseline}")
            axis.margins(x=0.15)
            axis.xaxis.set_major_locator(MaxNLocator(4))
        names = [level_words.place(sweep, arm, style.short(level)) for arm, level in lines]
        axes[0, 0].set_yticks(range(len(lines)), labels=names)
        axes[0, 0].set_ylim(len(lines) - 0.5, -0.5)
        axes[0, 0].set_ylabel(sweep.factor)
        style.footnote(
            drawn,
            f"{sweep.foot()}\n{level_tests.note(sweep)} Filled: shown. Hollow: no difference shown, or no test.\n"
            f"{level_tests.power_note(sweep)}",
        )
        return style.save(drawn, sweep.folder(out), "differences", rows)


def mark(
    axis: Any, sweep: SweepRuns, arm: str, level: str, metric: str, place: int, rows: list[dict[str, Any]]
) -> None:
    test = sweep.tests[arm, level, metric]
    rows.append(
        {
            "arm": arm,
            "level": level,
            "metric": metric,
            "seeds": test.seeds,
            "difference": test.difference,
            "error": test.error,
            "degrees": test.degrees,
            "low": test.ci95 and test.ci95[0],
            "high": test.ci95 and test.ci95[1],
            "p": test.p,
            "p_holm": test.p_holm,
            "detectable": test.detectable,
            "detectable_holm": test.detectable_holm,
            "verdict": level_tests.verdict(test),
        }
    )
    if test.difference is None:
        return
    colour = "black" if test.shown else "0.5"
    if test.ci95:
        axis.plot(test.ci95, [place, place], color=colour, linewidth=1)
    axis.plot(
        test.difference, place, "o", color=colour, markerfacecolor=colour if test.shown else "white", markersize=5
    )
