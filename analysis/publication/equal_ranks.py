"""One verifier paid in two ways that keep all its ranks: equal best of k and ROC, unequal calibration, and other policies after RL.

The pair is the plan's of which_metric_foretells_rl, named before the first run: the two ends of its experiment of calibration at equal
ranks. What is said of the policies is computed as for the figure `foretelling`. The offline panels are of one training, that of the
first RL seed, with its scores as both conditions pay them; that ranks are equal is checked for every training.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from analysis.foretelling.causal import causal, moved
from analysis.foretelling.equivalence import Equivalence
from analysis.foretelling.plan import configuration
from analysis.foretelling.runs import PaidRun, Study, read_study
from analysis.presentation import style
from analysis.presentation.captions import Caption, write_captions
from analysis.publication import verifier_panels as panels
from analysis.publication.verifier_panels import Look, Shown
from analysis.registry import Needs, figure
from analysis.rl.policies import PolicyRun
from rmlab.errors import DataError
from rmlab.metrics.sweep_levels import LEAST_SEEDS
from rmlab.rl.config import TransformConfig
from rmlab.rl.paid_scores import as_paid, ranks_within
from rmlab.scores.scores import Scores
from rmlab.wording import counted, estimate

NAME = "equal_ranks"
BLOCK = "distortion"
CONDITIONS = ("recalibrated", "shifted_far_up")
COMPARISON = f"calibration: {CONDITIONS[1]}"
LOOKS = (
    panels.LOOKS[0],
    # wider than the curve that covers it
    replace(panels.LOOKS[1], hollow=True, covered={"linewidth": 3.4, "alpha": 0.6, "markersize": 7.5, "zorder": 1.9}),
)


@dataclass(frozen=True)
class Condition:
    """One way to pay the verifier. runs: of the plan's block, by RL seed. moved: its row of `analysis.foretelling.causal.moved`."""

    name: str
    runs: Mapping[int, PaidRun]
    moved: Mapping[str, Any]
    look: Look

    @property
    def words(self) -> str:
        return self.name.replace("_", " ")


@dataclass(frozen=True)
class Found:
    """What is drawn. scores: the table of the training that is shown, as each condition pays it; seed: the RL seed that it pays.
    trainings: how many of the verifier had their ranks compared."""

    both: tuple[Condition, Condition]
    difference: Equivalence
    seed: int
    scores: tuple[Scores, Scores]
    trainings: int


@figure(
    "Can two ways to pay one verifier have equal best of k and equal ROC, and opposite results in RL? Scores of one verifier recalibrated "
    "and shifted far up, by the plan of which_metric_foretells_rl.",
    Needs.rl_study,
)
def draw(runs: Sequence[PolicyRun], out: Path) -> list[Path]:
    """Draws equal_ranks.{pdf,png,csv}, equal_ranks_one_column.pdf and their captions into OUT/rl/equal_ranks.

    Raises DataError as `equal_ranks`.
    """
    found = compared(read_study(runs))
    if found is None:
        print(
            f"{NAME}: no {LEAST_SEEDS} RL seeds of which_metric_foretells_rl have one verifier paid as {' and as '.join(CONDITIONS)}, with "
            "its score table",
            file=sys.stderr,
        )
        return []
    folder, paths = out / "rl" / NAME, list[Path]()
    for rows, columns, width, height in ((2, 3, style.TWO_COLUMNS, 4.4), (3, 2, style.ONE_COLUMN, 6.0)):
        with style.figure(rows, columns, width / columns, height / rows) as (drawn, axes):
            best, roc, *others = axes.flat
            # both distributions side by side, whose heights are compared
            reliable, *distributions = others[:3] if columns > 2 else (others[2], *others[:2])
            points = _panels((best, roc, reliable, *distributions, others[3]), found)
            drawn.legend(
                *style.legend([best]), loc="outside lower center", ncols=1 if columns == 2 else 2, handlelength=3.5
            )
            if columns > 2:
                paths += style.save(drawn, folder, NAME, points)
            else:
                paths.append(style.save_picture(drawn, folder / f"{NAME}_one_column.pdf"))
    return [*paths, *write_captions(folder, NAME, caption(found))]


