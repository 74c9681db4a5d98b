"""Tables that the tests of metrics share."""

from collections.abc import Callable

import numpy as np
import pytest

from rmlab.scores.scores import Scores


def random_scores(
    seed: int,
    tasks: int = 12,
    attempts: int = 6,
    policies: int = 1,
    cluster_size: int = 1,
    ties: bool = True,
    missing: float = 0.1,
) -> Scores:
    """Tasks of differing difficulty and size, some scores tied, some missing, clusters of `cluster_size` tasks."""
    rng = np.random.default_rng(seed)
    task, policy = [], []
    for t in range(tasks):
        for p in range(policies):
            size = int(rng.integers(1, attempts + 1))
            task += [t] * size
            policy += [f"policy-{p}"] * size
    task = np.array(task)
    difficulty = rng.normal(0, 1.5, tasks)[task]
    resolved = rng.random(len(task)) < 1 / (1 + np.exp(-difficulty))
    score = 1 / (1 + np.exp(-(difficulty / 2 + resolved + rng.normal(0, 1, len(task)))))
    if ties:
        score = np.round(score, 1)
    score[rng.random(len(task)) < missing] = np.nan
    return Scores.of(
        [f"task-{t:03d}" for t in task],
        score,
        resolved,
        policy=policy if policies > 1 else None,
        cluster=[f"cluster-{t // cluster_size:03d}" for t in task],
        trajectory_id=[f"trajectory-{i:04d}" for i in range(len(task))],
    )


@pytest.fixture(scope="session")
def make_scores() -> Callable[..., Scores]:
    return random_scores
