"""Two verifiers that are alike in best of k and unlike in what RL makes of them, side by side.

Best of k; a ROC curve within tasks; reliability; where the scores of each lie; and the policy that each alone has paid. The pair is
chosen by a rule: of the verifiers that paid alone from one start, with the scores as they are, those two whose RM@k at the largest k
differ by ALIKE at most, and whose policies differ most in pass@1 after RL; with voluntary evidence only where no two with final evidence
fit. So it illustrates, and tests nothing.
"""

import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from analysis.presentation import style
from analysis.presentation.captions import Caption, write_captions
from analysis.registry import Needs, figure
from analysis.rl.outcomes import parameter
from analysis.rl.policies import PolicyRun
from analysis.verifiers.reliability import BINS, binned, used
from rmlab.errors import MissingArtifact
from rmlab.metrics.calibration import width_bin
from rmlab.metrics.table import Floats
from rmlab.rl.held_out import compare_policies
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table
from rmlab.wording import counted, estimate

NAME = "two_verifiers"
ALIKE = 0.02
VOLUNTARY = "voluntary"
EDGES = np.linspace(0, 1, 21)
LOOKS = ((style.RESOLVED, "-", "o"), (style.UNRESOLVED, "--", "s"))


@figure(
    "How can two verifiers with similar best of k give different RL results? Best of k, ROC within tasks, "
    "reliability, scores and the policies, side by side.",
    Needs.rl_study,
)
def draw(runs: Sequence[PolicyRun], out: Path) -> list[Path]:
    """Draws two_verifiers.{pdf,png,csv}, two_verifiers_one_column.pdf and their captions into OUT/rl/two_verifiers."""
    pair = chosen(runs)
    if pair is None:
        print(
            f"{NAME}: no two verifiers that paid alone from one start have an RM@k within {ALIKE} of each other and their score tables",
            file=sys.stderr,
        )
        return []
    folder, paths = out / "rl" / NAME, list[Path]()
    tables = [_table(run) for run in pair]
    for rows, columns, width, height in ((2, 3, style.TWO_COLUMNS, 4.4), (3, 2, style.ONE_COLUMN, 5.6)):
        with style.figure(rows, columns, width / columns, height / rows) as (drawn, axes):
            points = _panels(axes.flat, pair, tables)
            drawn.legend(*style.legend(axes.flat[:1]), loc="outside lower center", ncols=1 if columns == 2 else 2)
            if columns > 2:
                paths += style.save(drawn, folder, NAME, points)
            else:
                paths.append(style.save_picture(drawn, folder / f"{NAME}_one_column.pdf"))
    return [*paths, *write_captions(folder, NAME, caption(pair, tables))]


def chosen(runs: Sequence[PolicyRun]) -> tuple[PolicyRun, PolicyRun] | None:
    """The pair, the better policy first; None where no two fit."""
    fitting = [run for run in runs if _fits(run)]
    pairs = [
        (gained(a) - gained(b), a, b) if gained(a) >= gained(b) else (gained(b) - gained(a), b, a)
        for a, b in combinations(fitting, 2)
        if _place(a) == _place(b)
        and a.verifier_fingerprint != b.verifier_fingerprint
        and abs(_best(a) - _best(b)) <= ALIKE
    ]
    if not pairs:
        return None
    _, better, worse = max(pairs, key=lambda one: (one[1].evidence != VOLUNTARY, one[0], one[1].run.run_id))
    return better, worse


def _fits(run: PolicyRun) -> bool:
    if parameter(run.run, "reward") != "execution_free" or run.run.tags.get("reward_variant"):
        return False
    if run.paid_by is None or not run.verifier_report.get("rm_at_k") or not run.outcome["held_out"]:
        return False
    try:
        run.paid_by.artifact("scores.parquet")
    except MissingArtifact:
        return False
    return True


def _place(run: PolicyRun) -> tuple[str, ...]:
    tags = run.run.tags
    return tags.get("start_fingerprint", ""), tags.get("fixed", ""), run.evidence, str(run.seed)


def gained(run: PolicyRun) -> float:
    """pass@1 after RL, sampled, on the held-out tasks."""
    return float(run.outcome["held_out"]["all"]["sampled"]["after"])


def _best(run: PolicyRun) -> float:
    curve = run.verifier_report["rm_at_k"]
    return float(curve[max(curve, key=int)])


def _table(run: PolicyRun) -> Scores:
    assert run.paid_by is not None
    return read_score_table(run.paid_by.artifact("scores.parquet"))


def roc_within(scores: Scores) -> tuple[Floats, Floats]:
    """False and true positive rate within a task: false_X, true_X, from (0, 0) to (1, 1). They are the shares of its unresolved and of
    its resolved attempts that have scores above a threshold.

    Every pair of a resolved and an unresolved attempt of one policy at one task counts alike, so that the area is the AUC within
    task over all such pairs; a resolved attempt stands where the share of unresolved ones above it is, ties as halves.
    """
    known = ~np.isnan(scores.score) & ~np.isnan(scores.resolved)
    names = np.array([f"{task} {policy}" for task, policy in zip(scores.task_id, scores.policy, strict=True)])[known]
    score_N, resolved_N = scores.score[known], scores.resolved[known] == 1
    by_name = np.argsort(names, kind="stable")
    ends = np.flatnonzero(names[by_name][1:] != names[by_name][:-1]) + 1
    above: list[float] = []
    weight: list[float] = []
    for rows in np.split(by_name, ends):
        good, bad = score_N[rows][resolved_N[rows]], score_N[rows][~resolved_N[rows]]
        if len(good) and len(bad):
            over = (bad[None, :] > good[:, None]).mean(axis=1) + (bad[None, :] == good[:, None]).mean(axis=1) / 2
            above += over.tolist()
            weight += [float(len(bad))] * len(good)
    order = np.argsort(above)
    share = np.cumsum(np.array(weight)[order]) / np.sum(weight)
    return np.array([0.0, *np.array(above)[order], 1.0]), np.array([0.0, *share, 1.0])


