"""How many tasks, attempts and trainings would show the differences that the paper reports? spread.csv, attempts.csv, needed.csv.

    python experiments/studies/real_trajectories_needed/needed.py

Measured, from `runs.zip` beside this file: the variance of a difference between two levels, paired by seed, has three parts:
trainings differ (`training`), tasks differ (`tasks`), and trainings do well on other tasks (`interaction`). The last two are
bootstrap variances over repositories; they shrink as tasks are added, in as many more repositories. A second estimate of the
first part is of experiments/studies/label_ratio, whose verifiers have learned something.

Assumed, for more than the two attempts a task that are there: resolved rates of tasks follow a beta distribution with the
measured mean and correlation of two attempts; scores are normal and tell resolved from unresolved as well as the paper's
verifier does; two trainings' scores of one attempt correlate as measured. Only the ratio of variances is taken from this model.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from analysis.presentation.style import write_csv
from analysis.sweep.tracked import SweepRuns, group_runs, source_runs
from analysis.verifiers.discrimination_calibration import PAPER
from rmlab.metrics.calibration import logit
from rmlab.metrics.sweep_levels import FAMILY, LEAST_SEEDS, detectable_difference
from rmlab.metrics.table import table
from rmlab.metrics.uncertainty import bootstrap
from rmlab.metrics.weighted import BestOfK, Combined, WidthBins, WithinTasks
from rmlab.paths import REPOSITORY
from rmlab.scores.scores import Scores

HERE = Path(__file__).parent
TRAINED = REPOSITORY / "experiments" / "studies" / "label_ratio" / "runs.zip"
ATTEMPTS, TRAININGS = (2, 8, 32), (3, 5, 10, 30)
REPORTED = {"rm_at_32": "rm_at_k", "flash_rm_at_32": "rm_at_k", "auc": "auc_within_task", "ece": "ece_width_10"}
OTHERS = 4  # levels beside the baseline of a sweep: they share its estimate of how much trainings differ
SIMULATED, MOST_TASKS, MOST_TRAININGS = 20_000, 10_000_000, 10_000
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Variances:
    """Of a difference at one metric, by what varies; `tasks` and `interaction` as they are at the tasks that were judged.

    training: of one training's difference, if tasks were without end. interaction: of one training's, from which tasks are there.
    tasks: of the mean of trainings without end. apart: `interaction` + `tasks` with each task a cluster of its own.
    """

    training: float
    interaction: float
    tasks: float
    apart: float


def values(scores: Scores) -> tuple[dict[str, float], dict[str, Floats]]:
    """Estimates of the family of metrics (RM@k at the most attempts), and 2,000 resamples of clusters."""
    rows = table(scores)
    statistic = Combined(rows, (BestOfK, WithinTasks, WidthBins))
    found = statistic.values(np.ones((1, rows.clusters))), bootstrap(statistic, rows.clusters, 2000, seed=0)
    point, drawn = ({name: of[name][:, -1] if of[name].ndim == 2 else of[name] for name in FAMILY} for of in found)
    return {name: float(value[0]) for name, value in point.items()}, drawn


def variances(sweep: SweepRuns) -> dict[str, Variances]:
    """By metric, means over the levels beside the baseline that have all of its seeds."""
    tables = {(c.level, c.seed): c.compared for c in sweep.cells}
    of = {key: values(scores) for key, scores in tables.items()}
    apart = {key: values(replace(scores, cluster=scores.task_id))[1] for key, scores in tables.items()}
    levels = [n for n in sweep.levels if n != sweep.baseline and len(sweep.at(n, "")) == len(sweep.seeds)]
    parts: dict[str, list[tuple[float, ...]]] = {metric: [] for metric in FAMILY}
    for metric in FAMILY:
        for level in levels:
            pairs = [((level, seed), (sweep.baseline, seed)) for seed in sweep.seeds]
            seed_S = np.array([of[a][0][metric] - of[b][0][metric] for a, b in pairs])
            interaction, tasks = _of_tasks(np.stack([of[a][1][metric] - of[b][1][metric] for a, b in pairs]))
            whole = sum(_of_tasks(np.stack([apart[a][metric] - apart[b][metric] for a, b in pairs])))
            parts[metric].append((float(seed_S.var(ddof=1)), interaction, tasks, whole))
    found = {}
    for metric, rows in parts.items():
        seeds, interaction, tasks, whole = np.mean(rows, axis=0)
        found[metric] = Variances(max(seeds - interaction, 0.0), interaction, max(tasks, 0.0), whole)
    return found


def _of_tasks(drawn_SR: Floats) -> tuple[float, float]:
    """Variances that tasks bring: to one training's difference alone, and to the mean of trainings without end (may be negative)."""
    drawn_SR = drawn_SR[:, ~np.isnan(drawn_SR).any(axis=0)]
    mean_R = drawn_SR.mean(axis=0)
    seeds = len(drawn_SR)
    own = float((drawn_SR - mean_R).var(axis=1, ddof=1).sum() / (seeds - 1))
    return own, float(mean_R.var(ddof=1)) - own / seeds


