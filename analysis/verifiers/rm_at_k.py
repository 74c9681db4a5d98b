"""How good is the attempt that a verifier picks from k, at each level of the factor?

One row of panels an arm. Left: RM@k over k, one line a level; pass@k (a perfect verifier) above, pass@1 (any attempt) below, and the
baselines that read no weights: a verifier that does not beat them has learned less than a rule. Where patches are known, two
further panels. Of k attempts, the patch whose attempts have the largest sum of scores, beside the same references: copies of the
right patch are one ticket on the left and many here. RM@k of k distinct patches: each is one ticket. A strip beside each panel has the
intervals and the single seeds at the largest k; the CSV has them at every k.
"""

from pathlib import Path
from typing import Any

import numpy as np

from analysis.presentation import style
from analysis.registry import Needs, figure
from analysis.sweep import level_tests, rules
from analysis.sweep.tracked import SweepRuns, mean_over_seeds
from analysis.verifiers import sweep_table

SELECTORS = {
    "rm_at_k": ("Best score", "k: attempts to choose from"),
    "rm_at_k_weighted": ("Largest sum of scores", "k: attempts to choose from"),
    "rm_at_k_patches": ("Best score of patches", "k: distinct patches to choose from"),
}
"""Metric to the title of its panel and what k counts."""
GAP = 0.15
"""Between the marks of two levels in the strip beside the largest k, in doublings of k."""
MOST_WIDTH = 1.2
"""How wide the marks of all levels together are at most, in doublings of k."""
LEAST_WIDTH = 0.75
"""Of the strip, whose heading needs so much."""


@figure(
    "How good is the attempt that a verifier picks from k, at each level? With pass@k (oracle), pass@1 (random) and "
    "the baselines, and once more with identical patches taken together.",
    Needs.sweep,
    lambda sweep: (
        "no policy has two attempts at a task. Values across policies stand in figure sweep_table."
        if sweep.across
        else ""
    ),
)
def draw(sweep: SweepRuns, out: Path) -> list[Path]:
    """Draws rm_at_k.{pdf,png,csv} into the sweep's folder below `out`; one row of panels an arm. Nothing where no policy has two
    attempts at a task (`across_policies`)."""
    if sweep.across:
        return []
    selectors = [name for name in SELECTORS if len(sweep.cells[0].report.get(name) or {}) > 1]
    selectors = selectors or ["rm_at_k"]  # of one attempt a task, which all reports have
    looks = style.level_looks(sweep.levels, ordered=bool(sweep.numbers))
    rows: list[dict[str, Any]] = []
    height = max(3.6, 2.4 + 0.17 * len(sweep.levels)) / (
        1 if len(sweep.arms) == 1 else 1.4
    )  # the legend names every level
    width = 5.4 if len(selectors) == 1 else 3.7
    with style.figure(len(sweep.arms), len(selectors), width, height, sharey=True) as (drawn, axes):
        for arm, panels in zip(sweep.arms, axes, strict=True):
            for selector, axis in zip(selectors, panels, strict=True):
                ks = sorted(map(int, sweep.cells[0].report[selector]))
                references(axis, sweep, selector, ks, arm, looks, rows)
                for level in sweep.levels:
                    line(axis, sweep, selector, level, arm, ks, looks[level], rows)
                style.log_ticks(axis, ks)
                strip(axis, ks, len(sweep.levels))
                title, counts = SELECTORS[selector]
                axis.set_xlabel(counts)
                axis.set_title(f"{title} ({arm})" if arm else title)
            panels[0].set_ylabel("resolved share of the picked" + (" attempts" if len(sweep.arms) == 1 else ""))
        drawn.legend(*style.legend(axes.flat), loc="outside right upper", title=sweep.factor, title_fontsize=7)
        most = level_tests.largest_k(sweep)
        beside = " ".join(sweep_table.beside_rules_at_k(sweep, most))
        marks = (
            f"Lines: mean over seeds. Beside the largest k: 95 % intervals over {sweep.resampled}, averaged (bars), and single seeds "
            "(dots)."
        )
        if len(selectors) > 1:
            marks += " Largest sum: the scores of attempts with one patch are added. Patches: k distinct ones are drawn, of mean scores."
        at_most = f"*: RM@{most} differs from the baseline level's; no difference is shown at the others."
        compared = f"{level_tests.note(sweep)} {at_most if any(t.p is not None for t in sweep.tests.values()) else ''}"
        style.footnote(drawn, f"{sweep.foot()}\n{marks}\n{compared}\n{beside}")
        return style.save(drawn, sweep.folder(out), "rm_at_k", rows)


def strip(axis: Any, ks: list[int], levels: int) -> None:
    """The place of the marks that belong to the largest k alone, and the end of the axis, which is logarithmic."""
    k = ks[-1]
    left, right = (k * 2**place for place in (GAP / 2, max(GAP * 1.5 + levels * step(levels), LEAST_WIDTH)))
    axis.axvspan(left, right, color="0.95", linewidth=0, zorder=0)
    axis.text(
        np.sqrt(left * right), 1, f"k = {k}", transform=axis.get_xaxis_transform(), ha="center", va="top", fontsize=7
    )
    axis.set_xlim(ks[0] * 2 ** (-2 * GAP), right)


