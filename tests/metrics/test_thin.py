"""What is said of a report whose numbers rest on little."""

from dataclasses import replace

import numpy as np
import pytest

from rmlab.metrics import thin
from rmlab.metrics.report import report
from rmlab.pages.report_tables import how_far
from rmlab.scores.scores import Scores


def of_policies(tasks: dict[str, int], resolved: dict[str, float]) -> Scores:
    """One attempt of each policy at its tasks, the first share of them resolved."""
    rows = [(f"t{i}", p, float(i < resolved[p] * n)) for p, n in tasks.items() for i in range(n)]
    task, policy, label = zip(*rows, strict=True)
    return Scores.of(task, np.linspace(0, 1, len(rows)), label, policy=policy, cluster=task)


def test_a_policy_of_one_task_is_named_with_what_pass_at_1_is_without_it() -> None:
    scores = of_policies({"large": 40, "other": 20, "tiny": 1}, {"large": 0.25, "other": 0.35, "tiny": 1.0})
    assert report(scores, replicates=0)["pass_at_k"]["1"] == pytest.approx(1.6 / 3)
    assert thin.small_policies(scores) == [
        "Policies count equally: tiny has 1 task (resolved 1.00); without it pass@1 is 0.300. Of all attempts, 29.5% are resolved."
    ]


@pytest.mark.parametrize(
    ("tasks", "small"),
    [
        ({"a": 40, "b": 30}, []),
        ({"a": 4, "b": 3, "c": 3}, []),  # all are small
        ({"a": 1, "b": 1, "c": 80}, ["a", "b"]),
        ({"a": 200, "b": 150, "c": 14}, ["c"]),
        ({"a": 80}, []),
    ],
)
def test_policies_are_small_beside_others(tasks: dict[str, int], small: list[str]) -> None:
    said = " ".join(thin.small_policies(of_policies(tasks, dict.fromkeys(tasks, 0.5))))
    assert [policy for policy in tasks if f"{policy} has " in said] == small


def test_many_small_policies_are_counted_and_not_all_named() -> None:
    tasks = {"large": 50} | {f"p{i}": 1 for i in range(6)}
    [said] = thin.small_policies(of_policies(tasks, dict.fromkeys(tasks, 0.5)))
    assert "p2 has 1 task (resolved 1.00) and 3 more have few; without them pass@1 is 0.500." in said


@pytest.mark.parametrize(
    ("at_k", "said"),
    [
        ({"1": 131, "2": 2, "4": 2}, ["RM@4: 2 of 131 tasks have 4 attempts; the others use all they have."]),
        ({"1": 500, "4": 40}, ["RM@4: 40 of 500 tasks have 4 attempts; the others use all they have."]),
        ({"1": 131, "4": 60}, []),
        ({"1": 8, "4": 8}, []),
        ({"1": 131}, []),
    ],
)
def test_groups_with_k_attempts_are_counted_where_they_are_few(at_k: dict[str, int], said: list[str]) -> None:
    assert thin.few_at_k({"tasks_at_k": at_k, "policies": 1}) == said


def test_a_table_that_rests_on_much_needs_no_word(make_scores) -> None:
    scores = make_scores(0, tasks=60)
    assert thin.cautions(report(scores, replicates=0) | {"tasks_at_k": {"1": 60}}, scores) == []


@pytest.mark.parametrize("mixed", [2, 12])
def test_mixed_tasks_that_all_lie_in_one_cluster_are_why_there_is_no_interval(mixed: int) -> None:
    tasks = [f"t{i}" for i in range(mixed + 12) for _ in (0, 1)]
    labels = [float(i < mixed and half) for i in range(mixed + 12) for half in (0, 1)]
    cluster = ["one" if task < mixed else f"c{task}" for task in range(mixed + 12) for _ in (0, 1)]
    scores = Scores.of(tasks, np.linspace(0, 1, len(tasks)), labels, cluster=cluster)
    said = f"Within-task values have no interval: all {mixed} mixed tasks lie in one cluster."
    found = report(scores, replicates=50)
    assert found["ci95"]["auc_within_task"] is None
    assert thin.cautions(found, scores) == [said]
    assert said in how_far(found)
    assert thin.mixed_in_one_cluster(report(scores, replicates=0)) == [], "no interval was asked for"
    apart = report(replace(scores, cluster=scores.task_id), replicates=50)
    assert apart["ci95"]["auc_within_task"] is not None
    assert thin.mixed_in_one_cluster(apart) == []


def test_one_cluster_has_no_interval_that_could_be_too_narrow() -> None:
    assert thin.few_clusters(1) == ["Only 1 cluster: there are no intervals, which are over clusters."]
    assert "Only 2 clusters: intervals from so few are too narrow" in thin.few_clusters(2)[0]