@dataclass(frozen=True)
class Outcomes:
    """What is measured of tasks with two attempts. resolved: share of attempts. alike: correlation of two attempts' labels.
    scores: correlation of two verifiers' differences in score (logit) between two attempts at a task."""

    resolved: float
    alike: float
    scores: float


def outcomes(sweep: SweepRuns) -> Outcomes:
    """Of the tasks with two labelled attempts; the correlation of scores is a mean over levels (beside the baseline) and seeds."""
    some = _pairs(sweep.cells[0].compared)[0]
    mean = float(some.mean())
    found = []
    for seed in sweep.seeds:
        gap = {c.level: np.diff(_pairs(c.compared)[1])[:, 0] for c in sweep.cells if c.seed == seed}
        for level in set(gap) - {sweep.baseline}:
            both = ~np.isnan(gap[level] + gap[sweep.baseline])
            found.append(np.corrcoef(gap[level][both], gap[sweep.baseline][both])[0, 1])
    return Outcomes(mean, float((some.prod(axis=1).mean() - mean**2) / (mean * (1 - mean))), float(np.mean(found)))


def _pairs(scores: Scores) -> tuple[Floats, Floats]:
    """Labels and logits of score of tasks with two labelled attempts, each (T, 2), in the order of task and trajectory."""
    order = np.lexsort((scores.trajectory_id, scores.task_id))
    order = order[~np.isnan(scores.resolved[order])]
    _, first, count = np.unique(scores.task_id[order], return_index=True, return_counts=True)
    rows_T2 = order[first[count == 2][:, None] + np.arange(2)]
    return scores.resolved[rows_T2], logit(scores.score[rows_T2])


def largest_set(sweep: SweepRuns) -> int:
    """The largest training set at 1:3, half of either policy, that every fold can fill with what fits the context."""
    [cell, *_] = sweep.at(sweep.baseline, "")
    resolved = []
    for fold in json.loads(cell.run.artifact("folds.json").read_text(encoding="utf-8")):
        chosen = json.loads(cell.run.artifact(f"folds/{fold['fold']}/selection.json").read_text(encoding="utf-8"))
        resolved += [row["had"] - row["dropped"] for row in chosen["strata"] if row["label"] == "resolved"]
    largest: int = 2 * min(resolved) * 4
    return largest


