"""The registry of metrics: the name, meaning and implementation of each.

Report, intervals, comparisons, tables, MLflow names and the list in analysis/metrics.md (`python -m rmlab.metrics.registry`
prints it) follow from METRICS. To add a metric, write a Statistic (like those in weighted.py) and register it here: its value is
that with all weights 1. If definitions.py gives its exact value, the Statistic gives only the intervals; the tests compare the two.
The metrics of calibration, of which there are many, stand in registry_calibration.py.
"""

from rmlab.metrics.by_patch import BestOfPatches, WeightedMajority, WithinTasksOfPatches
from rmlab.metrics.definitions import Report
from rmlab.metrics.metric import Metric
from rmlab.metrics.registry_calibration import CALIBRATION_METRICS
from rmlab.metrics.weighted import AdvantageMeasures, BestOfK, BestOfKAcross, RowMeans, Statistic, WithinTasks
from rmlab.metrics.weighted_sorted import ConfidenceOrder, SortedRows

DISCRIMINATION, ABSTAINING, GRADIENT = "Discrimination", "Abstaining", "What the gradient sees"

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
    *CALIBRATION_METRICS,
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
