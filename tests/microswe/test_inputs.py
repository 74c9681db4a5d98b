"""Inputs: examples read from documentation and tests, variations of the same types, guesses, and the choice."""

import ast
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmlab.microswe.build.examples import examples, stands_alone
from rmlab.microswe.build.functions import Function
from rmlab.microswe.build.guesses import guesses, sample
from rmlab.microswe.build.inputs import FEWEST, MOST, choose, variations
from rmlab.microswe.sandbox import Result


def function(code, documentation="", annotations=(), tests=()):
    entry = ast.parse(code).body[0].name
    return Function(f"hand.{entry}", "hand", "hand", entry, "", code, documentation, tuple(annotations), tuple(tests))


def test_examples_from_doctests_stand_for_themselves():
    f = function(
        "def f(a, b=2, c=None):\n    return a",
        """
        >>> xs = [1, 2]
        >>> inc = lambda x: x + 1
        >>> f(xs, inc)
        >>> list(f(xs, c='k'))
        >>> f(*xs)
        >>> f(unknown)
        >>> def twice(x: int): return 2 * x
        >>> assert f(twice) == f(operator.add, len)
        >>> f(a=1, d=3)
    """,
    )
    assert examples(f, {}) == [
        "([1, 2], lambda x: x + 1)",
        "([1, 2], 2, 'k')",
        "(lambda x: 2 * x,)",
        "(lambda a, b: a + b, len)",
    ]


def test_examples_from_the_texts_of_tests():
    text = """
X = 'ab'
class T:
    def test(self):
        y = [X]
        self.assertEqual(pack.f(y), 1)
        f(self.z)
    def other(self):
        assert f(y) is None
"""
    assert examples(function("def f(a):\n    return a", tests=["t"]), {"t": text}) == ["(['ab'],)"]


def test_a_doctest_that_is_none_gives_no_example():
    assert examples(function("def f(a):\n    return a", ">>> f(1)\n  bad indent\n>>> f(\n"), {}) in ([], ["(1,)"])


@pytest.mark.parametrize(
    ("source", "alone"),
    [
        ("([1], len)", True),
        ("(lambda x: x + y,)", False),
        ("([x for x in range(3)],)", True),
        ("(open('f'),)", False),
        ("((1).__class__,)", False),
        ("(Fraction(1, 2), nan)", True),
    ],
)
def test_what_stands_alone(source, alone):
    assert stands_alone(source) is alone


scalars = st.integers(-9, 99) | st.text("abAB1 ", max_size=4) | st.booleans() | st.floats(-5, 5) | st.binary(max_size=3)
keys = st.text("ab", min_size=1, max_size=2)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=2), max_leaves=6
)


@settings(max_examples=60, deadline=None)
@given(st.lists(values, min_size=1, max_size=3), st.integers(0, 9))
def test_variations_keep_the_types_of_the_arguments(arguments, seed):
    source = repr(tuple(arguments))
    for varied in variations([source], 12, random.Random(seed)):
        assert [type(v) for v in ast.literal_eval(varied)] == [type(v) for v in arguments]


def test_variations_begin_with_the_examples_and_repeat_for_a_seed():
    sources = ["([1, 2, 3], 2)", "('abc', 1)"]
    found = variations(sources, 20, random.Random(1))
    assert found[:2] == sources
    assert len(set(found)) == len(found) == 20
    assert found == variations(sources, 20, random.Random(1))


def test_functions_among_the_arguments_stay_as_they_are():
    assert all(
        v.startswith("(lambda x: x + 1, [") for v in variations(["(lambda x: x + 1, [1, 2])"], 15, random.Random(0))
    )


def test_guesses_follow_annotations_then_names():
    f = function("def f(n, text, key=None):\n    return n", annotations=[("n", "str"), ("text", ""), ("key", "")])
    assert guesses(f)[0] == ("str", "str")
    assert guesses(function("def f(matrix, pred):\n    return 1"))[0] == ("matrix", "unary")
    assert guesses(function("def f(*xs):\n    return 1")) == []
    drawn = sample(("int", "strs"), 8, random.Random(0))
    assert len(drawn) == 8
    assert all([type(v) for v in ast.literal_eval(s)] == [int, list] for s in drawn)


def results(*outputs):
    return [Result("value", o) if o[0] != "!" else Result("raised", o[1:]) for o in outputs]


def test_choice_prefers_new_outputs_and_bounds_their_number():
    sources = [f"({i},)" for i in range(40)]
    chosen = choose(sources, results(*[str(i % 20) for i in range(40)]), "")
    assert chosen == [(f"({i},)", str(i)) for i in range(MOST)]
    chosen = choose(sources, results(*[str(i // 20) for i in range(40)]), "")
    assert [o for _, o in chosen][:2] == ["0", "1"]


def test_choice_refuses_what_tests_too_little():
    sources = [f"({i},)" for i in range(FEWEST)]
    assert choose(sources[:-1], results(*map(str, range(FEWEST - 1))), "") is None
    assert choose(sources, results(*["0"] * FEWEST), "") is None
    assert choose(sources, results("1", *["0"] * (FEWEST - 1)), "") is None


def test_choice_leaves_out_addresses_endless_iterators_long_outputs_and_foreign_exceptions():
    good = [str(i) for i in range(FEWEST)]
    bad = ['"<f at 0x7f0012ab>"', '{"endless":[1]}', f'"{"x" * 400}"', "!TypeError"]
    own = ["!ValueError"] * 3
    sources = [f"({i},)" for i in range(len(good + bad + own))]
    chosen = choose(sources, results(*good, *bad, *own), "def f(x):\n    raise ValueError('no')")
    assert [o for _, o in chosen] == [*good, '{"raised":"ValueError"}', '{"raised":"ValueError"}']
