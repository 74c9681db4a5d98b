"""All sweeps of a study in one figure: the difference of every level from its baseline, in each metric of the levels' comparison.

One row a level, grouped by sweep; one panel a metric. Filled and black: shown at 5 % after Holm's correction over the sweep. Hollow
and grey: no difference shown. Bars: 95 % t intervals over trainings and tasks. On one page of a paper, readable in grey.
"""

from pathlib import Path
from typing import Any

from matplotlib.ticker import MaxNLocator

from analysis.presentation import captions, style
from analysis.registry import Needs, figure
from analysis.studies.effects import Effect, effects
from analysis.studies.planned_study import PlannedStudy
from analysis.sweep import level_tests, level_words
from analysis.sweep.scored import scored_share, scores_all
from rmlab.files import write_text
from rmlab.metrics.sweep_levels import FAMILY
from rmlab.wording import counted

NAME = "study_overview"
WIDTH, ROW = 2.35, 0.118  # inches: of a panel, of a row
PART = "†"
"""Behind the name of a level that scores only a part of the attempts."""
HEADING = 1.25  # rows that the name of a sweep takes


@figure(
    "How far is every level of a study's sweeps from its baseline in the three metrics that are tested? Filled: shown "
    "after Holm's correction. Hollow: no difference shown. Drawn by `rmlab study`, with its caption in Markdown and "
    "LaTeX.",
    Needs.study,
)
def draw(study: PlannedStudy, out: Path) -> list[Path]:
    """Writes study_overview.{pdf,png,csv} and its caption as .md and .tex; nothing where no level can be compared yet."""
    groups = {name: group for name, group in study.groups.items() if group.tests}
    if not groups:
        return []
    lines: list[tuple[float, str, str]] = []  # place, sweep, level and arm; "" = the name of the sweep
    place = 0.0
    for name, group in groups.items():
        lines.append((place, name, ""))
        place += HEADING
        for arm, level in dict.fromkeys((arm, level) for arm, level, _ in group.tests):
            lines.append((place, name, f"{arm}\n{level}"))
            place += 1
        place += 0.5
    rows: list[dict[str, Any]] = []
    with style.figure(1, len(FAMILY), WIDTH, 0.75 + ROW * place, sharey=True) as (drawn, axes):
        for axis, metric in zip(axes[0], FAMILY, strict=True):
            axis.axvline(0, color=style.REFERENCE, linestyle=":", linewidth=1)
            for at, name, which in lines:
                if which:
                    arm, _, level = which.partition("\n")
                    effect = next(one for one in effects(groups[name]) if one.metric == metric)
                    _mark(axis, effect, arm, level, at, rows)
            first = next(iter(groups.values()))
            axis.set(title=level_tests.metric_words(first, metric), xlabel="level - baseline")
            axis.tick_params(labelsize=7)
            axis.xaxis.set_major_locator(MaxNLocator(4))
            axis.grid(axis="y", visible=False)
        axes[0, 0].set_yticks([at for at, _, _ in lines], labels=[_label(study, *line[1:]) for line in lines])
        for text, (_, _, which) in zip(axes[0, 0].get_yticklabels(), lines, strict=True):
            text.set(fontweight="normal" if which else "bold", fontsize=7)
        for axis in axes[0]:
            axis.tick_params(axis="y", length=0)
        axes[0, 0].set_ylim(place, -1)
        paths = style.save(drawn, out, NAME, rows)
    told = caption(study)
    for suffix, text in (
        (".md", told),
        (".tex", f"\\caption{{{latex(told)}}}\n\\label{{fig:{study.name.replace('_', '-')}}}"),
    ):
        paths.append(out / f"{NAME}_caption{suffix}")
        write_text(paths[-1], text + "\n")
    return paths


def _mark(axis: Any, effect: Effect, arm: str, level: str, at: float, rows: list[dict[str, Any]]) -> None:
    test = effect.tests.get((arm, level))
    if test is None or test.difference is None:
        return
    rows.append(
        {
            "sweep": effect.group.sweep,
            "arm": arm,
            "level": level,
            "metric": effect.metric,
            "seeds": test.seeds,
            "difference": test.difference,
            "low": test.ci95 and test.ci95[0],
            "high": test.ci95 and test.ci95[1],
            "p_holm": test.p_holm,
            "verdict": level_tests.verdict(test),
            "scored": scored_share(effect.group, (arm, level)),
        }
    )
    if test.p is None:
        axis.plot(test.difference, at, "x", color="0.5", markersize=3.5)
        return
    colour = "black" if test.shown else "0.5"
    if test.ci95:
        axis.plot(test.ci95, [at, at], color=colour, linewidth=1.2 if test.shown else 0.8)
    axis.plot(test.difference, at, "o", color=colour, markerfacecolor=colour if test.shown else "white", markersize=3.5)


def _label(study: PlannedStudy, name: str, which: str) -> str:
    group = study.groups[name]
    if which:
        arm, _, level = which.partition("\n")
        name = level_words.place(group, arm, style.short(level, 20))
        return name if scores_all(group, (arm, level)) else f"{name} {PART}"
    cells = study.of(name)
    done = sum(one.run is not None for one in cells)
    part = f", {done} of {len(cells)}" if done < len(cells) else ""
    return f"{name} (from {style.short(group.baseline, 16)}{part})"


def caption(study: PlannedStudy) -> str:
    """What the figure shows, from how many trainings and tasks, and what is not in it."""
    groups = [group for group in study.groups.values() if group.tests]
    report = groups[0].cells[0].report
    planned, done = study.trainings
    part = (
        f" {counted(planned - done, 'training')} of {planned} are still missing, so nothing here is final."
        if done < planned
        else ""
    )
    absent = [name for name in study.sweeps if study.groups.get(name) not in groups]
    without = f" Without {', '.join(absent)}, of which no level can be compared yet." if absent else ""
    tests = [test for group in groups for test in group.tests.values()]
    seeds, tested = sorted({test.seeds for test in tests}), [test for test in tests if test.p is not None]
    marks = ""
    if any(test.ci95 for test in tested):
        marks += " Bars: 95 % t intervals over trainings and tasks of the single difference."
    if any(test.shown for test in tested):
        marks += " Filled: shown at 5 % after Holm's correction over the sweep's levels and metrics."
    if not all(test.shown for test in tested):
        marks += " Hollow: tested, no difference shown."
    better = f" Higher is better for {level_tests.metric_words(groups[0], 'rm_at_k')} and AUC, lower for ECE."
    cross = " Cross: no test yet." if len(tested) < len(tests) else ""
    marks += better + cross
    places = [(group, (arm, level)) for group in groups for arm, level, _ in group.tests]
    if not all(scores_all(*one) for one in places):
        marks += f" {PART}: attempts that do not fit are not scored but ranked last; AUC within task and ECE are of the others alone."
    many = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return (
        f"Difference of every level from its sweep's baseline (named after the sweep), mean over {many} trainings, paired by seed; judged "
        f"on {report['trajectories']:,} attempts at {report['tasks']:,} tasks.{marks}{part}{without}"
    )


def latex(text: str) -> str:
    """A plain text as LaTeX takes it, with a thin space before a percent sign."""
    return captions.latex(text).replace(" \\%", "\\,\\%")
