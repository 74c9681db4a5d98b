"""What counts as a near copy, on functions small enough to see it."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmlab.microswe.build.clusters import clusters
from rmlab.pretraining.sources import NearCopies

KNOWN = """\
def total(values, start):
    result = start
    for value in values:
        if value > 0:
            result += value * 2
    return result"""

RENAMED = """\
def summed(numbers, first):
    out = first
    for number in numbers:
        if number > 0:
            out += number * 2
    return out"""

ONE_LINE_CHANGED = KNOWN.replace("value * 2", "value * 3 - 1")

OTHER = """\
def join_words(words):
    text = ''
    while words:
        text = words.pop() + ' ' + text
    return text.strip()"""


@pytest.fixture(scope="module")
def known():
    return NearCopies([KNOWN])


@pytest.mark.parametrize("code", [KNOWN, RENAMED, ONE_LINE_CHANGED])
def test_copies_renamed_ones_and_near_ones_are_found(known, code):
    assert known.found(code)


def test_another_function_is_not_found(known):
    assert not known.found(OTHER)


def test_a_copy_nested_in_another_function_is_found(known):
    inner = "\n".join("    " + line for line in RENAMED.split("\n"))
    assert known.found(f"def outer(numbers):\n{inner}\n    return summed(numbers, 0) + len(numbers) - 17")


def test_a_tree_given_is_the_tree_of_the_text(known):
    for code in (RENAMED, OTHER):
        assert known.found(code) == known.found(code, ast.parse(code).body[0])


lines = st.lists(
    st.sampled_from(["a += b", "b = a * 3", "a = max(a, b)", "b -= 1", "c = [a, b]", "a, b = b, a", "b = f(a, c)"]),
    min_size=1,
    max_size=9,
)


@given(lines, lines)
def test_says_what_the_cluster_rule_says(one, other):
    codes = {
        name: ast.unparse(ast.parse(f"def {name}(a, b, c):\n    " + "\n    ".join(body) + "\n    return a"))
        for name, body in (("x", one), ("y", other))
    }
    joined = len(set(clusters(codes).values())) == 1
    assert NearCopies([codes["x"]]).found(codes["y"]) == joined
