"""The five parts never mix."""

from dataclasses import replace

import pytest

from rmlab.errors import DataError
from rmlab.trajectories.parts import check_parts
from rmlab.trajectories.record import Message, Trajectory

ONE = Trajectory(task_id="t", cluster="c", source="s", policy="p", attempt=0, messages=(Message("user", "x"),), patch=None,
                 exit_status="submitted", resolved=True, split="verifier")


def test_one_cluster_in_two_parts_is_named() -> None:
    check_parts([ONE, replace(ONE, attempt=1), replace(ONE, cluster="d", split="evaluation"), replace(ONE, split=None)])
    with pytest.raises(DataError, match=r"cluster c lies in the parts evaluation and verifier \(1 clusters are mixed\)"):
        check_parts([ONE, replace(ONE, split="evaluation"), replace(ONE, cluster="d")])
