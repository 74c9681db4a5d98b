"""Do discrimination and calibration hold along the factor, and is the calibration error more than noise?

Left: AUC within a task (what a group-relative advantage sees; over attempts, and over distinct patches) and pooled, with the
baselines. Middle: ECE with both noise floors: only above the 95th percentile of the floor with a task effect is a verifier called
miscalibrated. Right: what the paper reports, on axes of its own, because its tasks, policies and models are others.
"""

from pathlib import Path
from typing import Any

import yaml

from analysis.presentation import style
from analysis.registry import Needs, figure
from analysis.sweep import level_tests, rules
from analysis.sweep.scored import scored_share, scores_all
from analysis.sweep.tracked import SweepRuns, mean_over_seeds
from analysis.verifiers import sweep_table
from rmlab.wording import listed

PAPER = Path(__file__).parents[1] / "paper_reported.yaml"
AUCS = {
    "auc_within_task": ("#0072B2", "AUC within task"),
    "auc_within_task_patches": ("#56B4E9", "AUC within task, of distinct patches"),
    "auc_pooled": ("#CC79A7", "AUC pooled"),
}
FLOORS = {"ece_noise_floor": ("0.6", "noise floor"), "ece_noise_floor_task": ("0.35", "noise floor with task effect")}
REPORTED = {"ece": "ECE", "rm_at_32": "RM@32"}
PAPER_LEVELS = {"data_scale": "training samples", "context_length": "tokens", "label_ratio": "resolved : unresolved"}
BETWEEN_ARMS = 0.3
"""Of the distance between two levels that are words."""
LINES, MARKS = "Lines", "Marks (levels are words, lines between them would mean nothing)"
ECE = ("#009E73", "ECE (10 bins of equal width)")


@figure(
    "Do AUC (within a task, pooled) and ECE hold along the factor, and is the ECE above its noise floors? The paper's "
    "values are in a separate panel.",
    Needs.sweep,
)
def draw(sweep: SweepRuns, out: Path) -> list[Path]:
    """Draws discrimination_calibration.{pdf,png,csv} into the sweep's folder below `out`."""
    as_reported, reported = paper_points(sweep.factor)
    rows: list[dict[str, Any]] = []
    with style.figure(1, 3 if reported else 2, 3.4, 3.6) as (drawn, axes):
        left, right = axes[0, :2]
        place = style.level_axis((left, right), sweep.levels, sweep.numbers)
        for arm, dash in zip(sweep.arms, style.DASHES, strict=False):
            own = places_of_arm(sweep, arm, place)
            for number, (metric, (colour, _)) in enumerate(AUCS.items()):
                series(left, sweep, arm, metric, beside(left, own, number - 1), colour, dash, rows)
            series(right, sweep, arm, "ece_width_10", own, ECE[0], dash, rows)
        floors(right, sweep, sweep.arms[0], place, rows)
        baselines(left, sweep, place, rows)
        left.axhline(0.5, color=style.REFERENCE, linestyle=":", linewidth=1)
        left.set(title="Discrimination", ylabel="AUC", xlabel=sweep.factor)
        right.set(title="Calibration", ylabel="ECE", xlabel=sweep.factor)
        right.set_ylim(bottom=0)
        if reported:
            paper_panel(axes[0, 2], sweep.factor, as_reported, reported, rows)
        drawn.legend(handles=legend_entries(sweep), loc="outside upper center", ncols=5 if reported else 3)
        shown = f" (arm {sweep.arms[0]})" if len(sweep.arms) > 1 else ""
        style.footnote(
            drawn,
            f"{sweep.foot()}\n{LINES if sweep.numbers else MARKS}: mean over seeds; bars: their 95 % intervals over {sweep.resampled}, "
            f"averaged; dots: single seeds. Noise floors{shown}: mean, and the 95th percentile as the upper edge of the band.\n"
            f"{level_tests.note(sweep)} *: differs from the baseline level (AUC within task, ECE).{unscored(sweep)}\n"
            + " ".join(sweep_table.beside_rules_auc(sweep)),
        )
        return style.save(drawn, sweep.folder(out), "discrimination_calibration", rows)


