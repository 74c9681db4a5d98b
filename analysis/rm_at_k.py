"""How good is the attempt that a verifier picks from k, at each level of the factor?

RM@k over k, one line a level; pass@k (a perfect verifier) above, pass@1 (any attempt) below, and the baselines that read
no weights: a verifier that does not beat them has learned less than a rule.
"""

from pathlib import Path
from typing import Any

import numpy as np

from analysis import level_tests, style, sweep_table
from analysis.registry import Needs, figure
from analysis.tracked import SweepRuns, mean_over_seeds


@figure(
    "How good is the attempt that a verifier picks from k, at each level? With pass@k (oracle), pass@1 "
    "(random) and the baselines.",
    Needs.sweep,
)
def draw(sweep: SweepRuns, out: Path) -> list[Path]:
    """Draws rm_at_k.{pdf,png,csv} into the sweep's folder below `out`; one panel an arm. Nothing where no policy has two attempts
    at a task (`across_policies`)."""
    if sweep.across:
        return []
    report = sweep.cells[0].report
    ks = sorted(map(int, report["rm_at_k"]))
    colours = style.level_colours(sweep.levels, ordered=bool(sweep.numbers))
    rows: list[dict[str, Any]] = []
    height = max(3.6, 2.4 + 0.17 * len(sweep.levels))  # the legend names every level
    with style.figure(1, len(sweep.arms), 5.4 if len(sweep.arms) == 1 else 4.2, height, sharey=True) as (drawn, axes):
        for axis, arm in zip(axes[0], sweep.arms, strict=True):
            references(axis, sweep, ks, arm, rows)
            for level in sweep.levels:
                line(axis, sweep, level, arm, ks, colours[level], rows)
            style.log_ticks(axis, ks)
            axis.set_xlabel("k: attempts to choose from")
            axis.set_title(f"Best of k by {sweep.factor}" + (f" ({arm})" if arm else ""))
        axes[0, 0].set_ylabel("resolved share of the picked attempts")
        drawn.legend(*legend(axes[0]), loc="outside right upper", title=sweep.factor, title_fontsize=7)
        unbeaten = " ".join(sweep_table.unbeaten_at_k(sweep))
        marks = "Lines: mean over seeds; bars: their 95 % intervals over tasks, averaged; dots: single seeds."
        at_most = f"*: RM@{ks[-1]} differs from the baseline level's; no difference is shown at the others."
        compared = f"{level_tests.note(sweep)} {at_most if any(t.p is not None for t in sweep.tests.values()) else ''}"
        style.footnote(drawn, f"{sweep.note()}\n{marks}\n{compared}\n{unbeaten}")
        return style.save(drawn, sweep.folder(out), "rm_at_k", rows)


def legend(axes: Any) -> tuple[list[Any], list[str]]:
    """Handles and labels of all panels: a level that is marked in one arm only stands there twice."""
    entries = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    return list(entries.values()), list(entries)


def line(
    axis: Any, sweep: SweepRuns, level: str, arm: str, ks: list[int], colour: Any, rows: list[dict[str, Any]]
) -> None:
    cells = sweep.at(level, arm)
    triples = [mean_over_seeds(cells, "rm_at_k", str(k)) for k in ks] if cells else []
    if not triples or None in triples:
        return
    middle, low, high = np.array(triples, dtype=float).T
    offset = sweep.levels.index(level) - (len(sweep.levels) - 1) / 2
    step = min(0.07, 0.5 / len(sweep.levels))
    x = np.array(ks) * 2 ** (step * offset)  # side by side, so that bars of different levels do not hide each other
    mark = " *" if level_tests.is_shown(sweep, arm, level, "rm_at_k") else ""
    name = f"{style.short(level)}{' (baseline)' if level == sweep.baseline else mark}"
    whiskers = np.maximum([middle - low, high - middle], 0)
    axis.errorbar(x, middle, yerr=whiskers, color=colour, elinewidth=0.8, label=name)
    for cell in cells:
        values = [cell.report["rm_at_k"][str(k)] for k in ks]
        axis.plot(x, values, ".", color=colour, markersize=3)
        rows += [
            {
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
                ks, values, (cell.report["ci95"]["rm_at_k"][str(k)] or (None, None) for k in ks), strict=True
            )
        ]


def references(axis: Any, sweep: SweepRuns, ks: list[int], arm: str, rows: list[dict[str, Any]]) -> None:
    """pass@k, pass@1 and the baselines' own RM@k: equal for all cells, since they read the same attempts."""
    cell = sweep.cells[0]
    oracle = [cell.report["pass_at_k"][str(k)] for k in ks]
    axis.plot(ks, oracle, color=style.REFERENCE, linestyle="--", label="pass@k (oracle)")
    axis.axhline(oracle[0], color=style.REFERENCE, linestyle=":", label="pass@1 (random)")
    rows += [{"arm": arm, "line": "pass@k", "k": k, "value": v} for k, v in zip(ks, oracle, strict=True)]
    for name, (colour, dashes) in style.BASELINE_LOOK.items():
        curve = cell.baselines.get(name, {}).get("rm_at_k")
        if curve is None:
            continue
        axis.plot(
            ks,
            [curve[str(k)] for k in ks],
            color=colour,
            linestyle=dashes,
            linewidth=1,
            label=f"rule: {name.replace('_', ' ')}",
        )
        rows += [{"arm": arm, "line": f"baseline {name}", "k": k, "value": curve[str(k)]} for k in ks]
