"""The public call: among the failing inputs the one that most other wrong edits satisfy, with its share by hand."""

from hypothesis import given
from hypothesis import strategies as st

from rmlab.microswe.build.public_call import PublicCall, choose, others

EXPECTED = ("1", "2", "3")
BUG = ("1", "9", "9")  # fails inputs 1 and 2
EDITS = [EXPECTED, BUG, ("1", "2", "9"), ("9", "2", "3"), ("9", "2", "9"), ("9", "2", "9"), (None, "8", "3")]
SHORT = [1, 1, 1]


def test_the_weakest_failing_call():
    # four other wrong edits: ("1","2","9"), ("9","2","3"), ("9","2","9"), (None,"8","3"); input 1 is right in 3, input 2 in 2
    assert len(others(BUG, EDITS, EXPECTED)) == 4
    assert choose(BUG, EDITS, EXPECTED, SHORT, 10) == PublicCall(1, 0.75)


def test_a_call_that_is_too_long_is_not_shown():
    assert choose(BUG, EDITS, EXPECTED, [1, 11, 1], 10) == PublicCall(2, 0.5)
    assert choose(BUG, EDITS, EXPECTED, [1, 11, 11], 10) is None


def test_fewer_than_three_other_wrong_edits_are_no_evidence():
    assert choose(BUG, EDITS[:4], EXPECTED, SHORT, 10) is None
    assert choose(BUG, EDITS[:5], EXPECTED, SHORT, 10) is not None


def test_a_bug_without_a_value_cannot_be_shown_there():
    # BUG itself is now one of five other wrong edits; input 2 is right in two of them
    assert choose(("1", None, "9"), EDITS, EXPECTED, SHORT, 10) == PublicCall(2, 0.4)


def test_of_equally_weak_calls_the_shortest():
    bug, edits = ("9", "9", "3"), [("1", "2", "7"), ("1", "2", "8"), ("1", "2", "6")]
    assert choose(bug, edits, EXPECTED, [5, 4, 1], 10) == PublicCall(1, 1.0)


def test_random_is_any_failing_call_and_the_same_for_a_seed():
    seen = {choose(BUG, EDITS, EXPECTED, SHORT, 10, "random", seed) for seed in range(30)}
    assert seen == {PublicCall(1, 0.75), PublicCall(2, 0.5)}
    assert choose(BUG, EDITS, EXPECTED, SHORT, 10, "random", 3) == choose(BUG, EDITS, EXPECTED, SHORT, 10, "random", 3)


outputs = st.tuples(*[st.sampled_from(["1", "2", None])] * 4)


@given(outputs, st.lists(outputs, max_size=9), outputs.filter(lambda o: None not in o))
def test_no_call_is_weaker_than_the_chosen_one(bug, edits, expected):
    chosen = choose(bug, edits, expected, [1] * 4, 1)
    wrong = {e for e in edits if e not in (expected, bug)}
    if chosen is None:
        assert len(wrong) < 3 or all(b is None or b == e for b, e in zip(bug, expected, strict=True))
        return
    assert bug[chosen.index] != expected[chosen.index]
    for i in range(4):
        if bug[i] is not None and bug[i] != expected[i]:
            assert sum(e[i] == expected[i] for e in wrong) / len(wrong) <= chosen.share
