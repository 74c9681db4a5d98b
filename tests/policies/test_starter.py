"""The shipped trajectories are what issue and README say of them."""

from collections import Counter

import pytest

from rmlab.baselines.rules import score_baselines
from rmlab.metrics.report import report
from rmlab.microswe.task import read_tasks
from rmlab.paths import STARTER
from rmlab.scores.scores import Scores
from rmlab.trajectories.store import TrajectorySet, read_trajectories


@pytest.fixture(scope="module")
def pool():
    return read_trajectories(STARTER / "trajectories.parquet")


@pytest.fixture(scope="module")
def scores(pool):
    return score_baselines(pool.part("evaluation"), pool.part("validation"))


def within(scores: Scores) -> float:
    return float(report(scores, replicates=0)["auc_within_task"])


def test_size_and_contents(pool):
    assert (STARTER / "trajectories.parquet").stat().st_size <= 6e6
    labelled = [t for t in pool.trajectories if t.resolved is not None]
    assert len(labelled) >= 20_000
    assert len({t.source for t in labelled}) >= 3
    assert {"command", "seed", "tasks_fingerprint"} <= set(pool.metadata)
    assert not pool.part("rl").trajectories


@pytest.mark.parametrize(("part", "tasks"), [("evaluation", 150), ("validation", 50)])
def test_judged_parts_have_16_attempts_of_each_of_two_policies(pool, part, tasks):
    groups = Counter((t.policy, t.task_id) for t in pool.part(part).trajectories)
    assert set(groups.values()) == {16}
    by_policy = Counter(policy for policy, _ in groups)
    assert len(by_policy) == 2
    assert min(by_policy.values()) >= tasks


def test_the_verifier_part_fills_8000_at_one_to_one(pool):
    labels = Counter(t.resolved for t in pool.part("verifier").trajectories)
    assert min(labels.values()) >= 4000
    assert min(labels.values()) / sum(labels.values()) >= 0.45
    for policy in {t.policy for t in pool.part("verifier").trajectories}:
        of_policy = Counter(t.resolved for t in pool.part("verifier").trajectories if t.policy == policy)
        assert 0.2 < of_policy[True] / sum(of_policy.values()) < 0.6


def test_parts_share_no_cluster_and_come_from_the_shipped_tasks(pool):
    tasks = {t.task_id: t for t in read_tasks(STARTER / "tasks.parquet")[0]}
    parts: dict[str, set[str]] = {}
    for t in pool.trajectories:
        assert (tasks[t.task_id].part, tasks[t.task_id].cluster) == (t.split, t.cluster)
        parts.setdefault(t.cluster, set()).add(str(t.split))
    assert all(len(found) == 1 for found in parts.values())


def test_one_program_has_one_label(pool):
    labels: dict[tuple[str, str | None], set[bool | None]] = {}
    for t in pool.trajectories:
        labels.setdefault((t.task_id, t.patch), set()).add(t.resolved)
    assert all(len(found) == 1 for found in labels.values())


def test_the_plain_heuristic_leaves_something_to_learn(scores):
    assert 0.70 <= within(scores["last_value"]) <= 0.90


@pytest.mark.slow
def test_neither_shape_nor_length_gives_the_label_away(pool, scores):
    assert within(scores["shape"]) <= 0.75
    assert abs(within(scores["length"]) - 0.5) <= 0.25
    for policy in sorted({t.policy for t in pool.part("evaluation").trajectories}):
        judged, fitted_on = (
            TrajectorySet(tuple(t for t in pool.part(part).trajectories if t.policy == policy), {})
            for part in ("evaluation", "validation")
        )
        assert within(score_baselines(judged, fitted_on)["shape"]) <= 0.75


def test_best_of_8_is_well_above_one(scores):
    found = report(scores["oracle"], replicates=0)
    assert found["pass_at_k"]["8"] > found["pass_at_k"]["1"] + 0.2