def places_of_arm(sweep: SweepRuns, arm: str, place: dict[str, float]) -> dict[str, float]:
    """Where an arm's levels lie: those that are words have nothing between them, so that several arms have room beside each other."""
    if sweep.numbers:
        return place
    step = sweep.arms.index(arm) - (len(sweep.arms) - 1) / 2
    return {level: x + BETWEEN_ARMS * step for level, x in place.items()}


def unscored(sweep: SweepRuns) -> str:
    """A sentence where a level does not score every attempt; "" elsewhere."""
    shares = [
        f"{scored_share(sweep, (arm, level)):.2f} at {level}" + (f" ({arm})" if arm else "")
        for arm in sweep.arms
        for level in sweep.levels
        if sweep.at(level, arm) and not scores_all(sweep, (arm, level))
    ]
    return f" AUC and ECE are of scored attempts alone, a share of {listed(shares)}." if shares else ""


def legend_entries(sweep: SweepRuns) -> list[Any]:
    """What each colour and dash means, once for all panels."""
    from matplotlib.lines import Line2D

    drawn = [line for name, line in AUCS.items() if sweep.cells[0].report.get(name) is not None]
    solid = [*drawn, ECE, *FLOORS.values()]
    entries = [Line2D([], [], color=colour, label=name) for colour, name in solid]
    entries += [
        Line2D([], [], color=colour, linestyle=dashes, label=_rule_words(sweep, name))
        for name, (colour, dashes) in style.BASELINE_LOOK.items()
        if rules.shared(rules.of_levels(sweep, name, "auc_within_task"))
    ]
    entries.append(Line2D([], [], color=style.REFERENCE, linestyle=":", linewidth=1, label=style.CHANCE))
    if len(sweep.arms) > 1:
        entries += [
            Line2D(
                [],
                [],
                color="0.2",
                linestyle=d if sweep.numbers else "none",
                marker=mark_of(sweep, a),
                label=f"arm {a}",
            )
            for a, d in zip(sweep.arms, style.DASHES, strict=False)
        ]
    return entries


def _rule_words(sweep: SweepRuns, name: str) -> str:
    several = any(one.where for one in rules.shared(rules.of_levels(sweep, name, "auc_within_task")))
    return f"within task: {name.replace('_', ' ')}{', at each level' if several else ''}"


def mark_of(sweep: SweepRuns, arm: str) -> str:
    """The marker of an arm's means."""
    return "o" if arm == sweep.arms[0] else "s"


def series(
    axis: Any,
    sweep: SweepRuns,
    arm: str,
    metric: str,
    place: dict[str, float],
    colour: str,
    dash: str,
    rows: list[dict[str, Any]],
) -> None:
    levels = [level for level in sweep.levels if sweep.at(level, arm)]
    summary = {level: mean_over_seeds(sweep.at(level, arm), metric) for level in levels}
    shown = {level: triple for level, triple in summary.items() if triple is not None}
    axis.errorbar(
        [place[level] for level in shown],
        [m for m, _, _ in shown.values()],
        yerr=[[max(m - low, 0) for m, low, _ in shown.values()], [max(high - m, 0) for m, _, high in shown.values()]],
        color=colour,
        linestyle=dash if sweep.numbers else "none",
        marker=mark_of(sweep, arm),
        markersize=3.5,
        elinewidth=0.9,
        capsize=2,
    )
    for level, (middle, _, high) in shown.items():
        if level_tests.is_shown(sweep, arm, level, metric):
            top = (place[level], max(middle, high))
            axis.annotate("*", top, (0, 1), textcoords="offset points", ha="center", fontsize=11, color=colour)

    dots = beside(axis, place, 0.5)
    for level in levels:
        for cell in sweep.at(level, arm):
            value, interval = cell.report.get(metric), cell.report["ci95"].get(metric) or (None, None)
            if value is None:
                continue  # undefined, a within-task AUC of single attempts, say
            axis.plot(dots[level], value, ".", color=colour, markersize=3, alpha=0.7)
            rows.append(
                {
                    "panel": metric,
                    "arm": arm,
                    "level": level,
                    "seed": cell.seed,
                    "value": value,
                    "low": interval[0],
                    "high": interval[1],
                    "run_id": cell.run.run_id,
                }
            )


