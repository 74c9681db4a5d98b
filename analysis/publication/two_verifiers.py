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
from analysis.publication import verifier_panels as panels
from analysis.publication.verifier_panels import Shown
from analysis.registry import Needs, figure
from analysis.rl.outcomes import parameter
from analysis.rl.policies import PolicyRun
from rmlab.rl.held_out import compare_policies
from rmlab.scores.scores import Scores
from rmlab.wording import counted, estimate

NAME = "two_verifiers"
ALIKE = 0.02
VOLUNTARY = "voluntary"


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
    tables = [panels.table_of(run) for run in pair]
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
    return bool(run.verifier_report.get("rm_at_k") and run.outcome["held_out"]) and panels.has_table(run)


def _place(run: PolicyRun) -> tuple[str, ...]:
    tags = run.run.tags
    return tags.get("start_fingerprint", ""), tags.get("fixed", ""), run.evidence, str(run.seed)


def gained(run: PolicyRun) -> float:
    """pass@1 after RL, sampled, on the held-out tasks."""
    return float(run.outcome["held_out"]["all"]["sampled"]["after"])


def _best(run: PolicyRun) -> float:
    return panels.best_of_most(run.verifier_report)[1]


def _panels(axes: Any, pair: Sequence[PolicyRun], tables: Sequence[Scores]) -> list[dict[str, Any]]:
    best, roc, reliable, *distributions, policy = axes
    distributions[1].sharey(distributions[0])
    rows: list[dict[str, Any]] = []
    for run, scores, look, distribution in zip(pair, tables, panels.LOOKS, distributions, strict=True):
        report = run.verifier_report
        metrics = f"AUC within task {report['auc_within_task']:.2f}, ECE {report['ece_width_10']:.2f}"
        words = f"{run.verifier}:\n{metrics}, pass@1 after RL {gained(run):.3f}"  # one line is wider than a column
        shown = Shown("verifier", run.verifier, words, run.verifier, report, scores, look)
        rows += panels.offline(best, roc, reliable, distribution, shown)
        looks = run.outcome["curve"]
        steps, rates = ([row[name] for row in looks] for name in ("step", "pass_at_1"))
        rows += panels.line(policy, "pass_at_1", shown, steps, rates)
        known = [row for row in looks if "pass_at_1_low" in row]
        ends = [[row[name] for row in known] for name in ("step", "pass_at_1_low", "pass_at_1_high")]
        policy.fill_between(*ends, color=look.colour, alpha=0.15, lw=0)
    most, _ = panels.best_of_most(pair[-1].verifier_report)
    panels.frame(best, roc, reliable, f"k = {most}:\n{' and '.join(f'{_best(run):.3f}' for run in pair)}")
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
