"""The shipped attempts of language models: sizes, parts, and the table on their page."""

import pandas as pd
import pyarrow.parquet as pq
import pytest

from rmlab.paths import REPOSITORY

ATTEMPTS = REPOSITORY / "rmlab" / "starter" / "language_attempts.parquet"
POLICIES = REPOSITORY / "experiments" / "studies" / "language_attempts" / "policies.csv"
OWN_KIND = ("a_plain", "b_plain")


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return pq.read_table(ATTEMPTS, columns=["task_id", "cluster", "policy", "split", "resolved"]).to_pandas()


def test_the_table_of_policies_is_what_the_set_holds(rows: pd.DataFrame) -> None:
    table = pd.read_csv(POLICIES).query("policy != 'all'").set_index(["policy", "part"])
    seen = rows.assign(resolved=rows.resolved.astype(float)).groupby(["policy", "split"])
    assert set(seen.groups) == set(table.index)
    assert seen.size().to_dict() == table.attempts.to_dict()
    assert seen.task_id.nunique().to_dict() == table.tasks.to_dict()
    assert seen.resolved.mean().to_dict() == pytest.approx(table.pass_at_1.to_dict(), abs=1e-6)


def test_verifiers_are_judged_on_enough_tasks_of_each_start(rows: pd.DataFrame) -> None:
    judged = rows[(rows.split == "evaluation") & rows.policy.isin(OWN_KIND)]
    for policy in OWN_KIND:
        own = judged[judged.policy == policy]
        assert (own.groupby("task_id").size() == 16).all()
        assert own.task_id.nunique() >= 500
        assert own.cluster.nunique() >= 150


def test_no_cluster_of_functions_is_in_two_parts(rows: pd.DataFrame) -> None:
    assert (rows.groupby("cluster").split.nunique() == 1).all()


@pytest.mark.slow
def test_the_set_is_whole_and_as_it_was_made() -> None:
    from rmlab.trajectories.store import read_trajectories

    assert read_trajectories(ATTEMPTS).fingerprint == "397650730d440651"