def by_attempts(measured: Outcomes, auc: float) -> dict[int, dict[str, float]]:
    """Variance of a difference in RM@k (k = the attempts), AUC within task and ECE that a task adds, by attempts a task; the model of
    the module's docstring, for two verifiers of one `auc`. Of AUC and ECE only the ratios mean something."""
    rng = np.random.default_rng(0)
    sizes = (1 - measured.alike) / measured.alike
    rate_T = rng.beta(measured.resolved * sizes, (1 - measured.resolved) * sizes, SIMULATED)
    most = max(ATTEMPTS)
    label_TK = (rng.random((SIMULATED, most)) < rate_T[:, None]).astype(float)
    shared_TK = rng.normal(size=(SIMULATED, most)) * measured.scores**0.5
    own_LTK = rng.normal(size=(2, SIMULATED, most)) * (1 - measured.scores) ** 0.5
    score_LTK = 2**0.5 * norm.ppf(auc) * label_TK + shared_TK + own_LTK
    found = {}
    for k in ATTEMPTS:
        label, score = label_TK[:, :k], score_LTK[:, :, :k]
        best_LT = np.stack([np.take_along_axis(label, one.argmax(axis=1)[:, None], 1)[:, 0] for one in score])
        won_LT = np.stack([_won(one, label) for one in score])
        pairs_T = label.sum(axis=1) * (1 - label).sum(axis=1)
        found[k] = {
            "rm_at_k": float((best_LT[0] - best_LT[1]).var()),
            "auc_within_task": float(((won_LT[0] - won_LT[1]) ** 2).mean() / pairs_T.mean() ** 2),
            "ece_width_10": (1 + (k - 1) * measured.alike) / k,
            "mixed": float((pairs_T > 0).mean()),
        }
    return found


def _won(score_TK: Floats, label_TK: Floats) -> Floats:
    """Pairs that the resolved attempt wins, of each task (Mann and Whitney's U)."""
    rank_TK = score_TK.argsort(axis=1).argsort(axis=1) + 1.0
    resolved_T = label_TK.sum(axis=1)
    won: Floats = (rank_TK * label_TK).sum(axis=1) - resolved_T * (resolved_T + 1) / 2
    return won


def paper() -> dict[str, Any]:
    """All that the paper reports, by public notes."""
    said: dict[str, Any] = yaml.safe_load(PAPER.read_text(encoding="utf-8"))
    return said


def reported() -> list[dict[str, Any]]:
    """The paper's differences: what was varied, the metric, both values. 1 in `disputed`: the notes on the paper disagree."""
    said = paper()
    small, large = said["data_scale"]["points"]
    two, one = said["label_ratio"]
    length = {row["tokens"]: row for row in said["context_length"]}
    *others, best = said["tts_table"]
    good, poor = said["two_verifiers"]
    pairs = [
        (f"amount {small['samples']} to {large['samples']}", small, large),
        (f"ratio {one['ratio']} to {two['ratio']}", one, two),
        *((f"context {tokens} to 262144", length[tokens], length[262144]) for tokens in (16384, 32768)),
        *((f"{other['verifier']} to {best['verifier']}", other, best) for other in others),
        (f"verifier {poor['name']} to {good['name']}", poor, good),
    ]
    return [
        {"varied": varied, "metric": metric, "from": a[key], "to": b[key], "disputed": int(a.get("disputed", False))}
        for varied, a, b in pairs
        for key, metric in REPORTED.items()
        if a.get(key) is not None and b.get(key) is not None
    ]


@dataclass(frozen=True)
class Ground:
    """What was judged: tasks in repositories. more: variance that a task adds with more attempts, as a share of that with two."""

    tasks: int
    repositories: int
    more: dict[int, dict[str, float]]

    def detectable(self, parts: Variances, metric: str, tasks: float, attempts: int, trainings: int) -> float:
        """The difference that a sweep of so many tasks, attempts and trainings shows with a power of 80 %, alone."""
        share = self.tasks / tasks * self.more[attempts][metric]
        by_trainings = (parts.training + parts.interaction * share) / trainings
        by_tasks = parts.tasks * share
        total = by_trainings + by_tasks
        clusters = max(self.repositories * tasks / self.tasks, 2)
        degrees = total**2 / (by_trainings**2 / shared_degrees(trainings) + by_tasks**2 / (clusters - 1))
        return detectable_difference(total**0.5, degrees)

    def needed(self, parts: Variances, metric: str, difference: float, attempts: int, trainings: int) -> float | None:
        """The tasks from which a difference is shown with a power of 80 %, at least those of the ground: what fewer repositories would
        show is not measured. None where trainings alone differ too much."""

        def lacks(log_tasks: float) -> float:
            return self.detectable(parts, metric, float(np.exp(log_tasks)), attempts, trainings) - abs(difference)

        low, high = np.log(float(self.tasks)), np.log(float(MOST_TASKS))
        if lacks(high) > 0:
            return None
        return float(np.exp(brentq(lacks, low, high))) if lacks(low) > 0 else float(self.tasks)


