"""Whatever text a program writes as its result is a value, which can be compared and shown, or is refused. Nothing raises."""

import json
import random
from decimal import Decimal
from fractions import Fraction

import pytest

from rmlab.microswe.sandbox import LEVELS, Limits, Program, Sandbox
from rmlab.microswe.sandbox.records import Result
from rmlab.microswe.sandbox.values import encode, is_value, raised, same, show

TAGS = [
    "tuple", "deque", "set", "frozenset", "dict_keys", "dict_values", "dict_items", "dict", "Counter", "defaultdict",
    "OrderedDict", "bytes", "bytearray", "int", "float", "complex", "range", "Fraction", "Decimal", "constant", "iterator",
    "endless", "raised", "unknown", "",
]  # fmt: skip
ATOMS = [
    "0", "-0", "1", "2", "-1", "3.5", "-0.0", "1e308", "1e999", "-1e999", "1E400", "true", "false", "null", "NaN", "Infinity",
    "9" * 77, "9" * 80, "9" * 4000, "9" * 5000, '""', '"nan"', '"inf"', '"-inf"', '"zz"', '"00"', '"0"', '"0x1"', '"0xff"',
    '"0x1' + "0" * 70 + '"', '"0x1' + "0" * 9000 + '"', '"-0x1' + "0" * 70 + '"', '"1_0"', '" 1 "', '"\\ud800"', '"\\n"',
    '"\\u0660"', '"1E+999999999999999999"', '"1E-999999999999999999"', '"9e9999999999999999999"', '"1E+9"', '"sNaN"', '"NaN12"',
    '"-Infinity"', '"Ellipsis"', '"NotImplemented"', '"eval"', '"' + "7" * 6000 + '"', "[]", "{}", '{"float":"nan"}', '{"int":"0x2"}',
    '{"int":"0x1' + "0" * 70 + '"}', '{"tuple":[1]}',
]  # fmt: skip
EXPECTED = [
    encode(value)
    for value in (
        7, 1.5, float("nan"), "got 7", None, [1, 2.0], (1,), {1, 2.5}, {"a": {1.0: 2}}, range(0), range(5), Fraction(1, 2), Decimal(1),
        Decimal("sNaN"), 1 + 2j, b"x", 10**90, iter([1]), ..., frozenset({(1.5, 2)}),
    )
] + [raised("KeyError")]  # fmt: skip
ENDED_WORKERS = [
    '{"complex":[' + "9" * 400 + ",1.0]}",
    "1e999",
    '{"complex":[1e999,1]}',
    '{"Decimal":[0,[1],1e999]}',
    '{"set":[1e999,1.5]}',
]
FEW, MANY = 4_000, 20_000


def encodings(seed: int, count: int) -> list[str]:
    """Texts in and around the encoding's grammar, and some of them with a few characters exchanged."""
    rng = random.Random(seed)

    def tree(depth: int) -> str:
        kind = rng.random()
        if depth == 0 or kind < 0.35:
            return rng.choice(ATOMS)
        items = ",".join(tree(depth - 1) for _ in range(rng.choice([0, 1, 1, 2, 2, 3])))
        if kind < 0.5:
            return f"[{items}]"
        payload = (
            tree(depth - 1)
            if kind < 0.65
            else f"[[{tree(depth - 1)},{tree(depth - 1)}]]"
            if kind < 0.75
            else f"[{items}]"
        )
        more = f',"{rng.choice(TAGS)}":1' if kind > 0.98 else ""
        return f'{{"{rng.choice(TAGS)}":{payload}{more}}}'

    def one() -> str:
        text = tree(rng.randint(1, 4))
        if rng.random() < 0.02:
            nested = rng.choice([30, 41, 60, 3000])
            text = rng.choice(["[", '{"tuple":[']) * nested + text + "]" * nested
        if rng.random() < 0.25 and len(text) < 2000:
            characters = list(text)
            for _ in range(rng.randint(1, 3)):
                characters[rng.randrange(len(characters))] = rng.choice('[]{}",:0x9eE.-nI\\ u~')
            text = "".join(characters)
        return text[:20_000]

    return [one() for _ in range(count)]


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_every_text_is_a_value_or_is_refused(count):
    values = 0
    for text in encodings(1, count):
        if not is_value(text):
            continue
        values += 1
        result = Result("value", text)
        assert same(text, text)
        assert same(text, json.dumps(json.loads(text), indent=1))
        assert 0 < len(result.show()) <= 120
        assert show(text, 10**6).isprintable()
        for expected in EXPECTED:
            assert result.matches(expected) in (True, False)
    assert count / 20 < values < count


WRITES = """
import os
def f(*texts):
    for text in texts:
        data = b'V' + text.encode('ascii') + b'\\n'
        while data:
            data = data[os.write(3, data):]
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("level", "count"), [*((level, 1_000) for level in LEVELS), pytest.param(LEVELS[0], MANY, marks=pytest.mark.slow)]
)
def test_every_text_that_a_program_writes_is_a_value_or_no_value_and_no_worker_is_lost(level, count):
    texts = [text for text in [*ENDED_WORKERS, *encodings(2, count)] if "\n" not in text and text.isascii()]
    limits = Limits(call_seconds=20.0, program_seconds=60.0, batch_seconds=3600.0)
    with Sandbox(workers=2, limits=limits, at_most=level) as box:
        if box.isolation.name != level:
            pytest.skip(str(box.isolation))
        before = [worker.process.pid for worker in box.workers]
        size = 50  # a call that writes its own result and those of the next, so that one process says many
        groups = [texts[at : at + size] for at in range(0, len(texts), size)]
        programs = [Program("", WRITES, "f", (repr((*group, "")), *["()"] * (len(group) - 1))) for group in groups]
        outcomes = box.run(programs)
        assert [worker.process.pid for worker in box.workers] == before
        for group, outcome in zip(groups, outcomes, strict=True):
            assert not outcome.broken
            assert outcome.error is None
            for text, result in zip(group, outcome.results, strict=True):
                assert (result.kind, result.value) == (
                    ("value", text) if is_value(text) else ("invalid", "not an encoded value")
                )
                assert result.show()
                assert result.matches("7") in (True, False)


@pytest.mark.parametrize(
    "value", ["range(10**5000)", "Fraction(10**5000)", "[range(1, 10**5000, 3)]", "{Fraction(1, 10**5000 + 1): 1}"]
)
def test_integers_beyond_the_interpreters_limit_of_digits_are_shown_wherever_they_stand(value):
    encoded = encode(eval(value))
    assert is_value(encoded)
    assert same(encoded, encoded)
    assert show(encoded, 10**6).replace("0" * 5000, "~").replace("0" * 4999 + "1", "~").count("~") == 1
    assert len(show(encoded)) == 120


def test_a_value_has_one_text_so_that_forged_ones_are_no_values():
    assert encode(Decimal("1E+9")) == '{"Decimal":"1E+9"}'
    for text in ("1e999", "[1e999]", '{"complex":[1e999,0.0]}', '{"complex":[1,0.0]}', '{"Fraction":[2,4]}', '{"Decimal":"1e9"}',
                 '{"Decimal":[0,[1],0]}', '{"Decimal":1e999}', '{"int":"0x1"}', "9" * 90, '{"range":[1]}', '{"range":[0,true,1]}',
                 '{"bytes":"0 0"}', '{"complex":[' + "9" * 400 + ",1.0]}"):  # fmt: skip
        assert not is_value(text), text
