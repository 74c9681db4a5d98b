import numpy as np
import pytest

from rmlab.metrics.discrimination import auc
from rmlab.scores.baselines import table_baselines
from rmlab.scores.scores import Scores


def scores(n=200, **columns):
    rng = np.random.default_rng(0)
    label = rng.random(n) < 0.5
    return Scores.of([f"t{i // 4}" for i in range(n)], rng.random(n), label, **columns), label


def test_oracles_and_chance_and_reasons():
    found = table_baselines(scores()[0])
    assert found["oracle"]["auc_within_task"] == 1.0
    assert found["random"]["auc_pooled"] == 0.5
    assert found["task_difficulty"]["auc_within_task"] == 0.5
    assert found["task_difficulty"]["auc_between_tasks"] > 0.6
    assert found["policy_identity"] == {"reason": "the table has one policy"}
    assert found["length"] == {"reason": "the table has no n_tokens"}
    for name in ("majority", "shape", "last_value"):
        assert "--trajectories" in found[name]["reason"]


def test_length_and_policy_are_fitted_on_other_clusters():
    table, label = scores()
    lengths = np.where(label, 100.0, 1000.0)
    told = Scores.of(table.task_id, table.score, label, n_tokens=lengths, policy=np.where(label, "good", "bad"))
    found = table_baselines(told)
    assert found["length"]["auc_pooled"] == 1.0
    assert found["policy_identity"]["auc_pooled"] == 1.0
    # One cluster: nothing is left to fit on, and nothing is fitted on what it is judged on.
    alone = table_baselines(
        Scores.of(told.task_id, told.score, label, n_tokens=lengths, policy=told.policy, cluster=["c"] * len(label))
    )
    assert "not both labels to fit on" in alone["length"]["reason"]
    # A label that length tells only within this table does not come back as a fit: noise stays at chance.
    noise = table_baselines(Scores.of(table.task_id, table.score, label, n_tokens=np.arange(200.0)))
    assert noise["length"]["auc_within_task"] == pytest.approx(0.5, abs=0.12)


def test_validation_is_what_is_fitted_on():
    table, label = scores(n_tokens=np.arange(200.0))
    other = Scores.of(
        [f"v{i}" for i in range(40)], [0.5] * 40, np.arange(40) % 2, n_tokens=np.where(np.arange(40) % 2, 10.0, 1000.0)
    )
    found = table_baselines(table, other)  # short attempts are the resolved ones there
    assert found["length"]["auc_pooled"] == pytest.approx(auc(-np.arange(200.0), label.astype(float)))
    assert found["length"]["score_rate"] == 1.0