def least_trainings(parts: Variances, difference: float) -> int:
    """The trainings a level below which no number of tasks shows a difference with a power of 80 %."""

    def enough(n: int) -> bool:
        sd = max(parts.training / n, 1e-12) ** 0.5
        return detectable_difference(sd, shared_degrees(n)) <= abs(difference)

    return next((n for n in range(LEAST_SEEDS, MOST_TRAININGS) if enough(n)), MOST_TRAININGS)


def shared_degrees(trainings: int) -> float:
    """Degrees of freedom of the variance of trainings in a sweep, as `rmlab.metrics.sweep_levels.seed_variance` has them."""
    return OTHERS * (trainings - 1) / (1 + (OTHERS - 1) / 4)


def needed_rows(here: dict[str, Variances], trained: dict[str, Variances], ground: Ground) -> Iterator[dict[str, Any]]:
    """One row a difference, number of attempts and number of trainings: where trainings differ as here, and as those of label_ratio."""
    for row in reported():
        metric, difference = row["metric"], row["to"] - row["from"]
        of = {"here": here[metric], "trained": replace(here[metric], training=trained[metric].training)}
        least = {f"least_trainings_{name}": least_trainings(parts, difference) for name, parts in of.items()}
        for attempts, trainings in product(ATTEMPTS, TRAININGS):
            tasks = {n: ground.needed(parts, metric, difference, attempts, trainings) for n, parts in of.items()}
            found = {f"tasks_{name}": n and round(n) for name, n in tasks.items()}
            yield row | {"difference": difference, "attempts": attempts, "trainings": trainings} | least | found


def main(out: Path = HERE) -> None:
    """Writes spread.csv (variances, as standard deviations), attempts.csv (what more attempts change) and needed.csv."""
    with source_runs(str(HERE / "runs.zip"), ("verifier",)) as (_, found):
        [sweep] = group_runs(found)
        here, measured, largest = variances(sweep), outcomes(sweep), largest_set(sweep)
        rows = table(sweep.cells[0].compared)
        tasks, repositories = rows.tasks, rows.clusters
    with source_runs(str(TRAINED), ("verifier",)) as (_, found):
        [sweep] = group_runs(found)
        trained = variances(sweep)
    model = by_attempts(measured, paper()["tts_table"][-1]["auc"])
    ground = Ground(tasks, repositories, {k: {m: of[m] / model[2][m] for m in FAMILY} for k, of in model.items()})
    spread = [
        {
            "metric": metric,
            "trainings": name,
            "training_sd": parts.training**0.5,
            "interaction_sd": parts.interaction**0.5,
            "tasks_sd": parts.tasks**0.5,
            "design_effect": (parts.interaction + parts.tasks) / parts.apart,
            "modelled_sd": (model[2][metric] / tasks) ** 0.5 if (name, metric) == (HERE.name, "rm_at_k") else None,
            "measured_sd": parts.apart**0.5,
        }
        for name, of in ((HERE.name, here), (TRAINED.parent.name, trained))
        for metric, parts in of.items()
    ]
    write_csv(out / "spread.csv", spread, digits=6)
    said = {"tasks": tasks, "repositories": repositories, "largest_set": largest, **vars(measured)}
    write_csv(
        out / "attempts.csv",
        [{**said, "attempts": k, "mixed": of["mixed"], **ground.more[k]} for k, of in model.items()],
        digits=6,
    )
    write_csv(out / "needed.csv", list(needed_rows(here, trained, ground)), digits=6)


if __name__ == "__main__":
    main()
