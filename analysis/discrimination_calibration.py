"""Do discrimination and calibration hold along the factor, and is the calibration error more than noise?

Left: AUC within a task (what a group-relative advantage sees) and pooled, with the baselines. Middle: ECE with both noise
floors: only above the 95th percentile of the floor with a task effect is a verifier called miscalibrated. Right: what the
paper reports, on axes of its own, because its tasks, policies and models are others.
"""

from pathlib import Path
from typing import Any

import yaml

from analysis import style
from analysis.tracked import Cell, SweepRuns, mean_over_seeds

PAPER = Path(__file__).parent / "paper_reported.yaml"
AUCS = {"auc_within_task": ("#0072B2", "AUC within task"), "auc_pooled": ("#CC79A7", "AUC pooled")}
FLOORS = {"ece_noise_floor": ("0.6", "noise floor"), "ece_noise_floor_task": ("0.35", "noise floor with task effect")}
DASHES = ("-", "--", ":")


def draw(sweep: SweepRuns, out: Path) -> list[Path]:
    """Draws discrimination_calibration.{pdf,png,csv} into the sweep's folder below `out`."""
    reported = paper_points(sweep.factor)
    rows: list[dict[str, Any]] = []
    with style.figure(1, 3 if reported else 2, 3.7, 3.4) as (drawn, axes):
        position = positions(axes[0, 0], axes[0, 1], sweep)
        for arm, dash in zip(sweep.arms, DASHES, strict=False):
            for metric, (colour, name) in AUCS.items():
                series(axes[0, 0], sweep, arm, metric, position, colour, dash, name, rows)
            series(
                axes[0, 1], sweep, arm, "ece_width_10", position, "#009E73", dash, "ECE (10 bins of equal width)", rows
            )
            floors(axes[0, 1], sweep, arm, position, dash, rows)
        baselines(axes[0, 0], sweep.cells[0], rows)
        axes[0, 0].axhline(0.5, color=style.REFERENCE, linestyle=":", linewidth=1)
        axes[0, 0].set(title="Discrimination", ylabel="AUC", xlabel=sweep.factor)
        axes[0, 1].set(title="Calibration", ylabel="ECE", xlabel=sweep.factor)
        axes[0, 1].set_ylim(bottom=0)
        for axis in axes[0, :2]:
            axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2 if len(sweep.arms) > 1 else 1)
        if reported:
            paper_panel(axes[0, 2], reported, rows)
        style.footnote(
            drawn,
            f"{sweep.note()}\nLines: mean over seeds; bars: their 95 % intervals (bootstrap over clusters), averaged; dots: single seeds. "
            "Floors: mean, with the 95th percentile as the upper edge of the band.",
        )
        return style.save(drawn, sweep.folder(out), "discrimination_calibration", rows)


def positions(left: Any, right: Any, sweep: SweepRuns) -> dict[str, float]:
    """x of each level: its value on a logarithmic axis where levels are numbers, else 0, 1, 2, ..."""
    try:
        place = {level: float(level) for level in sweep.levels}
    except ValueError:
        for axis in (left, right):
            axis.set_xticks(range(len(sweep.levels)), labels=sweep.levels)
        return {level: float(i) for i, level in enumerate(sweep.levels)}
    for axis in (left, right):
        style.log_ticks(axis, list(place.values()))
    return place


def series(
    axis: Any,
    sweep: SweepRuns,
    arm: str,
    metric: str,
    place: dict[str, float],
    colour: str,
    dash: str,
    name: str,
    rows: list[dict[str, Any]],
) -> None:
    levels = [level for level in sweep.levels if sweep.at(level, arm)]
    summary = {level: mean_over_seeds(sweep.at(level, arm), metric) for level in levels}
    shown = {level: triple for level, triple in summary.items() if triple is not None}
    label = f"{name} ({arm})" if len(sweep.arms) > 1 else name
    axis.errorbar(
        [place[level] for level in shown],
        [m for m, _, _ in shown.values()],
        yerr=[[max(m - low, 0) for m, low, _ in shown.values()], [max(high - m, 0) for m, _, high in shown.values()]],
        color=colour,
        linestyle=dash,
        marker="o",
        markersize=3.5,
        elinewidth=0.9,
        capsize=2,
        label=label,
    )
    for level in levels:
        for cell in sweep.at(level, arm):
            value, interval = cell.report[metric], cell.report["ci95"].get(metric) or (None, None)
            axis.plot(place[level] * 1.06, value, ".", color=colour, markersize=3, alpha=0.7)
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


def floors(
    axis: Any, sweep: SweepRuns, arm: str, place: dict[str, float], dash: str, rows: list[dict[str, Any]]
) -> None:
    for name, (colour, label) in FLOORS.items():
        points = []
        for level in sweep.levels:
            defined = [c for c in sweep.at(level, arm) if c.report[name] is not None]
            if defined:
                mean, top = (sum(c.report[key] for c in defined) / len(defined) for key in (name, f"{name}_p95"))
                points.append((place[level], mean, top))
                rows.append({"panel": name, "arm": arm, "level": level, "value": mean, "high": top})
        if points:
            x, mean_y, top_y = zip(*points, strict=True)
            axis.plot(
                x,
                mean_y,
                color=colour,
                linestyle=dash,
                linewidth=0.8,
                label=f"{label} ({arm})" if len(sweep.arms) > 1 else label,
            )
            axis.fill_between(x, mean_y, top_y, color=colour, alpha=0.15, linewidth=0)


def baselines(axis: Any, cell: Cell, rows: list[dict[str, Any]]) -> None:
    """Within-task AUC of the rules that read no weights, as horizontal lines."""
    for name, (colour, dashes) in style.BASELINE_LOOK.items():
        value = cell.baselines.get(name, {}).get("auc_within_task")
        if value is not None:
            axis.axhline(
                value, color=colour, linestyle=dashes, linewidth=0.9, label=f"within task: {name.replace('_', ' ')}"
            )
            rows.append({"panel": "auc_within_task", "level": f"baseline {name}", "value": value})


def paper_points(factor: str) -> list[dict[str, Any]]:
    """The paper's ECE by number of samples, as reported; empty for factors it gives no such series for."""
    points = yaml.safe_load(PAPER.read_text(encoding="utf-8")).get(factor, []) if factor == "data_scale" else []
    return [p for p in points if isinstance(p, dict) and "ece" in p]


def paper_panel(axis: Any, points: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    axis.plot([p["samples"] for p in points], [p["ece"] for p in points], "s", color="black", markersize=4)
    for point in points:
        axis.annotate(
            f"{point['ece']:.3f}", (point["samples"], point["ece"]), textcoords="offset points", xytext=(6, 4)
        )
        rows.append({"panel": "paper reported ECE", "level": point["samples"], "value": point["ece"]})
    axis.set_xscale("log")
    axis.set_ylim(0, 0.6)
    axis.set(title="As the paper reports", xlabel="training samples", ylabel="ECE")
    axis.text(
        0.02,
        0.98,
        "SWE-RM (arXiv 2512.21919), SWE-bench Verified,\n30B-A3B; values by public notes.\nOther tasks and policies: not comparable.",
        transform=axis.transAxes,
        va="top",
        fontsize=6.5,
        color="0.35",
    )
