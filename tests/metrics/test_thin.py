"""What is said of a report whose numbers rest on little."""

import numpy as np
import pytest

from rmlab.metrics import thin
from rmlab.metrics.report import report
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
