from fractions import Fraction
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmlab.selection.apportionment import apportion

weights = st.dictionaries(st.sampled_from("abcdefgh"), st.fractions(0, 50, max_denominator=12), min_size=1).filter(
    lambda w: any(w.values())
)


@given(weights, st.integers(0, 120))
def test_a_larger_total_takes_no_place_away_and_everyone_has_the_exact_share_rounded(shares, total):
    before, after = apportion(total, shares), apportion(total + 1, shares)
    assert sum(before.values()) == total
    assert all(after[name] >= before[name] for name in shares)
    for name, weight in shares.items():
        exact = total * weight / sum(shares.values())
        assert floor(exact) <= before[name] <= ceil(exact)


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 15), min_size=1).filter(lambda w: any(w.values())))
def test_by_what_is_there_never_asks_for_more_than_is_there(counts):
    shares = {name: Fraction(n) for name, n in counts.items()}
    for total in range(sum(counts.values()) + 1):
        assert all(n <= counts[name] for name, n in apportion(total, shares).items())
    assert apportion(sum(counts.values()), shares) == counts


def test_by_hand():
    # Exact shares of 10 by 5:3:1 are 5.56, 3.33, 1.11; of 9 they are whole.
    shares = {"a": Fraction(5), "b": Fraction(3), "c": Fraction(1)}
    assert apportion(9, shares) == {"a": 5, "b": 3, "c": 1}
    assert apportion(10, shares) == {"a": 6, "b": 3, "c": 1}
    assert apportion(3, {"a": Fraction(1), "b": Fraction(1)}) == {"a": 2, "b": 1}  # a tie goes to the first


def test_weights_that_share_nothing_out():
    with pytest.raises(ValueError, match="weights must be at least 0"):
        apportion(1, {"a": Fraction(0)})
