"""Two looks at the same tasks, by hand: what is paired, what is resampled, and what a lost attempt does."""

import numpy as np
import pytest

from rmlab.errors import DataError
from rmlab.metrics.uncertainty import paired_difference, row_difference


def test_paired_difference_by_hand() -> None:
    """Every task falls by 0.5: so does every resample. A task that only one look has is left out."""
    before, after = {"a": 1.0, "b": 0.5, "x": 1.0}, {"a": 0.5, "b": 0.0, "y": 1.0}
    found = paired_difference(before, after, {"a": "1", "b": "2"})
    assert (found.before, found.after, found.tasks) == (0.75, 0.25, 2)
    assert found.difference == found.low == found.high == pytest.approx(-0.5)
    assert found.falls


def test_clusters_are_resampled_not_tasks() -> None:
    """Ten tasks of one cluster fall, one task of another rises: with two clusters nothing is certain."""
    before = dict.fromkeys([f"a{i}" for i in range(10)], 1.0) | {"b": 0.0}
    after = dict.fromkeys([f"a{i}" for i in range(10)], 0.0) | {"b": 1.0}
    clusters = {name: name[0] for name in before}
    found = paired_difference(before, after, clusters)
    assert found.difference == pytest.approx(-9 / 11)
    assert (found.low, found.high) == (-1.0, 1.0)
    assert not found.falls
    with pytest.raises(DataError, match="no task in common"):
        paired_difference({"a": 1.0}, {"b": 1.0}, {})


def test_rows_are_weighed_alike_also_where_one_was_lost() -> None:
    """Cluster a: 0, 0 then 1; cluster b: 0, 0 then 0, 0. The mean goes from 0 to 1/3; a resample holds a twice, both, or b twice."""
    before = (np.zeros(4), np.array(["a", "a", "b", "b"]))
    after = (np.array([1.0, 0.0, 0.0]), np.array(["a", "b", "b"]))
    assert row_difference(before, after) == (pytest.approx(1 / 3), 0.0, 1.0)
    with pytest.raises(DataError, match="a look has no rows"):
        row_difference(before, (np.zeros(0), np.array([], dtype=str)))
