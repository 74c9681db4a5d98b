"""The five parts: whole clusters, near their shares, one source withheld."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmlab.microswe.build.clusters import SHARES, deal

SIZES = {source: {f"{source}{i}": 1 + (7 * i) % 9 for i in range(120)} for source in ("a", "b", "held")}


def tasks_by_part(parts, sizes):
    found = dict.fromkeys(SHARES, 0)
    for clusters in sizes.values():
        for cluster, n in clusters.items():
            found[parts[cluster]] += n
    return found


def test_shares_are_met_within_each_source_that_is_not_withheld():
    assert sum(SHARES.values()) == pytest.approx(1)
    parts = deal(SIZES, "held", seed=0)
    for source in ("a", "b"):
        found = tasks_by_part(parts, {source: SIZES[source]})
        total = sum(SIZES[source].values())
        assert {part: n / total for part, n in found.items()} == pytest.approx(SHARES, abs=0.02)


def test_the_withheld_source_stands_in_evaluation_only():
    parts = deal(SIZES, "held", seed=0)
    assert {parts[c] for c in SIZES["held"]} == {"evaluation"}


def test_a_cluster_that_touches_the_withheld_source_goes_with_it():
    sizes = {"a": {"shared": 9, "x": 1}, "held": {"shared": 1}}
    assert deal(sizes, "held", seed=0)["shared"] == "evaluation"


def test_another_seed_is_another_split():
    assert deal(SIZES, "held", seed=0) == deal(SIZES, "held", seed=0) != deal(SIZES, "held", seed=1)


clusters = st.dictionaries(st.integers(0, 30).map(str), st.integers(1, 9), min_size=1)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), clusters, min_size=1), st.integers(0, 5))
def test_every_cluster_stands_in_exactly_one_part(sizes, seed):
    parts = deal(sizes, "", seed)
    assert set(parts) == {cluster for clusters in sizes.values() for cluster in clusters}
    assert set(parts.values()) <= set(SHARES)