def compared(study: Study) -> Found | None:
    """Both conditions, and what became of their policies; None where fewer RL seeds have both than are compared, or where no verifier's
    score table is there.

    Raises DataError as `equal_ranks`.
    """
    difference = causal(study).get(COMPARISON)
    if difference is None:
        return None
    rows = {row["condition"]: row for row in moved(study) if row["block"] == BLOCK}
    first, second = (
        Condition(
            name, {run.policy.seed: run for run in study.of(BLOCK) if run.cell["condition"] == name}, rows[name], look
        )
        for name, look in zip(CONDITIONS, LOOKS, strict=True)
    )
    paid: dict[str, tuple[int, tuple[Scores, Scores]]] = {}
    for seed in sorted(first.runs.keys() & second.runs.keys()):
        one, other = (condition.runs[seed].policy for condition in (first, second))
        same = one.verifier_fingerprint == other.verifier_fingerprint
        if same and one.verifier_fingerprint not in paid and panels.has_table(one):
            paid[one.verifier_fingerprint] = seed, equal_ranks(one, other)
    if not paid:
        return None
    seed, scores = next(iter(paid.values()))
    return Found((first, second), difference, seed, scores, len(paid))


def equal_ranks(one: PolicyRun, other: PolicyRun) -> tuple[Scores, Scores]:
    """The table of the verifier that paid both runs, as each run pays it. Raises DataError unless both have all ranks of one policy's
    attempts at one task equal, ties where the other has ties, and the same best of k and AUC within task in their reports."""
    table = panels.table_of(one)
    first, second = (as_paid(table, transform_of(run)) for run in (one, other))
    wrong = int((ranks_within(first) != ranks_within(second)).sum())
    if wrong:
        raise DataError(
            f"{NAME}: {counted(wrong, 'attempt')} of {len(table):,} have other ranks in the scores that run {other.run.run_id[:8]} pays "
            f"than in those of {one.run.run_id[:8]}: the two differ in more than calibration"
        )
    for name in ("rm_at_k", "auc_within_task"):
        if one.verifier_report[name] != other.verifier_report[name]:
            raise DataError(
                f"{NAME}: runs {one.run.run_id[:8]} and {other.run.run_id[:8]} report another {name} at equal ranks"
            )
    return first, second


def transform_of(run: PolicyRun) -> TransformConfig:
    """What a run did to the scores of its verifier."""
    return TransformConfig(**configuration(run.run)["reward"]["transform"])


def _panels(axes: Any, found: Found) -> list[dict[str, Any]]:
    best, roc, reliable, *distributions, policy = axes
    distributions[1].sharey(distributions[0])
    rows: list[dict[str, Any]] = []
    for condition, scores, distribution in zip(found.both, found.scores, distributions, strict=True):
        report, worth = condition.runs[found.seed].policy.verifier_report, condition.moved
        ece = f"ECE {worth['pool_ece_width_10']:.2f}"
        words = f"{condition.words}:\n{ece}, pass@1 after RL {worth['pass_at_1']:.3f}"
        shown = Shown("condition", condition.name, words, f"{condition.words}, {ece}", report, scores, condition.look)
        rows += panels.offline(best, roc, reliable, distribution, shown)
        rows += _ends(policy, condition, shown)
    report = found.both[0].runs[found.seed].policy.verifier_report
    most, value = panels.best_of_most(report)
    panels.frame(best, roc, reliable, f"k = {most}:\n{value:.3f} in both")
    best.margins(x=0.1)  # wide marks stand at its ends
    auc = f"AUC within\ntask: {report['auc_within_task']:.3f}\nin both"
    roc.text(0.97, 0.05, auc, transform=roc.transAxes, ha="right", va="bottom", fontsize=7)
    places = zip(((0.97, "top"), (0.03, "bottom")), sorted(found.both, key=_after, reverse=True), strict=True)
    for (height, side), condition in places:
        words = f"{condition.words}:\n{_shown_ends(condition, short=True)}"
        policy.text(0.04, height, words, transform=policy.transAxes, va=side, fontsize=7)
    policy.set_xticks([0, 1], labels=["before RL", "after RL"])
    policy.set(ylabel="pass@1, held-out", xlim=(-0.2, 1.2))
    policy.margins(y=0.5)  # room for the words
    apart = f"{100 * abs(found.difference.difference):.1f} points apart"
    titles = {best: "best of k: equal", roc: "ROC curve: equal", reliable: "calibration: not equal", policy: apart}
    for axis, title in titles.items():
        axis.set_title(title, fontsize=8)
    return [*rows, *_written(found)]


