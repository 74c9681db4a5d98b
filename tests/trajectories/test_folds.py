"""Folds over whole repositories: everything is judged once, by a verifier that never saw its repository."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmlab.errors import DataError, UsageError
from rmlab.trajectories.folds import FoldsConfig, folds_of
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
)


def attempts(sizes: list[int], policies: tuple[str, ...] = ("p", "q")) -> list[Trajectory]:
    """So many tasks in each repository, one attempt of each policy at each."""
    return [
        replace(ONE, task_id=f"r{r}-{i}", cluster=f"r{r}", policy=policy, messages=(Message("user", f"issue {r} {i}"),))
        for r, size in enumerate(sizes)
        for i in range(size)
        for policy in policies
    ]


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 9), min_size=5, max_size=14), st.integers(3, 4), st.integers(0, 3))
def test_every_attempt_is_judged_once_and_no_repository_is_in_two_parts(
    sizes: list[int], number: int, seed: int
) -> None:
    pool = attempts(sizes, ("p", "q", "new"))
    folds = folds_of(pool, FoldsConfig(number=number, seed=seed, unseen=["new"]))
    assert [fold.number for fold in folds] == list(range(1, number + 1))
    judged = Counter(t.trajectory_id for fold in folds for t in fold.trajectories if t.split == "evaluation")
    assert judged == Counter(t.trajectory_id for t in pool)
    for fold in folds:
        check_parts(fold.trajectories)
        assert fold.clusters("verifier")
        assert fold.clusters("validation")
        assert {t.policy for t in fold.trajectories if t.split in ("verifier", "validation")} == {"p", "q"}
        left_out = [t for t in fold.trajectories if t.split is None]
        assert {t.policy for t in left_out} <= {"new"}
        assert len(fold.trajectories) == len(pool)


def test_folds_are_as_even_as_whole_repositories_allow_counted_in_tasks_that_are_trained_on() -> None:
    unseen = [
        replace(ONE, task_id=f"r4-{i}", cluster="r4", policy="new", messages=(Message("user", f"issue {i}"),))
        for i in range(50)
    ]
    first, second = folds_of(
        [*attempts([6, 4, 3, 2, 1]), *unseen], FoldsConfig(number=2, validation=0.4, unseen=["new"])
    )
    assert (first.clusters("evaluation"), second.clusters("evaluation")) == (
        ["r0", "r3"],
        ["r1", "r2", "r4"],
    )  # 8 tasks each
    assert (first.clusters("verifier"), first.clusters("validation")) == (["r1", "r4"], ["r2"])  # of 8 tasks 5 and 3
    assert (second.clusters("verifier"), second.clusters("validation")) == (["r0"], ["r3"])


def test_repositories_that_only_unseen_policies_tried_take_no_place_of_others() -> None:
    only = [
        replace(ONE, task_id=f"u{r}-{i}", cluster=f"u{r}", policy="new", messages=(Message("user", f"issue u{r} {i}"),))
        for r in range(3)
        for i in range(20)
    ]
    pool = attempts([3, 3, 3, 3])
    folds = folds_of([*pool, *only], FoldsConfig(number=3, unseen=["new"]))
    judged = Counter(t.trajectory_id for fold in folds for t in fold.trajectories if t.split == "evaluation")
    assert judged == Counter(t.trajectory_id for t in [*pool, *only])
    for fold in folds:
        for part in ("evaluation", "verifier", "validation"):
            assert any(cluster.startswith("r") for cluster in fold.clusters(part))
    with pytest.raises(DataError, match="3 groups of repositories cannot make 3 folds"):
        folds_of([*attempts([3, 3, 3]), *only], FoldsConfig(number=3, unseen=["new"]))


def test_repositories_that_share_an_issue_stay_together() -> None:
    words = " ".join(f"word{i}" for i in range(60))
    pool = [
        replace(t, messages=(Message("user", words),)) if t.task_id in ("r0-0", "r1-0") else t
        for t in attempts([3, 3, 3, 3, 3])
    ]
    for fold in folds_of(pool, FoldsConfig(number=2)):
        part = {t.task_id: t.split for t in fold.trajectories}
        assert part["r0-0"] == part["r1-0"] == part["r0-2"] == part["r1-2"]
        assert {t.cluster for t in fold.trajectories if t.task_id.startswith(("r0", "r1"))} == {"r0 + 1 near"}


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        (FoldsConfig(number=1), UsageError, "folds.number=1: must be at least 2"),
        (FoldsConfig(validation=1.0), UsageError, "folds.validation=1.0: must be a share between 0 and 1"),
        (FoldsConfig(unseen=["z"]), UsageError, "folds.unseen names 'z', which the pool does not have; it has p, q"),
        (FoldsConfig(unseen=["p", "q"]), UsageError, "names every policy of the pool"),
        (FoldsConfig(number=5), DataError, "5 groups of repositories cannot make 5 folds with a validation part"),
    ],
)
def test_what_makes_no_folds_is_one_line(config: FoldsConfig, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        folds_of(attempts([2, 2, 2, 2, 2]), config)


def test_one_repository_larger_than_all_others_needs_more_than_two_folds() -> None:
    pool = attempts([1, 1, 1, 1, 4])
    with pytest.raises(
        DataError, match=r"fold 2 leaves a single group of repositories for both training and .*: raise folds\.number"
    ):
        folds_of(pool, FoldsConfig(number=2))
    assert next(fold.clusters("evaluation") for fold in folds_of(pool, FoldsConfig(number=3))) == ["r4"]
