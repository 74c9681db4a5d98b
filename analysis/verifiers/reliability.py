"""When a verifier says p, is p of it resolved? Reliability diagrams with counts, one column a level (last arm: epochs).

Bins of equal width as in ece_width_10. Coloured: each seed of a level by itself, for it is one verifier
that is calibrated or not; black: all seeds together, with intervals by bootstrap over clusters.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.presentation import style
from analysis.registry import Needs, figure
from analysis.sweep.tracked import FinishedCell, SweepRuns
from rmlab.metrics.calibration import width_bin
from rmlab.metrics.uncertainty import cluster_weights, interval
from rmlab.scores.scores import Scores

BINS = 10
REPLICATES = 1000


@figure("When a verifier says p, is a share p of those attempts resolved? With counts.", Needs.sweep)
def draw(sweep: SweepRuns, out: Path) -> list[Path]:
    """Draws reliability.{pdf,png,csv} into the sweep's folder below `out`."""
    rows: list[dict[str, Any]] = []
    arm = sweep.arms[0]
    levels = [level for level in sweep.levels if sweep.at(level, arm)]
    colours = style.level_colours([str(seed) for seed in sweep.seeds], ordered=False)
    rows_of_panels, columns = style.grid(len(levels))
    ratios = [3, 1] * rows_of_panels
    with style.figure(2 * rows_of_panels, columns, 2.1, 1.9, sharex=True, sharey="row", height_ratios=ratios) as (
        drawn,
        axes,
    ):
        for place, level in enumerate(levels):
            row, column = divmod(place, columns)
            top, bottom = axes[2 * row, column], axes[2 * row + 1, column]
            panel(top, bottom, sweep.at(level, arm), level, arm, colours, rows)
            top.set_title(style.title(sweep.factor, level), pad=22)
            top.text(0.5, 1.03, ece_words(sweep.at(level, arm)), transform=top.transAxes, ha="center", fontsize=7)
            bottom.set_xlabel("score")
            if column == 0:
                top.set_ylabel("resolved share")
                bottom.set_ylabel("attempts")
        for empty in range(len(levels), rows_of_panels * columns):
            row, column = divmod(empty, columns)
            axes[2 * row, column].set_visible(False)
            axes[2 * row + 1, column].set_visible(False)
        drawn.legend(*style.legend(axes.flat), loc="outside upper center", ncols=8)
        shown = f" Arm {arm}." if arm else ""
        style.footnote(
            drawn,
            f"{sweep.foot()}{shown}\nBlack: all seeds together, with 95 % intervals (bootstrap over clusters), counts below. Coloured: "
            "each seed, larger dots are more attempts. ECE: mean and range over seeds.",
        )
        return style.save(drawn, sweep.folder(out), "reliability", rows)


def panel(
    top: Any,
    bottom: Any,
    cells: list[FinishedCell],
    level: str,
    arm: str,
    colours: dict[str, Any],
    rows: list[dict[str, Any]],
) -> None:
    top.plot([0, 1], [0, 1], color=style.REFERENCE, linestyle=":", linewidth=1, label="calibrated")
    for cell in cells if len(cells) > 1 else ():
        rows += seed_line(top, cell, level, arm, colours[str(cell.seed)])
    score, label, cluster = used([cell.scores for cell in cells])
    count, mean_score, share, low, high = binned(score, label, cluster, width_bin(score, BINS))
    there = count > 0
    top.errorbar(
        mean_score[there],
        share[there],
        yerr=[np.maximum(share - low, 0)[there], np.maximum(high - share, 0)[there]],
        color="black",
        marker="o",
        markersize=3,
        zorder=3,
        elinewidth=0.9,
        capsize=1.5,
        label="all seeds" if len(cells) > 1 else "verifier",
    )
    top.set(xlim=(0, 1), ylim=(0, 1))
    bottom.bar((np.arange(BINS) + 0.5) / BINS, count, width=0.9 / BINS, color="0.7")
    rows += [
        {
            "arm": arm,
            "level": level,
            "seed": "all",
            "bin": b,
            "count": int(count[b]),
            "mean_score": mean_score[b],
            "resolved_share": share[b],
            "low": low[b],
            "high": high[b],
        }
        for b in np.flatnonzero(there)
    ]


def used(tables: list[Scores]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.str_]]:
    """Score, label and cluster of the attempts that have both, of all tables together."""
    score, label = (np.concatenate([getattr(t, name) for t in tables]) for name in ("score", "resolved"))
    both = ~np.isnan(score) & ~np.isnan(label)
    return score[both], label[both], np.concatenate([t.cluster for t in tables])[both]


def ece_words(cells: list[FinishedCell]) -> str:
    """The ECE as mean over seeds, its range, and what is left of it less its floor; above the panel, where it lies on no bar."""
    values, less = ([cell.report[name] for cell in cells] for name in ("ece_width_10", "ece_less_floor"))
    ends = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
    return f"ECE {np.mean(values):.3f}{ends}\nless floor {np.mean(less):.3f}"


def seed_line(axis: Any, cell: FinishedCell, level: str, arm: str, colour: str) -> list[dict[str, Any]]:
    """Draws one seed by itself, the more attempts in a bin the larger the dot; returns its rows."""
    score, label, _ = used([cell.scores])
    bin_N = width_bin(score, BINS)
    count = np.bincount(bin_N, minlength=BINS)
    there = np.flatnonzero(count)
    mean_score, share = (np.bincount(bin_N, value, BINS)[there] / count[there] for value in (score, label))
    axis.plot(mean_score, share, color=colour, linewidth=0.5, alpha=0.5)
    size = 1 + 24 * count[there] / count.sum()
    axis.scatter(mean_score, share, size, color=colour, linewidths=0, clip_on=False, label=f"seed {cell.seed}")
    return [
        {
            "arm": arm,
            "level": level,
            "seed": cell.seed,
            "bin": b,
            "count": int(count[b]),
            "mean_score": x,
            "resolved_share": y,
            "run_id": cell.run.run_id,
        }
        for b, x, y in zip(there, mean_score, share, strict=True)
    ]


def binned(
    score_N: NDArray[np.float64], label_N: NDArray[np.float64], cluster_N: NDArray[np.str_], bin_N: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Count, mean score, resolved share and its 95 % interval of each of B bins (NaN where a bin is empty)."""
    _, index_N = np.unique(cluster_N, return_inverse=True)
    shape = (index_N.max() + 1, BINS)
    count_CB, resolved_CB = np.zeros(shape), np.zeros(shape)
    np.add.at(count_CB, (index_N, bin_N), 1.0)
    np.add.at(resolved_CB, (index_N, bin_N), label_N)
    count_B = count_CB.sum(0)
    weight_RC = np.concatenate(list(cluster_weights(shape[0], REPLICATES, seed=0)))
    with np.errstate(invalid="ignore"):
        share_RB = (weight_RC @ resolved_CB) / (weight_RC @ count_CB)
        mean_score_B = np.bincount(bin_N, score_N, BINS) / count_B
        share_B = resolved_CB.sum(0) / count_B
    low_B, high_B = np.full(BINS, np.nan), np.full(BINS, np.nan)
    for b in np.flatnonzero(count_B):
        low_B[b], high_B[b] = interval(float(share_B[b]), share_RB[:, b]) or (np.nan, np.nan)
    return count_B, mean_score_B, share_B, low_B, high_B