def beside(axis: Any, place: dict[str, float], steps: float) -> dict[str, float]:
    """The places of levels a little to the right (steps > 0) or left, so that bars at one level do not hide each other."""
    if axis.get_xscale() == "log":
        span = max(place.values()) / min(place.values())
        return {level: x * span ** (0.02 * steps) for level, x in place.items()}
    span = max(place.values()) - min(place.values()) or 1.0
    return {level: x + 0.02 * span * steps for level, x in place.items()}


def floors(axis: Any, sweep: SweepRuns, arm: str, place: dict[str, float], rows: list[dict[str, Any]]) -> None:
    for name, (colour, _) in FLOORS.items():
        points = []
        for level in sweep.levels:
            defined = [c for c in sweep.at(level, arm) if c.report[name] is not None]
            if defined:
                mean, top = (sum(c.report[key] for c in defined) / len(defined) for key in (name, f"{name}_p95"))
                points.append((place[level], mean, top))
                rows.append({"panel": name, "arm": arm, "level": level, "value": mean, "high": top})
        if points:
            for piece in style.pieces(points, joined=bool(sweep.numbers)):
                x, mean_y, top_y = zip(*piece, strict=True)
                axis.plot(x, mean_y, color=colour, linewidth=0.8)
                axis.fill_between(x, mean_y, top_y, color=colour, alpha=0.2, linewidth=0)


def baselines(axis: Any, sweep: SweepRuns, place: dict[str, float], rows: list[dict[str, Any]]) -> None:
    """Within-task AUC of the rules that read no weights."""
    for name, (colour, dashes) in style.BASELINE_LOOK.items():
        drawn = rules.draw_over_levels(
            axis, sweep, name, ("auc_within_task",), place, color=colour, linestyle=dashes, linewidth=0.9
        )
        rows += [
            {"panel": "auc_within_task", "level": f"baseline {name}{one.where}", "value": one.value} for one in drawn
        ]


def paper_points(factor: str) -> tuple[str, list[dict[str, Any]]]:
    """(metric, points) that the paper reports of a factor, as {level, value, disputed}: the metric that most points have.

    Empty where there are fewer than two.
    """
    raw = yaml.safe_load(PAPER.read_text(encoding="utf-8")).get(factor, [])
    listed = [point for point in (raw["points"] if isinstance(raw, dict) else raw) if isinstance(point, dict)]
    metric = max(REPORTED, key=lambda name: sum(name in point for point in listed))
    points = [
        {"level": next(iter(point.values())), "value": point[metric], "disputed": bool(point.get("disputed"))}
        for point in listed
        if metric in point
    ]
    return metric, points if len(points) > 1 else []


def paper_panel(axis: Any, factor: str, metric: str, points: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    levels = [str(point["level"]) for point in points]
    numbers = (
        {}
        if any(isinstance(point["level"], str) for point in points)
        else {str(p["level"]): float(p["level"]) for p in points}
    )
    place = style.level_axis([axis], levels, numbers)
    axis.plot([place[level] for level in levels], [p["value"] for p in points], "s", color="black", markersize=4)
    for level, point in zip(levels, points, strict=True):
        text = f"{point['value']:.3f}"
        if point["disputed"]:
            text = f"disputed\n{text}"
        axis.annotate(text, (place[level], point["value"]), textcoords="offset points", xytext=(0, 6), ha="center")
        rows.append({"panel": f"paper reported {REPORTED[metric]}", "level": level, "value": point["value"]})
    axis.margins(x=0.3)
    top = 0.6 if metric == "ece" else 1.0
    axis.set(
        title="As the paper reports", xlabel=PAPER_LEVELS.get(factor, factor), ylabel=REPORTED[metric], ylim=(0, top)
    )
    source = "SWE-RM (arXiv 2512.21919),\nSWE-bench Verified, 30B-A3B;\nvalues by public notes. Other tasks\nand policies: not comparable."
    height, side = (0.9, "top") if metric == "ece" else (0.05, "bottom")  # RM@32 stands high, ECE low at the right
    axis.text(0.97, height, source, transform=axis.transAxes, va=side, ha="right", fontsize=6.5, color="0.35")
