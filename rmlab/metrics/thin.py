"""Which numbers of a report rest on so little that whoever reads them has to know it? The words that stand beside them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rmlab.scores.scores import Scores
from rmlab.wording import counted, listed

FEW = 10
"""Fewer groups than this are counted beside a value that rests on them."""
FEW_TASKS = 5
"""A policy with fewer tasks is small beside one with twice as many."""
NAMED = 4
"""At most so many policies are named in one sentence."""
WITHIN_TASK = ("auc_within_task", "auc_within_task_patches", "advantage_cosine", "advantage_cosine_all")
"""Metrics that are undefined without a task at which one policy has a resolved and an unresolved attempt."""


def few_mixed(report: Mapping[str, Any]) -> str:
    """`1 mixed task`: what within-task values rest on where that is little; "" where it is enough, or none.

    Of several policies each mixed pair of a task and a policy counts, as in `mixed_tasks`.
    """
    mixed = report.get("mixed_tasks", 0)
    return counted(mixed, "mixed task") if 0 < mixed < FEW else ""


def beside(report: Mapping[str, Any], name: str) -> str:
    """` (1 mixed task)` for a within-task value that rests on few; "" for any other."""
    few = few_mixed(report) if name in WITHIN_TASK and report.get(name) is not None else ""
    return f" ({few})" if few else ""


def shows_across(report: Mapping[str, Any]) -> bool:
    """Whether values across policies belong beside those within one: hardly any task is mixed within a policy, some are across."""
    return report.get("mixed_tasks", 0) < FEW and report.get("auc_within_task_across") is not None


def few_clusters(clusters: int) -> list[str]:
    """A warning where there are few clusters, nothing where there are enough."""
    from rmlab.metrics.uncertainty import FEW_CLUSTERS  # here, since it loads scipy, and plans say nothing of clusters

    if clusters >= FEW_CLUSTERS:
        return []
    if clusters == 1:
        return ["Only 1 cluster: there are no intervals, which are over clusters."]
    return [
        f"Only {counted(clusters, 'cluster')}: intervals from so few are too narrow, and other clusters may give another result."
    ]


def mixed_in_one_cluster(report: Mapping[str, Any]) -> list[str]:
    """Why within-task values have no interval where there are several clusters and mixed tasks, all of these in one of those."""
    mixed, name = report.get("mixed_tasks", 0), WITHIN_TASK[0]
    ends = report.get("ci95", {})
    if mixed < 2 or report["clusters"] < 2 or report.get(name) is None or ends.get(name, ()) is not None:
        return []
    return [f"Within-task values have no interval: all {counted(mixed, 'mixed task')} lie in one cluster."]


def few_at_k(report: Mapping[str, Any]) -> list[str]:
    """`RM@4: 2 of 131 (task, policy) groups have 4 attempts; the others use all they have.` where these are few or under a tenth."""
    at_k = {int(k): groups for k, groups in report.get("tasks_at_k", {}).items()}
    most = max(at_k, default=1)
    if most < 2 or at_k[most] == at_k[1] or (at_k[most] >= FEW and at_k[most] * 10 >= at_k[1]):
        return []
    return [f"RM@{most}: {reached_k(report)}"]


def reached_k(report: Mapping[str, Any]) -> str:
    """How many groups have the most attempts, where not all have."""
    groups = "(task, policy) groups" if report["policies"] > 1 else "tasks"
    most = max(report["tasks_at_k"], key=int)
    reached, of_all = report["tasks_at_k"][most], report["tasks_at_k"]["1"]
    has = "has" if reached == 1 else "have"
    return f"{reached:,} of {of_all:,} {groups} {has} {most} attempts; the others use all they have."


def small_policies(scores: Scores) -> list[str]:
    """A warning where a policy with few tasks counts as much as one with many in pass@1 and RM@k; nothing elsewhere.

    Small: under a tenth of the median policy's tasks, or fewer than 5 and at most half of the largest policy's.
    """
    labelled = scores.select(~np.isnan(scores.resolved))
    tasks: dict[str, int] = {}
    rate: dict[str, float] = {}
    for policy in np.unique(labelled.policy).tolist():
        own = labelled.select(labelled.policy == policy)
        _, task_N = np.unique(own.task_id, return_inverse=True)
        tasks[policy] = int(task_N.max()) + 1
        rate[policy] = float((np.bincount(task_N, own.resolved) / np.bincount(task_N)).mean())
    counts = list(tasks.values())
    small = [
        policy
        for policy, count in tasks.items()
        if count * 10 < np.median(counts) or (count < FEW_TASKS and count * 2 <= max(counts))
    ]
    if not small:
        return []
    shown = small if len(small) <= NAMED else small[: NAMED - 1]
    named = [f"{policy} has {counted(tasks[policy], 'task')} (resolved {rate[policy]:.2f})" for policy in shown]
    if more := len(small) - len(shown):
        named.append(f"{more} more have few")
    without = np.mean([rate[policy] for policy in tasks if policy not in small])
    return [
        f"Policies count equally: {listed(named)}; without {'it' if len(small) == 1 else 'them'} pass@1 is {without:.3f}. Of all attempts, "
        f"{labelled.resolved.mean():.1%} are resolved."
    ]


def cautions(report: Mapping[str, Any], scores: Scores) -> list[str]:
    """What has to be known before the headline of a report is believed, a sentence each. scores: the table that it is of."""
    return [
        *few_clusters(report["clusters"]),
        *mixed_in_one_cluster(report),
        *small_policies(scores),
        *few_at_k(report),
    ]