def step(levels: int) -> float:
    """Between two levels of the strip, in doublings of k."""
    return min(GAP, MOST_WIDTH / levels)


def line(
    axis: Any,
    sweep: SweepRuns,
    selector: str,
    level: str,
    arm: str,
    ks: list[int],
    look: dict[str, Any],
    rows: list[dict[str, Any]],
) -> None:
    cells = [cell for cell in sweep.at(level, arm) if cell.report.get(selector)]
    triples = [mean_over_seeds(cells, selector, str(k)) for k in ks] if cells else []
    if not triples or None in triples:
        return
    middle, low, high = np.array(triples, dtype=float).T
    # At the largest k alone, and there side by side: intervals of many levels at every k would hide the lines.
    place, gap = sweep.levels.index(level), step(len(sweep.levels))
    beside, dots = (ks[-1] * 2 ** (GAP + (place + more) * gap) for more in (0, 0.5))
    shown = [one for one in sweep.arms if level_tests.is_shown(sweep, one, level, "rm_at_k")]
    where = "" if shown == list(sweep.arms) else f" ({', '.join(shown)})"  # one entry of the legend a level
    mark = f" *{where}" if shown else ""
    name = f"{style.short(level)}{' (baseline)' if level == sweep.baseline else mark}"
    axis.plot(ks, middle, label=name, **look, markevery=between(ks))
    whiskers = np.maximum([middle[-1:] - low[-1:], high[-1:] - middle[-1:]], 0)
    axis.errorbar([beside], middle[-1:], yerr=whiskers, elinewidth=0.8, **look | {"markersize": 4})
    for cell in cells:
        values = [cell.report[selector][str(k)] for k in ks]
        axis.plot([dots], values[-1:], ".", color=look["color"], markersize=2.5, zorder=3)
        rows += [
            {
                "panel": selector,
                "arm": arm,
                "line": f"level {level}",
                "seed": cell.seed,
                "k": k,
                "value": v,
                "low": i[0],
                "high": i[1],
                "run_id": cell.run.run_id,
            }
            for k, v, i in zip(
                ks, values, (cell.report["ci95"][selector][str(k)] or (None, None) for k in ks), strict=True
            )
        ]


def between(ks: list[int]) -> list[int] | None:
    """Which points of a line have its marker: neither the first, where all lines meet, nor the last, beside which the strip has it."""
    return list(range(1, len(ks) - 1)) or None


def references(
    axis: Any,
    sweep: SweepRuns,
    selector: str,
    ks: list[int],
    arm: str,
    looks: dict[str, dict[str, Any]],
    rows: list[dict[str, Any]],
) -> None:
    """pass@k, pass@1 and the rules' own curves. One line each where levels judge the same attempts and evidence, else one for each value
    that levels have, with the colour and the hollow marker of the first of those levels.

    Among distinct patches the blind pick is another one: k = 1 of any line."""

    def add(line: str, label: str, rule: str, path: tuple[str, ...], **look: Any) -> None:
        for one in rules.shared(rules.of_levels(sweep, rule, *path, arm=arm)):
            own = dict(look)
            if one.where:
                level = looks[one.levels[0]]
                own |= level | {"markersize": 3.5, "markerfacecolor": "white", "markeredgecolor": level["color"]}
            name = f"{label}{one.where}" if label else None
            values = [one.value[str(k)] for k in ks] if isinstance(one.value, dict) else [one.value]
            if len(values) == 1:
                axis.axhline(values[0], label=name, **own | {"marker": ""})
            else:
                axis.plot(ks, values, label=name, **own, markevery=between(ks))
            rows.extend(
                {"panel": selector, "arm": arm, "line": f"{line}{one.where}", "k": k, "value": value}
                for k, value in zip(ks, values, strict=False)
                if line
            )

    patches = selector == "rm_at_k_patches"
    if patches:
        add("any patch", "", "", (selector, str(ks[0])), color=style.REFERENCE, linestyle=":")
    else:
        add("pass@k", "pass@k (oracle)", "", ("pass_at_k",), color=style.REFERENCE, linestyle="--")
        add("", "pass@1 (random)", "", ("pass_at_k", str(ks[0])), color=style.REFERENCE, linestyle=":")
    for rule, (colour, dashes) in style.BASELINE_LOOK.items():
        # The majority of identical patches reads no score: its pick is the same in both panels of attempts.
        plain = rule == "majority" and not patches
        path = ("rm_at_k",) if plain else (selector,)
        add(
            f"baseline {rule}",
            f"rule: {rule.replace('_', ' ')}",
            rule,
            path,
            color=colour,
            linestyle=dashes,
            linewidth=1,
        )
