"""Clusters: what is joined, what is not, and that the order of the functions plays no part."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmlab.microswe.build.clusters import clusters, overlap, renamed, trigrams

TOTAL = "def total(xs):\n    s = 0\n    for x in xs:\n        s += x\n    return s"
SUMMED = "def summed(items):\n    acc = 0\n    for item in items:\n        acc += item\n    return acc"
LONGEST = "def longest(words):\n    return max((w for w in words if w), key=len, default='')"


def test_renaming_does_not_hide_that_two_functions_are_one():
    assert renamed(TOTAL) == renamed(SUMMED)
    assert renamed(TOTAL) != renamed(TOTAL.replace("+=", "-="))
    assert renamed("def f(a, b):\n    return a - b") != renamed("def f(a, b):\n    return b - a")


def test_names_from_outside_count():
    assert renamed("def f(a):\n    return min(a)") != renamed("def f(a):\n    return max(a)")


def test_trigrams_and_their_overlap_by_hand():
    a, b = trigrams("a = b + c"), trigrams("a = b - c  # other")
    assert a == {("a", "=", "b"), ("=", "b", "+"), ("b", "+", "c")}
    assert overlap(a, b) == pytest.approx(1 / 5)
    assert overlap(a, a) == 1.0
    assert overlap(frozenset(), frozenset()) == 0.0


def test_clusters_join_by_tree_by_tokens_and_through_helpers():
    near = TOTAL.replace("return s", "return s + 1")
    assert overlap(trigrams(TOTAL), trigrams(near)) >= 0.6
    user = "def mean(xs):\n    return total(xs) / len(xs)"
    codes = {"p.total": TOTAL, "q.summed": SUMMED, "r.near": near, "s.longest": LONGEST, "t.mean": user}
    joined = dict.fromkeys(("p.total", "q.summed", "r.near"), "p.total")
    assert clusters(codes) == {**joined, "s.longest": "s.longest", "t.mean": "t.mean"}
    assert clusters(codes, {"t.mean": "import math\n" + SUMMED})["t.mean"] == "p.total"


statements = st.sampled_from(
    ["a = a + 1", "b = len(a)", "a.sort()", "return a", "b = b * 2", "c = min(a)", "a = [c, b]"]
)
bodies = st.lists(statements, min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(st.lists(bodies, min_size=1, max_size=8), st.randoms())
def test_every_alike_pair_is_in_one_cluster_in_any_order(texts, rng):
    codes = {f"f{i}": "def f(a, b, c):\n    " + "\n    ".join(body) for i, body in enumerate(texts)}
    found = clusters(codes)
    for i, one in codes.items():
        for j, other in codes.items():
            if renamed(one) == renamed(other) or overlap(trigrams(one), trigrams(other)) >= 0.6:
                assert found[i] == found[j]
    shuffled = list(codes.items())
    rng.shuffle(shuffled)
    assert clusters(dict(shuffled)) == found