def _written(found: Found) -> list[dict[str, Any]]:
    """Rows of what stands in words in the figure: AUC within task of the training that is shown; mean ECE; how many policies are shown
    to end above and below their starts; and the difference in pass@1 with its 90 % interval."""
    rows: list[dict[str, Any]] = []
    for condition in found.both:
        auc = condition.runs[found.seed].policy.verifier_report["auc_within_task"]
        row = condition.moved
        values = {
            "auc_within_task": (str(found.seed), auc),
            "ece_width_10": ("mean", row["pool_ece_width_10"]),
            "above": ("", row["above"]),
            "below": ("", row["below"]),
        }
        rows += [
            {"panel": name, "condition": condition.name, "seed": seed, "y": y} for name, (seed, y) in values.items()
        ]
    ends = found.difference
    difference = {"y": ends.difference, "low": ends.low, "high": ends.high}
    return [*rows, {"panel": "difference", "condition": found.both[1].name, "seed": "mean", **difference}]


def _after(condition: Condition) -> float:
    return float(condition.moved["pass_at_1"])


def _ends(axis: Any, condition: Condition, shown: Shown) -> list[dict[str, Any]]:
    """Draws pass@1 before and after RL, a thin line each RL seed and a thick one for their mean; both are in the rows."""
    rows: list[dict[str, Any]] = []
    ends = {str(seed): (run.before, run.outcome) for seed, run in sorted(condition.runs.items())}
    for seed, both in ends.items():
        drawn = panels.line(axis, "pass_at_1", shown, (0, 1), both, marked=False, linewidth=0.6, alpha=0.6)
        rows += [{**row, "seed": seed} for row in drawn]
    mean = [float(np.mean(side)) for side in zip(*ends.values(), strict=True)]
    drawn = panels.line(axis, "pass_at_1", shown, (0, 1), mean, linewidth=1.8, markersize=5)
    return [*rows, *({**row, "seed": "mean"} for row in drawn)]


def _shown_ends(condition: Condition, short: bool = False) -> str:
    """How many policies are shown to end above and below their starts."""
    row = condition.moved
    told = [f"{row[way]} of {row['runs']} {way}" for way in ("above", "below") if row[way]]
    if not told:
        return f"none of {row['runs']} shown to move" if short else f"none of {row['runs']} is shown to end elsewhere"
    return f"{', '.join(told)} start" if short else f"{' and '.join(told)} their starts"


def caption(found: Found) -> Caption:
    """What a reader of the figure alone has to know."""
    one, other = found.both
    seeds = sorted({*one.runs, *other.runs})
    runs = [run for condition in found.both for run in condition.runs.values()]
    starts = len({run.start for run in runs})
    difference = found.difference
    points = [100 * value for value in (difference.difference, difference.low, difference.high)]
    eces = [f"{condition.moved['pool_ece_width_10']:.2f}" for condition in found.both]
    ends = [f"{c.words} {c.moved['pass_at_1']:.3f}, {_shown_ends(c)}" for c in found.both]
    return Caption(
        "One verifier paid in two ways of equal ranks: best of k and the ROC curve within tasks are the same, calibration and what RL "
        "makes of policies are not.",
        f"The scores are {one.words} (ECE {eces[0]}) or {other.words} (ECE {eces[1]}; on the frozen pool of attempts, means over runs). "
        "All ranks of one policy's attempts at one task are equal, as was checked for "
        f"{counted(found.trainings, 'training')} of the verifier. pass@1 after RL, of sampled attempts at held-out tasks: "
        f"{'; '.join(ends)} (95 % intervals, paired by task). The difference is {estimate(points[0], points[1:], 1, signed=True)} points "
        "(90 %, over RL seeds and tasks, paired). This comparison is one of the plan's four with the recalibrated scores, all named before "
        "the first run. Thick: means; thin: RL seeds. RM@k, ROC (all pairs of one policy at one task alike), reliability (ten bins, 95 % "
        "intervals over clusters of functions) "
        f"and densities of the scores as they are paid are of the training that pays RL seed {found.seed}.",
        f"n = {counted(difference.seeds, 'RL seed')} ({', '.join(map(str, seeds))}) of each; one verifier "
        f"({counted(found.trainings, 'training')}) and one start ({counted(starts, 'set', 'sets')} of weights): no sample of verifiers. "
        f"Offline: {counted(len(found.scores[0]), 'attempt')} at {counted(len(np.unique(found.scores[0].task_id)), 'task')}.",
    )
