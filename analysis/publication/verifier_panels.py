"""Panels that show what verifiers are offline, one beside another: best of k, ROC within tasks, reliability, where the scores lie.

Every panel is drawn from a score table and its report. What is drawn comes back as rows, which a figure's CSV has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.presentation import style
from analysis.rl.policies import PolicyRun
from analysis.verifiers.reliability import BINS, binned, used
from rmlab.errors import MissingArtifact
from rmlab.metrics.calibration import width_bin
from rmlab.metrics.table import Floats
from rmlab.rl.paid_scores import attempts_of
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table

TABLE = "scores.parquet"
EDGES = np.linspace(0, 1, 21)


@dataclass(frozen=True)
class Look:
    """hollow: its marks. covered: how a curve is drawn that another one covers, where that is not as all others are."""

    colour: str
    dash: str
    mark: str
    hollow: bool = False
    covered: Mapping[str, Any] = field(default_factory=dict)


LOOKS = (Look(style.RESOLVED, "-", "o"), Look(style.UNRESOLVED, "--", "s"))


@dataclass(frozen=True)
class Shown:
    """One of those that panels compare. column, name: what the CSV calls it, and in which column. label: in the legend. title: of the
    panel of its scores. report, scores: its own, as it pays."""

    column: str
    name: str
    label: str
    title: str
    report: Mapping[str, Any]
    scores: Scores
    look: Look

    def row(self, panel: str, x: float, y: float) -> dict[str, Any]:
        """A drawn point."""
        return {"panel": panel, self.column: self.name, "x": x, "y": y}


def has_table(run: PolicyRun) -> bool:
    """Whether the score table of the verifier that paid is there."""
    try:
        return run.paid_by is not None and bool(run.paid_by.artifact(TABLE))
    except MissingArtifact:
        return False


def table_of(run: PolicyRun) -> Scores:
    """The score table of the verifier that paid, as the verifier scores."""
    assert run.paid_by is not None
    return read_score_table(run.paid_by.artifact(TABLE))


def best_of_most(report: Mapping[str, Any]) -> tuple[int, float]:
    """The largest k, and RM@k at it."""
    curve = report["rm_at_k"]
    most = max(curve, key=int)
    return int(most), float(curve[most])


def roc_within(scores: Scores) -> tuple[Floats, Floats]:
    """False and true positive rate within a task: false_X, true_X, from (0, 0) to (1, 1). They are the shares of its unresolved and of
    its resolved attempts that have scores above a threshold.

    Every pair of a resolved and an unresolved attempt of one policy at one task counts alike, so that the area is the AUC within
    task over all such pairs; a resolved attempt stands where the share of unresolved ones above it is, ties as halves.
    """
    known = ~np.isnan(scores.score) & ~np.isnan(scores.resolved)
    group_N = attempts_of(scores)[known]
    score_N, resolved_N = scores.score[known], scores.resolved[known] == 1
    by_group = np.argsort(group_N, kind="stable")
    ends = np.flatnonzero(np.diff(group_N[by_group])) + 1
    above: list[float] = []
    weight: list[float] = []
    for rows in np.split(by_group, ends):
        good, bad = score_N[rows][resolved_N[rows]], score_N[rows][~resolved_N[rows]]
        if len(good) and len(bad):
            over = (bad[None, :] > good[:, None]).mean(axis=1) + (bad[None, :] == good[:, None]).mean(axis=1) / 2
            above += over.tolist()
            weight += [float(len(bad))] * len(good)
    order = np.argsort(above)
    share = np.cumsum(np.array(weight)[order]) / np.sum(weight)
    return np.array([0.0, *np.array(above)[order], 1.0]), np.array([0.0, *share, 1.0])


def line(
    axis: Any, panel: str, shown: Shown, x: Sequence[float], y: Sequence[float], marked: bool = True, **options: Any
) -> list[dict[str, Any]]:
    """Draws a line in the look of what is shown, with its marks at the points where marked."""
    look = shown.look
    fill = {"markersize": 4, "markerfacecolor": "white"} if look.hollow else {"markersize": 3}
    given = {"color": look.colour, "linestyle": look.dash, "linewidth": 1.2, **fill, **options}
    axis.plot(x, y, marker=look.mark if marked else None, **given)
    return [shown.row(panel, a, b) for a, b in zip(x, y, strict=True)]


def offline(best: Any, roc: Any, reliable: Any, distribution: Any, shown: Shown) -> list[dict[str, Any]]:
    """Draws one verifier into the panels that it shares with others and into that of its own scores."""
    covered = shown.look.covered
    curve = sorted((int(k), value) for k, value in shown.report["rm_at_k"].items())
    sizes, values = zip(*curve, strict=True)
    rows = line(best, "rm_at_k", shown, sizes, values, label=shown.label, **covered)
    style.log_ticks(best, [float(k) for k in sizes])
    false_X, true_X = roc_within(shown.scores)
    rows += line(roc, "roc", shown, false_X.tolist(), true_X.tolist(), marked=False, drawstyle="steps-post", **covered)
    return [*rows, *_reliability(reliable, shown), *_distribution(distribution, shown)]


def _reliability(axis: Any, shown: Shown) -> list[dict[str, Any]]:
    score, label, cluster = used([shown.scores])
    count, mean, share, low, high = binned(score, label, cluster, width_bin(score, BINS))
    there = count > 0
    rows = line(axis, "reliability", shown, mean[there].tolist(), share[there].tolist())
    axis.vlines(mean[there], low[there], high[there], color=shown.look.colour, linewidth=0.8)
    return rows


def _distribution(axis: Any, shown: Shown) -> list[dict[str, Any]]:
    score, label, _ = used([shown.scores])
    colour, rows = shown.look.colour, list[dict[str, Any]]()
    for value, name, look in ((0.0, "unresolved", {"hatch": "////"}), (1.0, "resolved", {})):
        density, _ = np.histogram(score[label == value], EDGES, density=True)
        face = colour if value else "none"
        axis.stairs(density, EDGES, fill=True, facecolor=face, edgecolor=colour, alpha=0.6, label=name, **look)
        rows += [shown.row(name, float(x), float(y)) for x, y in zip(EDGES, density, strict=False)]
    axis.set(xlabel="score", ylabel="density")
    axis.set_title(style.short(shown.title), fontsize=7, fontweight="normal")
    axis.margins(y=0.6)  # room for the legend
    axis.legend(loc="upper right")
    return rows


def frame(best: Any, roc: Any, reliable: Any, at_most: str) -> None:
    """Axes of the panels that verifiers share, once all of them are drawn. at_most: words on RM@k at the largest k."""
    best.set(xlabel="k", ylabel="RM@k", ylim=(0, 1.1 * best.get_ylim()[1]))  # from 0: what is alike looks alike
    best.text(0.5, 0.05, at_most, transform=best.transAxes, ha="center", va="bottom", fontsize=7)
    for axis, x, y in ((roc, "false positive rate", "true positive rate"), (reliable, "score", "resolved share")):
        axis.plot([0, 1], [0, 1], color=style.REFERENCE, linestyle=":", linewidth=0.8)
        axis.set(xlabel=x, ylabel=y, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
