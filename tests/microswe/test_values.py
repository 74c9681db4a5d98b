"""Outputs as text: what is the same, what is not, what is refused, what is shown."""

import itertools
import json
import math
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmlab.microswe.sandbox.values import CHARS, DRAWN, Unencodable, encode, is_value, raised, same, show

hashable = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=4) | st.fractions()
    | st.decimals(allow_nan=False) | st.complex_numbers() | st.builds(range, st.integers(), st.integers()),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
anything = st.recursive(
    hashable,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(hashable, inner, max_size=3) | st.sets(hashable, max_size=3)
    | st.deferred(lambda: st.lists(inner, max_size=3).map(deque)),
    max_leaves=10,
)  # fmt: skip


@given(anything)
def test_every_value_is_the_same_as_itself_and_its_text_is_valid_ascii(value):
    text = encode(value)
    assert same(text, text)
    assert is_value(text)
    assert text.isascii()
    assert "\n" not in text
    assert same(text, json.dumps(json.loads(text), indent=1))  # compared as values, not as text
    assert show(text, 10**6)


def test_ranges_agree_where_they_hold_the_same_numbers():
    assert same(encode(range(0, 0)), encode(range(0, -1)))
    assert same(encode({range(0, 3, 2): 1}), encode({range(0, 4, 2): 1}))
    assert not same(encode(range(3)), encode(range(4)))
    assert not same(encode(range(3)), encode([0, 1, 2]))


@given(st.lists(hashable, max_size=6), st.randoms(use_true_random=False))
def test_sets_and_dictionaries_agree_in_any_order(items, random):
    other = list(items)
    random.shuffle(other)
    assert same(encode(dict.fromkeys(items, 1)), encode(dict.fromkeys(other, 1)))
    assert same(encode(set(items)), encode(set(other)))


@given(st.lists(st.floats(-1e6, 1e6), max_size=6))
def test_floats_agree_within_tolerance_at_any_depth(numbers):
    near = [number * (1 + 1e-8) for number in numbers]
    for wrap in (list, set, tuple, lambda x: {"a": [x]}, lambda x: iter(x), lambda x: dict.fromkeys(x, 1.0)):
        if len(set(numbers)) == len(set(near)):
            assert same(encode(wrap(numbers)), encode(wrap(near)))


def test_types_count():
    for a, b in [
        (1, 1.0), (1, True), (0, False), (0, None), ("1", 1), ([1], (1,)), ({1}, frozenset({1})), (b"a", "a"), (1 + 0j, 1.0),
        ({}, set()), (range(3), [0, 1, 2]), (iter([1]), [1]), (Fraction(1, 2), 0.5), (Decimal(1), 1), (deque([1]), [1]),
        (Counter("a"), {"a": 1}), (defaultdict(int, a=1), {"a": 1}), (bytearray(b"a"), b"a"), (..., None),
        ({1: 2}.keys(), {1}), ({True: 1}, {1: 1}),
    ]:  # fmt: skip
        assert not same(encode(a), encode(b)), (a, b)


def test_values_count():
    assert same(encode(0.1 + 0.2), encode(0.3))
    assert not same(encode(1.0), encode(1.00001))
    assert same(encode(1e-12), encode(0.0))
    assert same(encode(math.nan), encode(-math.nan))
    assert not same(encode(math.nan), encode(0.0))
    assert not same(encode(math.inf), encode(-math.inf))
    assert not same(encode([1, 2]), encode([2, 1]))
    assert not same(encode({1, 2}), encode({1, 3}))
    assert not same(encode({"a": 1}), encode({"a": 2}))
    assert not same(encode([1]), encode([1, 1]))
    assert same(encode(OrderedDict(a=1, b=2)), encode(OrderedDict(a=1, b=2)))
    assert not same(encode(OrderedDict(a=1, b=2)), encode(OrderedDict(b=2, a=1)))
    assert same(encode(Decimal("1.0")), encode(Decimal("1.00")))
    assert same(encode(Decimal("sNaN")), encode(Decimal("sNaN")))
    assert not same(encode(Decimal("sNaN")), encode(Decimal(1)))
    assert same(encode(10**300), encode(10**300))
    assert not same(encode(10**300), encode(10**300 + 1))


def test_iterators_are_drawn_and_endless_ones_cut():
    assert encode(x * x for x in range(3)) == '{"iterator":[0,1,4]}'
    assert same(encode(map(str, [1, 2])), encode(iter(["1", "2"])))
    assert not same(encode(iter(range(DRAWN))), encode(iter(range(DRAWN + 1))))
    assert show(encode(itertools.count()), 40) == "iterator of [0, 1, 2, 3, 4, 5, 6, 7, ..."
    assert show(encode(iter([1]))) == "iterator of [1]"

    def broken():
        yield 1
        raise KeyError

    with pytest.raises(KeyError):
        encode(broken())


