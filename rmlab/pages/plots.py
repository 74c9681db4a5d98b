"""Small figures as SVG: axes, lines, bands, points and bars, drawn by hand because a page may not load a library.

Text stays text, so a figure is read aloud, searched and scaled. Every figure has a title that says what it shows.

The figures of a report: best of k, reliability, score distributions, risk and coverage.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rmlab.metrics import calibration
from rmlab.metrics.calibration import width_bin
from rmlab.metrics.definitions import Report
from rmlab.metrics.table import Floats, Table, ratio
from rmlab.metrics.uncertainty import cluster_weights, interval
from rmlab.pages.html import text

BLUE, ORANGE, GREEN, GREY, INK = (
    "#0072B2",
    "#C44E00",
    "#00714F",
    "#6b6b6b",
    "#1a1a1a",
)  # told apart with colour-blind eyes, dark on white
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 26, 42
CHARACTER = 6.4  # width of one at 12 px, about

Points = Sequence[tuple[float, float]]


@dataclass
class Plot:
    """One figure. x, y: ranges of the axes. x_ticks: where None, four to six round numbers. log: x by its binary logarithm."""

    title: str
    x_label: str
    y_label: str
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)
    x_ticks: Sequence[float] | None = None
    log: bool = False
    width: int = 460
    height: int = 320
    _marks: list[str] = field(default_factory=list)
    _legend: list[tuple[str, str, str]] = field(default_factory=list)

    def line(self, points: Points, colour: str, label: str = "", dash: str = "") -> None:
        """Points joined by straight lines."""
        path = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points if np.isfinite(y))
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._marks.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>')
        self._name(label, colour, dash)

    def band(self, low: Points, high: Points, colour: str) -> None:
        """The area between two lines, for intervals."""
        path = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in [*low, *reversed(high)] if np.isfinite(y))
        self._marks.append(f'<polygon points="{path}" fill="{colour}" fill-opacity="0.15" stroke="none"/>')

    def dots(self, points: Points, colour: str, label: str = "", hints: Sequence[str] = ()) -> None:
        """A dot each. hints: what is shown when one is pointed at."""
        for i, (x, y) in enumerate(points):
            hint = f"<title>{text(hints[i])}</title>" if hints else ""
            self._marks.append(
                f'<circle cx="{self._x(x):.1f}" cy="{self._y(y):.1f}" r="4" fill="{colour}">{hint}</circle>'
            )
        self._name(label, colour, "dot" if label else "")

    def whiskers(self, x_N: Sequence[float], ends_N: Sequence[tuple[float, float]], colour: str) -> None:
        for x, (low, high) in zip(x_N, ends_N, strict=True):
            self._marks.append(
                f'<path d="M{self._x(x):.1f} {self._y(low):.1f}V{self._y(high):.1f}" stroke="{colour}" stroke-width="1.5"/>'
            )

    def bars(self, edges: Sequence[float], heights: Sequence[float], colour: str, label: str = "") -> None:
        """A histogram: bars between neighbouring edges, from 0 up."""
        for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True):
            if height > 0:
                x, y = self._x(left), self._y(height)
                self._marks.append(
                    f'<rect x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(self._x(right) - x - 1, 0.5):.1f}" '
                    f'height="{self._y(0) - y:.1f}" fill="{colour}" fill-opacity="0.45" stroke="{colour}"/>'
                )
        self._name(label, colour, "box" if label else "")

    def svg(self) -> str:
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{text(self.title)}" font-size="12" fill="{INK}">'
            f"<title>{text(self.title)}</title>{self._axes()}{''.join(self._marks)}{self._legend_marks()}</svg>"
        )

    def _axes(self) -> str:
        right, bottom = self.width - RIGHT, self.height - BOTTOM
        marks = []
        for tick in self.x_ticks if self.x_ticks is not None else _round_ticks(*self.x):
            at = self._x(tick)
            marks.append(
                f'<path d="M{at:.1f} {TOP}V{bottom}" stroke="#e6e6e6"/>'
                f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>'
            )
        for tick in _round_ticks(*self.y):
            at = self._y(tick)
            marks.append(
                f'<path d="M{LEFT} {at:.1f}H{right}" stroke="#e6e6e6"/>'
                f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>'
            )
        marks.append(f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="{GREY}"/>')
        marks.append(
            f'<text x="{(LEFT + right) / 2}" y="{self.height - 8}" text-anchor="middle">{text(self.x_label)}</text>'
        )
        marks.append(
            f'<text transform="translate(13 {(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">{text(self.y_label)}</text>'
        )
        return "".join(marks)

    def _legend_marks(self) -> str:
        marks, at = [], float(LEFT)
        for label, colour, kind in self._legend:
            if kind == "dot":
                sign = f'<circle cx="{at + 8:.0f}" cy="12" r="4" fill="{colour}"/>'
            elif kind == "box":
                sign = f'<rect x="{at:.0f}" y="7" width="16" height="10" fill="{colour}" fill-opacity="0.45" stroke="{colour}"/>'
            else:
                dashed = f' stroke-dasharray="{kind}"' if kind else ""
                sign = f'<path d="M{at:.0f} 12h16" stroke="{colour}" stroke-width="2"{dashed}/>'
            marks.append(f'{sign}<text x="{at + 21:.0f}" y="16">{text(label)}</text>')
            at += 30 + CHARACTER * len(label)
        return "".join(marks)

    def _name(self, label: str, colour: str, kind: str) -> None:
        if label:
            self._legend.append((label, colour, kind))

    def _x(self, value: float) -> float:
        low, high, at = (*self.x, value) if not self.log else np.log2([*self.x, value])
        span = high - low or 1.0
        return float(LEFT + (at - low) / span * (self.width - LEFT - RIGHT))

    def _y(self, value: float) -> float:
        low, high = self.y
        return float(
            self.height
            - BOTTOM
            - (min(max(value, low), high) - low) / ((high - low) or 1.0) * (self.height - TOP - BOTTOM)
        )


def _round_ticks(low: float, high: float) -> list[float]:
    """Four to seven round numbers from low to high."""
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0 ** np.floor(np.log10(span))
    step = next(step for step in (0.2 * power, 0.25 * power, 0.5 * power, power, 2 * power) if span / step <= 6)
    first = np.ceil(low / step - 1e-9) * step
    return [float(f"{tick:.10g}") + 0.0 for tick in np.arange(first, high + step * 1e-6, step)]


BINS = 10
REPLICATES = 500
DRAWN_BASELINES = {"majority": "8 3", "last_value": "2 3", "length": "1 4"}


def best_of_k(report: Report) -> str | None:
    """RM@k and pass@k over k with their intervals, and baselines; None where no task has two attempts."""
    ks = [int(k) for k in report["rm_at_k"]]
    if len(ks) < 2:
        return None
    drawn = {"pass_at_k": (GREY, "pass@k (oracle)", "6 4"), "rm_at_k": (BLUE, "RM@k", "")}
    if report["score_rate"] == 0:
        del drawn["rm_at_k"]  # without scores the pick is a random one
    curves = [report[name] for name in drawn]
    shown = {
        name: report["baselines"][name]["rm_at_k"]
        for name in DRAWN_BASELINES
        if (report.get("baselines") or {}).get(name, {}).get("rm_at_k")
    }
    values = [value for curve in (*curves, *shown.values()) for value in curve.values()]
    ends = [end for name in drawn for pair in report["ci95"].get(name, {}).values() if pair for end in pair]
    low, high = min([*values, *ends]), max([*values, *ends])
    plot = Plot(
        "RM@k and pass@k over the number of attempts k",
        "attempts k",
        "share resolved",
        x=(ks[0], ks[-1]),
        x_ticks=ks,
        log=True,
        y=(max(low - 0.03, 0.0), min(high + 0.03, 1.0)),
    )
    for name, (colour, label, dash) in drawn.items():
        pairs = [report["ci95"].get(name, {}).get(str(k)) for k in ks]
        if all(pairs):
            plot.band(
                [(k, pair[0]) for k, pair in zip(ks, pairs, strict=True)],
                [(k, pair[1]) for k, pair in zip(ks, pairs, strict=True)],
                colour,
            )
        points = [(float(k), report[name][str(k)]) for k in ks]
        plot.line(points, colour, label, dash)
        plot.dots(points, colour, hints=[f"{label}, k = {k:g}: {value:.4f}" for k, value in points])
    for name, curve in shown.items():
        points = [(float(k), value) for k, value in curve.items() if int(k) <= ks[-1]]
        plot.line(points, ORANGE, name.replace("_", " "), DRAWN_BASELINES[name])
    return plot.svg()


def reliability(rows: Table, seed: int = 0) -> str:
    """The rate of resolved attempts against the score in 10 bins of equal width, intervals by a bootstrap of clusters."""
    scored = rows.scored
    bin_N = width_bin(scored.score_N, BINS)
    at = scored.cluster_N * BINS + bin_N
    count_CB, score_CB, label_CB = (
        np.bincount(at, weight_N, rows.clusters * BINS).reshape(rows.clusters, BINS)
        for weight_N in (np.ones(len(at)), scored.score_N, scored.label_N)
    )
    used_B = count_CB.sum(axis=0) > 0
    score_B, rate_B = (ratio(column_CB.sum(axis=0), count_CB.sum(axis=0))[used_B] for column_CB in (score_CB, label_CB))
    plot = Plot("Reliability: share resolved against the score, in 10 bins", "mean score of a bin", "share resolved")
    plot.line([(0, 0), (1, 1)], GREY, "calibrated", "6 4")
    if rows.clusters > 1:
        drawn = [
            ratio(weight_RC @ label_CB, weight_RC @ count_CB)
            for weight_RC in cluster_weights(rows.clusters, REPLICATES, seed)
        ]
        rate_RB = np.concatenate(drawn)[:, used_B]
        plot.whiskers(
            [float(s) for s in score_B],
            [interval(float(r), rate_R) or (np.nan, np.nan) for r, rate_R in zip(rate_B, rate_RB.T, strict=True)],
            BLUE,
        )
    counts = count_CB.sum(axis=0)[used_B]
    plot.dots(
        [(float(s), float(r)) for s, r in zip(score_B, rate_B, strict=True)],
        BLUE,
        "bins, 95 %",
        [
            f"{n:,.0f} attempts: mean score {s:.3f}, resolved {r:.3f}"
            for n, s, r in zip(counts, score_B, rate_B, strict=True)
        ],
    )
    return plot.svg()


def distributions(rows: Table) -> str:
    """Histograms of the scores of resolved and of unresolved attempts, each as shares of its own."""
    edges = np.linspace(0, 1, 2 * BINS + 1)
    score_N, label_N = rows.scored.score_N, rows.scored.label_N
    shares = [_shares(score_N[label_N == label], 2 * BINS) for label in (0.0, 1.0)]
    highest = float(max(share_B.max() for share_B in shares))
    plot = Plot(
        "Scores of resolved and unresolved attempts",
        "score",
        "share of attempts of a label",
        y=(0.0, highest * 1.05 or 1.0),
    )
    counts = [int((label_N == label).sum()) for label in (0.0, 1.0)]
    for share_B, colour, label, count in zip(shares, (ORANGE, BLUE), ("unresolved", "resolved"), counts, strict=True):
        plot.bars([float(e) for e in edges], [float(s) for s in share_B], colour, f"{label} ({count:,})")
    return plot.svg()


def risk_and_coverage(rows: Table) -> str:
    """Error rate of what is kept when the least sure are left out: attempts by the likelier answer, tasks by their pick."""
    curves = {"attempts": (calibration.of_attempts(rows), GREEN), "picks": (calibration.of_picks(rows), BLUE)}
    highest = max((float(curve.risk_N.max()) for curve, _ in curves.values() if len(curve.risk_N)), default=1.0)
    plot = Plot(
        "Risk and coverage: error rate of the most confident share",
        "share kept, most confident first",
        "share wrong",
        y=(0.0, min(max(highest, 0.05) * 1.05, 1.0)),
    )
    for name, (curve, colour) in curves.items():
        count = len(curve.risk_N)
        if count:
            kept_P = np.unique(np.linspace(0, count - 1, min(count, 200)).astype(int))
            plot.line(
                [((i + 1) / count, float(curve.risk_N[i])) for i in kept_P], colour, f"{name} (AURC {curve.aurc:.3f})"
            )
    return plot.svg()


def _shares(score_N: Floats, bins: int) -> Floats:
    count_B = np.bincount(width_bin(score_N, bins), minlength=bins).astype(float)
    return np.asarray(count_B / max(count_B.sum(), 1.0))
