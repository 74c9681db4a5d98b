"""The five parts never mix."""

from dataclasses import replace

import pytest

from rmlab.errors import DataError
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.splitting import check_parts

ONE = Trajectory(
    task_id="t",
    cluster="c",
    source="s",
    policy="p",
    attempt=0,
    messages=(Message("user", "x"),),
    patch=None,
    exit_status="submitted",
    resolved=True,
    split="verifier",
)


def test_one_cluster_in_two_parts_is_named() -> None:
    check_parts(
        [
            ONE,
            replace(ONE, attempt=1),
            replace(ONE, task_id="u", cluster="d", split="evaluation"),
            replace(ONE, split=None),
        ]
    )
    with pytest.raises(
        DataError, match=r"cluster c lies in the parts evaluation and verifier \(1 clusters are mixed\)"
    ):
        check_parts([ONE, replace(ONE, split="evaluation"), replace(ONE, cluster="d")])


def test_one_task_in_two_parts_is_named_whatever_its_clusters() -> None:
    with pytest.raises(DataError, match=r"task t lies in the parts evaluation and verifier \(1 tasks are mixed\)"):
        check_parts([ONE, replace(ONE, split="evaluation", cluster="d")])


def test_two_issues_that_are_nearly_the_same_are_named_with_their_overlap_where_parts_differ() -> None:
    words = [f"word{i}" for i in range(100)]
    issue, near = (
        " ".join(words),
        " ".join([*words[:99], "else"]),
    )  # 96 runs of five words each, 95 of them shared: 95/97
    one = replace(ONE, messages=(Message("system", "s"), Message("user", issue)))
    other = replace(one, task_id="u", cluster="d", messages=(Message("user", near),))
    far = replace(
        one, task_id="v", cluster="e", split="evaluation", messages=(Message("user", " ".join(reversed(words))),)
    )
    check_parts([one, other, far])
    with pytest.raises(
        DataError,
        match=r"tasks t \(verifier\) and u \(rl\) have nearly the same issue \(overlap 0\.98, .*; 1 such pairs",
    ):
        check_parts([one, replace(other, split="rl"), far])


def test_a_text_that_many_tasks_share_word_for_word_is_named_once_a_part() -> None:
    issue = " ".join(f"word{i}" for i in range(30))
    one = replace(ONE, messages=(Message("user", issue),))
    same = [
        replace(one, task_id=f"t{i:03d}", cluster=f"c{i}", split="verifier" if i % 2 else "evaluation")
        for i in range(3)
    ]
    with pytest.raises(
        DataError, match=r"tasks t000 \(evaluation\) and t001 \(verifier\) .*overlap 1\.00.*1 such pairs"
    ):
        check_parts(same)