class Level(IntEnum):
    HIGH = 1


class Yes(list):
    def __eq__(self, other):
        return True


DEEP: list = []
for _ in range(100):
    DEEP = [DEEP]
WIDE: list = [0]
for _ in range(30):
    WIDE = [WIDE, WIDE]
LOOP: list = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "value",
    [object(), int, len, Level.HIGH, Yes(), namedtuple("P", "x")(1), ValueError()],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_compared_safely_is_refused(value):
    for refused in (value, [value]):
        with pytest.raises(Unencodable, match=f"^a value of type {type(value).__name__}$"):
            encode(refused)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (DEEP, "nested more than 40 deep"),
        (LOOP, "nested more than 40 deep"),
        (WIDE, "larger than 20000 elements or 20000 characters"),
        ("x" * (CHARS + 1), "larger than 20000 elements or 20000 characters"),
        ("é" * (CHARS // 2), "longer than 20000 characters"),
        (list(range(CHARS)), "larger than 20000 elements or 20000 characters"),
        (1 << (5 * CHARS), "larger than 20000 elements or 20000 characters"),
        (b"x" * CHARS, "larger than 20000 elements or 20000 characters"),
    ],
    ids=["deep", "loop", "wide", "long text", "long once written", "long list", "long number", "long bytes"],
)
def test_what_is_too_large_to_compare_is_refused(value, words):
    with pytest.raises(Unencodable, match=f"^{words}$"):
        encode(value)


def test_a_shorter_limit():
    assert encode("x" * 8, chars=10) == '"xxxxxxxx"'
    with pytest.raises(Unencodable, match="10 characters"):
        encode("x" * 9, chars=10)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"), ([1, 2], "[1, 2]"), ("a'b", '"a\'b"'), (None, "None"), (True, "True"), (1e22, "1e+22"), ((1,), "(1,)"), ((), "()"),
        ({"a": (1, 2)}, "{'a': (1, 2)}"), (set(), "set()"), ({2, 1}, "{1, 2}"), (frozenset(), "frozenset()"),
        (frozenset({1}), "frozenset({1})"), (math.nan, "nan"), (-math.inf, "-inf"), (b"\x00a", "b'\\x00a'"), (1 + 2j, "(1+2j)"),
        (range(1, 9, 2), "range(1, 9, 2)"), (Fraction(1, 3), "Fraction(1, 3)"), (Decimal("1.50"), "Decimal('1.50')"),
        (Counter("aab"), "Counter({'a': 2, 'b': 1})"), (deque([1]), "deque([1])"), ({1: 2}.items(), "dict_items([(1, 2)])"),
        (2**300, str(2**300)), (..., "Ellipsis"), (complex(math.nan, 1), "(nan+1j)"), ([[], {}], "[[], {}]"), (-0.0, "-0.0"),
    ],
)  # fmt: skip
def test_what_is_shown(value, text):
    assert show(encode(value)) == text


def test_what_is_shown_is_cut():
    assert show(encode("x" * 500)) == "'" + "x" * 116 + "..."
    assert show(encode([1, 2, 3]), 6) == "[1,..."
    assert len(show(encode(1 << 20_000))) == 120


def test_exceptions_are_outputs_that_no_value_equals():
    assert show(raised("TypeError")) == "raised TypeError"
    assert same(raised("KeyError"), raised("KeyError"))
    assert not same(raised("KeyError"), raised("TypeError"))
    assert not same(raised("KeyError"), encode({"raised": "KeyError"}))
    assert not is_value(raised("KeyError"))


@pytest.mark.parametrize(
    "text",
    ["", "x", "[", "NaN", "[1] 2", '{"a":1,"b":2}', "{}", '{"raised":"E"}', '{"unknown":1}', '{"tuple":1}', '{"dict":[[1]]}', '{"int":1}',
     '{"int":"zz"}', '{"float":"1"}', '{"bytes":"0"}', '{"range":[1.0]}', '{"Fraction":[1,0]}', '{"Decimal":"x"}', '{"Decimal":[]}',
     '{"complex":[1]}', '{"constant":"eval"}', '{"range":[0,1,0]}', "[" * 100_000, "[" * 200 + "]" * 200, "9" * 5000, '{"float":[]}'],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_text_that_is_no_encoded_value_is_found_out(text):
    assert not is_value(text)