def _panels(axes: Any, pair: Sequence[PolicyRun], tables: Sequence[Scores]) -> list[dict[str, Any]]:
    best, roc, reliable, *distributions, policy = axes
    distributions[1].sharey(distributions[0])
    rows: list[dict[str, Any]] = []

    def line(axis: Any, panel: str, place: int, x: Sequence[float], y: Sequence[float], **options: Any) -> None:
        colour, dash, mark = LOOKS[place]
        marker = mark if options.pop("marked", False) else None
        axis.plot(x, y, color=colour, linestyle=dash, marker=marker, markersize=3, linewidth=1.2, **options)
        rows.extend(
            {"panel": panel, "verifier": pair[place].verifier, "x": a, "y": b} for a, b in zip(x, y, strict=True)
        )

    for place, (run, scores, axis) in enumerate(zip(pair, tables, distributions, strict=True)):
        colour, report = LOOKS[place][0], run.verifier_report
        curve = sorted((int(k), value) for k, value in report["rm_at_k"].items())
        metrics = f"AUC within task {report['auc_within_task']:.2f}, ECE {report['ece_width_10']:.2f}"
        words = f"{run.verifier}:\n{metrics}, pass@1 after RL {gained(run):.3f}"  # one line is wider than a column
        line(best, "rm_at_k", place, *zip(*curve, strict=True), marked=True, label=words)
        line(roc, "roc", place, *(side.tolist() for side in roc_within(scores)), drawstyle="steps-post")
        score, label, cluster = used([scores])
        count, mean, share, low, high = binned(score, label, cluster, width_bin(score, BINS))
        there = count > 0
        line(reliable, "reliability", place, mean[there].tolist(), share[there].tolist(), marked=True)
        reliable.vlines(mean[there], low[there], high[there], color=colour, linewidth=0.8)
        for value, name, style_of in ((0.0, "unresolved", {"hatch": "////"}), (1.0, "resolved", {})):
            density, _ = np.histogram(score[label == value], EDGES, density=True)
            face = colour if value else "none"
            axis.stairs(density, EDGES, fill=True, facecolor=face, edgecolor=colour, alpha=0.6, label=name, **style_of)
            rows += [
                {"panel": name, "verifier": run.verifier, "x": float(x), "y": float(d)}
                for x, d in zip(EDGES, density, strict=False)
            ]
        axis.set(xlabel="score", ylabel="density")
        axis.set_title(style.short(run.verifier), fontsize=7, fontweight="normal")
        axis.margins(y=0.6)  # room for the legend
        axis.legend(loc="upper right")
        looks = run.outcome["curve"]
        line(
            policy, "pass_at_1", place, [row["step"] for row in looks], [row["pass_at_1"] for row in looks], marked=True
        )
        known = [row for row in looks if "pass_at_1_low" in row]
        ends = [[row[name] for row in known] for name in ("step", "pass_at_1_low", "pass_at_1_high")]
        policy.fill_between(*ends, color=colour, alpha=0.15, lw=0)
    style.log_ticks(best, [float(k) for k, _ in curve])
    best.set(xlabel="k", ylabel="RM@k", ylim=(0, 1.1 * best.get_ylim()[1]))  # from 0: what is alike looks alike
    values = " and ".join(f"{_best(run):.3f}" for run in pair)
    best.text(
        0.5, 0.05, f"k = {curve[-1][0]}:\n{values}", transform=best.transAxes, ha="center", va="bottom", fontsize=7
    )
    for axis, x, y in ((roc, "false positive rate", "true positive rate"), (reliable, "score", "resolved share")):
        axis.plot([0, 1], [0, 1], color=style.REFERENCE, linestyle=":", linewidth=0.8)
        axis.set(xlabel=x, ylabel=y, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    policy.set(xlabel="step of RL", ylabel="pass@1, validation")
    return rows


def caption(pair: Sequence[PolicyRun], tables: Sequence[Scores]) -> Caption:
    """What a reader of the figure alone has to know."""
    good, bad = (f"{run.verifier} ({gained(run):.3f} after RL)" for run in pair)
    both = compare_policies(pair[0].run, pair[1].run, pair[0].outcome.get("without", ()))["benchmarks"]["all"][
        "sampled"
    ]
    points = [100 * both[name] for name in ("difference", "low", "high")]
    tasks = len(np.unique(tables[0].task_id))
    banded = any("pass_at_1_low" in row for run in pair for row in run.outcome["curve"])
    return Caption(
        f"Two verifiers alike in best of k and unlike in RL: {good} and {bad}.",
        "The pair that differs most in pass@1 after RL among those that paid alone from one start, with "
        f"{pair[0].evidence} evidence and with their scores as they are, and whose RM@k differ by {ALIKE} at most: an illustration, "
        "chosen by its outcome. On the held-out tasks they differ by "
        f"{estimate(points[0], (points[1], points[2]), 1)} points (95 %, paired by task). RM@k and the ROC curve within tasks (all "
        "pairs of one policy at one task alike), reliability in ten bins with 95 % intervals over clusters of functions, and densities of "
        "the scores are of one frozen set of attempts; the curves of pass@1 are on validation tasks, of which there are fewer"
        f"{'; bands are 95 % intervals over clusters' if banded else ''}.",
        f"n = {counted(len(tables[0]), 'attempt')} at {counted(tasks, 'task')}; one training and one RL seed ({pair[0].seed}) each.",
    )
