"""The figures of a report: best of k, reliability, score distributions, risk and coverage."""

import numpy as np

from rmlab.metrics import risk_coverage
from rmlab.metrics.calibration import width_bin
from rmlab.metrics.definitions import Report
from rmlab.metrics.table import Floats, Table, ratio
from rmlab.metrics.uncertainty import cluster_weights
from rmlab.pages.plots import BLUE, GREEN, GREY, ORANGE, Plot

BINS = 10
REPLICATES = 500
DRAWN_BASELINES = {"majority": "8 3", "last_value": "2 3", "length": "1 4"}


def best_of_k(found: Report) -> str | None:
    """RM@k and pass@k over k with their intervals, and baselines; None where no task has two attempts."""
    ks = [int(k) for k in found["rm_at_k"]]
    if len(ks) < 2:
        return None
    drawn = {"pass_at_k": (GREY, "pass@k (oracle)", "6 4"), "rm_at_k": (BLUE, "RM@k", "")}
    if found["score_rate"] == 0:
        del drawn["rm_at_k"]  # without scores the pick is a random one
    curves = [found[name] for name in drawn]
    shown = {
        name: found["baselines"][name]["rm_at_k"]
        for name in DRAWN_BASELINES
        if (found.get("baselines") or {}).get(name, {}).get("rm_at_k")
    }
    values = [value for curve in (*curves, *shown.values()) for value in curve.values()]
    ends = [end for name in drawn for pair in found["ci95"].get(name, {}).values() if pair for end in pair]
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
        pairs = [found["ci95"].get(name, {}).get(str(k)) for k in ks]
        if all(pairs):
            plot.band(
                [(k, pair[0]) for k, pair in zip(ks, pairs, strict=True)],
                [(k, pair[1]) for k, pair in zip(ks, pairs, strict=True)],
                colour,
            )
        points = [(float(k), found[name][str(k)]) for k in ks]
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
            [(float(a), float(b)) for a, b in zip(*np.nanquantile(rate_RB, [0.025, 0.975], axis=0), strict=True)],
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
    curves = {"attempts": (risk_coverage.of_attempts(rows), GREEN), "picks": (risk_coverage.of_picks(rows), BLUE)}
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
