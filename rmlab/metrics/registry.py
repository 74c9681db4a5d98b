"""The registry of metrics: the name, meaning and implementation of each.

Report, intervals, comparisons, tables, MLflow names and the list in analysis/metrics.md (`python -m rmlab.metrics.registry`
prints it) follow from METRICS. To add a metric, write a Statistic (like those in weighted.py) and register it here: its value is
that with all weights 1. If definitions.py gives its exact value, the Statistic gives only the intervals; the tests compare the two.
"""

from rmlab.metrics.by_patch import BestOfPatches, WeightedMajority, WithinTasksOfPatches
from rmlab.metrics.definitions import Report
from rmlab.metrics.metric import Metric
from rmlab.metrics.uncertainty import Rule
from rmlab.metrics.weighted import (
    AdvantageMeasures,
    BestOfK,
    BestOfKAcross,
    PriorCorrectedBins,
    Recalibrations,
    RowMeans,
    Statistic,
    WidthBins,
    WithinTasks,
)
from rmlab.metrics.weighted_sorted import ConfidenceOrder, SortedRows

DISCRIMINATION, CALIBRATION, ABSTAINING = "Discrimination", "Calibration", "Abstaining"
GRADIENT = "What the gradient sees"

METRICS: tuple[Metric, ...] = (
    Metric("tasks", "tasks with a labelled attempt"),
    Metric("trajectories", "labelled attempts"),
    Metric("unlabelled", "attempts without a label, which are in nothing else"),
    Metric("policies", "policies"),
    Metric("clusters", "clusters, which the bootstrap resamples"),
    Metric("score_rate", "share of labelled attempts that are scored", statistic=RowMeans),
    Metric("resolved_rate", "share of labelled attempts that are resolved", statistic=RowMeans),
    Metric(
        "rm_at_k",
        "resolved rate of the best-scored of k attempts at a task",
        statistic=BestOfK,
        label="RM@k",
        by_k=True,
    ),
    Metric(
        "pass_at_k",
        "probability that at least one of k attempts at a task is resolved",
        statistic=BestOfK,
        label="pass@k",
        by_k=True,
    ),
    Metric("tasks_at_k", "tasks with at least k attempts", label="tasks with k attempts", by_k=True),
    Metric(
        "rm_at_k_across",
        "rm_at_k where the k attempts are drawn from those of all policies",
        statistic=BestOfKAcross,
        label="RM@k across policies",
        by_k=True,
    ),
    Metric(
        "rm_at_k_patches",
        "rm_at_k of k distinct patches of a task",
        statistic=BestOfPatches,
        label="RM@k of patches",
        by_k=True,
    ),
    Metric(
        "rm_at_k_weighted",
        "score-weighted majority: resolved rate of the patch with the largest sum of scores among k attempts",
        statistic=WeightedMajority,
        label="RM@k, weighted majority",
        by_k=True,
    ),
    Metric("rm_at_k_weighted_standard_error", "its error by drawing; 0 where it is exact", by_k=True),
    Metric("patches", "distinct patches of labelled attempts, by task and policy"),
    Metric("mixed_patches", "patches whose attempts have both labels"),
    Metric(
        "auc_within_task",
        "P(a resolved attempt scores above an unresolved one at the same task)",
        section=DISCRIMINATION,
        label="AUC within task",
        statistic=WithinTasks,
    ),
    Metric(
        "auc_within_task_patches",
        "auc_within_task over distinct patches: score the mean of a patch's attempts, patches with both labels left out",
        DISCRIMINATION,
        "the same, by patch",
        statistic=WithinTasksOfPatches,
    ),
    Metric(
        "auc_within_task_across",
        "auc_within_task over pairs of any policies",
        section=DISCRIMINATION,
        label="the same, across policies",
        statistic=WithinTasks,
    ),
    Metric(
        "auc_between_tasks",
        "the same of two attempts at different tasks",
        section=DISCRIMINATION,
        label="AUC between tasks",
        note="high for a score that only knows how hard a task is",
        statistic=SortedRows,
    ),
    Metric(
        "auc_pooled", "the same of any two attempts", section=DISCRIMINATION, label="AUC pooled", statistic=SortedRows
    ),
    Metric(
        "within_pair_share",
        "share of pairs of a resolved and an unresolved attempt that lie within a task",
        statistic=SortedRows,
    ),
    Metric("mixed_tasks", "tasks with a resolved and an unresolved attempt among the scored"),
    Metric("within_pairs", "pairs of a resolved and an unresolved attempt at one task"),
    Metric(
        "ece_width_10",
        "expected calibration error of the positive class, 10 bins of equal width",
        section=CALIBRATION,
        label="ECE, 10 bins",
        statistic=WidthBins,
        rule=Rule.BASIC,
    ),
    Metric(
        "ece_less_floor",
        "ece_width_10 less ece_noise_floor_task: what calibrated scores would not show on such a table",
        section=CALIBRATION,
        label="the same, less its floor",
        note="less the mean of its noise floor with task effect; the interval is of the error that endless attempts would show",
        statistic=WidthBins,
        rule=Rule.LESS_FLOOR,
        less=("ece_width_10", "ece_noise_floor_task"),
    ),
    Metric(
        "ece_noise_floor",
        "mean ece_width_10 of calibrated scores, labels drawn independently",
        section=CALIBRATION,
        label="floor without task effect",
    ),
    Metric("ece_noise_floor_p95", "its 95th percentile"),
    Metric(
        "ece_noise_floor_task",
        "mean ece_width_10 of calibrated scores, labels of a task drawn alike",
        section=CALIBRATION,
        label="noise floor, task effect",
    ),
    Metric("ece_noise_floor_task_p95", "its 95th percentile: above it a score is called miscalibrated"),
    Metric("task_effect_variance", "variance of the effect of the task on the logit"),
    Metric(
        "ece_width_15",
        "the ECE with 15 bins of equal width",
        section=CALIBRATION,
        label="ECE, 15 bins",
        statistic=WidthBins,
        rule=Rule.BASIC,
    ),
    Metric(
        "ece_mass_10",
        "the ECE with 10 bins of equal mass",
        section=CALIBRATION,
        label="ECE, 10 equal-mass bins",
        statistic=SortedRows,
        rule=Rule.BASIC,
    ),
    Metric(
        "ece_debiased",
        "squared calibration error less its bias, 15 bins of equal mass",
        section=CALIBRATION,
        label="ECE², debiased",
        note="squared; may be negative",
        statistic=SortedRows,
        rule=Rule.BASIC_UNCUT,
    ),
    Metric(
        "ece_prior_corrected",
        "the ECE after the score is moved from training's base rate to validation's",
        section=CALIBRATION,
        label="ECE, prior corrected",
        statistic=PriorCorrectedBins,
        rule=Rule.BASIC,
        compared=False,
    ),
    Metric(
        "ece_prior_corrected_less_floor",
        "ece_prior_corrected less the floor of the corrected scores",
        section=CALIBRATION,
        label="corrected, less its floor",
        statistic=PriorCorrectedBins,
        rule=Rule.LESS_FLOOR,
        compared=False,
        less=("ece_prior_corrected", "ece_prior_corrected_noise_floor_task"),
    ),
    Metric("ece_prior_corrected_noise_floor_task", "ece_noise_floor_task of the corrected scores"),
    Metric("ece_prior_corrected_noise_floor_task_p95", "its 95th percentile"),
    Metric(
        "ece_confidence",
        "the ECE of the likelier answer",
        section=CALIBRATION,
        label="ECE of max(s, 1 - s)",
        statistic=WidthBins,
        rule=Rule.BASIC,
    ),
    Metric(
        "mce",
        "largest gap of the 10 bins of equal width",
        section=CALIBRATION,
        label="MCE",
        statistic=WidthBins,
        rule=Rule.BASIC,
    ),
    Metric(
        "brier",
        "mean squared difference of score and label",
        section=CALIBRATION,
        label="Brier score",
        statistic=RowMeans,
    ),
    Metric("brier_miscalibration", "part of the Brier score: what calibration would save"),
    Metric("brier_discrimination", "part of the Brier score: what telling attempts apart saves"),
    Metric("brier_uncertainty", "part of the Brier score: what the resolved rate alone leaves"),
    Metric(
        "log_loss",
        "mean -log of the probability given to the label, in nats",
        section=CALIBRATION,
        label="log loss",
        statistic=RowMeans,
    ),
    Metric(
        "calibration_slope",
        "slope of the logistic recalibration; below 1: overconfident",
        section=CALIBRATION,
        label="slope",
        statistic=Recalibrations,
        compared=False,
    ),
    Metric(
        "calibration_intercept",
        "intercept of the logistic recalibration",
        section=CALIBRATION,
        label="intercept",
        statistic=Recalibrations,
        compared=False,
    ),
    Metric(
        "aurc",
        "mean error rate of the likelier answer over all coverages",
        section=ABSTAINING,
        label="AURC, attempts",
        statistic=ConfidenceOrder,
    ),
    Metric("aurc_excess", "aurc less that of a perfect order"),
    Metric("risk_coverage", "error rate of the most confident share of attempts, by share"),
    Metric(
        "aurc_picks",
        "mean share unresolved of the best-scored attempt of a task over all coverages",
        section=ABSTAINING,
        label="AURC, picks",
        statistic=ConfidenceOrder,
    ),
    Metric("aurc_picks_excess", "aurc_picks less that of a perfect order"),
    Metric("risk_coverage_picks", "share unresolved of the most confident share of picks, by share"),
    Metric(
        "advantage_cosine",
        "mean cosine of centred scores and labels over tasks with both labels",
        section=GRADIENT,
        label="advantage cosine",
        statistic=AdvantageMeasures,
    ),
    Metric(
        "advantage_cosine_all",
        "cosine of centred scores and labels over all tasks at once",
        section=GRADIENT,
        label="the same, all groups",
        statistic=AdvantageMeasures,
    ),
    Metric(
        "advantage_noise_share",
        "share of the centred scores' energy at tasks of one label",
        section=GRADIENT,
        label="noise share",
        note="of the scores' spread, at tasks where all attempts have one label",
        statistic=AdvantageMeasures,
    ),
)


def statistics(*, compared: bool = False) -> list[type[Statistic]]:
    """The statistics of all metrics, each once. compared: only those that a paired comparison can use."""
    return list(dict.fromkeys(m.statistic for m in METRICS if m.statistic and (m.compared or not compared)))


def curves() -> set[str]:
    """The metrics that are curves over k."""
    return {metric.name for metric in METRICS if metric.by_k}


def columns(report: Report) -> list[Metric]:
    """The curves that the table of best of k shows of a report."""
    return [metric for metric in METRICS if metric.by_k and metric.label and report[metric.name] is not None]


def named(name: str) -> Metric:
    return next(metric for metric in METRICS if metric.name == name)


def sections() -> dict[str, list[Metric]]:
    """The metrics that have a row in the tables of a report, by heading."""
    shown: dict[str, list[Metric]] = {}
    for metric in METRICS:
        if metric.section:
            shown.setdefault(metric.section, []).append(metric)
    return shown


def markdown() -> str:
    """The list of all metrics, as analysis/metrics.md holds it."""
    lines = [f"| `{m.name}` | {m.meaning} | {m.rule.value if m.statistic else ''} |" for m in METRICS]
    return "\n".join([HEAD, *lines]) + "\n"


HEAD = """# Metrics

Every number of `rmlab evaluate --json`, of `report.json` and, as `eval/NAME`, of MLflow (`*_at_k*`: a series whose step is k).
The headline stands in MLflow under short names too, to three digits (`auc_task`, `ece`, ...: rmlab/tracking/views.py).
Written by `python -m rmlab.metrics.registry > analysis/metrics.md`.

| name | meaning | 95 % interval |
|---|---|---|"""

if __name__ == "__main__":
    print(markdown(), end="")
