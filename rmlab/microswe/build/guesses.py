"""What could a function take that neither documentation nor tests call? Guesses by the names and annotations of parameters.

A guess is a kind ("int", "strs", "predicate") for each required parameter; `sample` draws arguments of these kinds.
Whether a guess is right is found out by running it (`rmlab.microswe.build.trial`).
"""

import itertools
import random
import re
from collections.abc import Sequence

from rmlab.microswe.build.examples import signature_of
from rmlab.microswe.build.functions import Function

_BY_NAME: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"matrix|grid|board|mat|image|triangle|points?|pairs|intervals|edges|rows", ("matrix", "pairs")),
    (
        r"func|function|fn|key|pred|predicate|callback|mapper|iteratee|comparator|op|test",
        ("unary", "predicate", "binary"),
    ),
    (r"dic|dict|d|mapping|obj|map|graph|adj|tree", ("dict", "graph", "ints")),
    (
        r"s|s1|s2|str.*|.*string|text|word.?|line|name|path|prefix|suffix|sep|char|chars|pattern|msg|message|key|value|url|host|"
        r"hex.*|.*str|sequence1?|label|delimiter",
        ("str", "digits", "strs"),
    ),
    (r"strs|words|lines|names|strings|args|argv|tokens", ("strs", "ints")),
    (
        r"seq.*|iter.*|it|items|lst|list.?|l|ls|arr.*|array.*|nums?|numbers|xs|data|values|coll.*|elements|perm.*|coeffs?|poly.*|"
        r"stones|prices|heights|monom.*|A|B|F|P|V|u|v|vector|stack",
        ("ints", "strs", "pairs", "str", "int", "floats"),
    ),
    (r"b|bytes.*|buf.*|data", ("int", "bytes", "ints")),
    (r"f|g|h", ("ints", "unary", "int")),
    (r"K|ring|dom|domain", ("type",)),
    (
        r"n|m|k|i|j|p|q|r|num.?|number.*|start|stop|end|index|size|count|step|base|limit|target|low|high|lo|hi|left|right|length|"
        r"width|depth|level|year|month|day|hour|minute|second|mod|max.*|min.*|amount|exp|bits?|a|x|y|z|t|c|e|w",
        ("int", "ints", "float", "str"),
    ),
)
_MANY = r"(list|List|Sequence|Iterable|Iterator|Collection|set|Set)"
_BY_ANNOTATION: tuple[tuple[str, str], ...] = (
    (r"(list|List|Sequence|Iterable|Collection)\[(list|List|tuple|Tuple|Sequence)", "matrix"),
    (r"(dict|Dict|Mapping)\[\w+, (list|List|set)", "graph"),
    (_MANY + r"\[str", "strs"),
    (_MANY + r"\[float", "floats"),
    (r"^(t\.|typing\.)?(tuple|Tuple|" + _MANY[1:], "ints"),
    (r"Callable", "unary"),
    (r"(dict|Dict|Mapping)", "dict"),
    (r"^str|AnyStr|Text", "str"),
    (r"^int", "int"),
    (r"^float|Number|Numeric", "float"),
    (r"^bool", "bool"),
    (r"^bytes", "bytes"),
)
_ALL = (
    "int", "ints", "str", "float", "strs", "dict", "matrix", "pairs", "floats", "unary", "digits", "bytes", "graph",
    "predicate", "binary", "bool",
)  # fmt: skip
_COMBINED = (16, 16, 10, 6, 4)
"""Kinds of each parameter that are combined, by the number of parameters."""
_WORDS = (
    "a", "b", "abc", "abca", "hello", "Hello World", "aab", "x-y_z", "foo bar", "level", "ABC", "a1b2", "", "one two",
    "cat", "a.b.c", "tact", "xyzzy",
)  # fmt: skip
_UNARY = ("lambda x: x % 2", "lambda x: x + 1", "lambda x: -x", "lambda x: x * x", "str", "abs", "lambda x: x // 2")
_PREDICATE = ("lambda x: x > 2", "lambda x: x % 2 == 0", "bool", "lambda x: x < 4")
_BINARY = ("lambda a, b: a + b", "lambda a, b: a - b", "max", "lambda a, b: a * b", "lambda a, b: a < b")


def guesses(function: Function, most: int = 10, every_kind: bool = False) -> list[tuple[str, ...]]:
    """Combinations of kinds for the required parameters, the likeliest first, at most `most`; none where there are none.

    every_kind: behind the likely kinds of a parameter that no annotation speaks of, all others are combined too.
    """
    signature = signature_of(function.code)
    names = [a.arg for a in [*signature.posonlyargs, *signature.args]]
    required = names[: len(names) - len(signature.defaults)] or names[:1]
    if not required or len(required) > 5 or any(d is None for d in signature.kw_defaults):
        return []
    annotations = dict(function.annotations)
    options = [_kinds(name, annotations.get(name, "")) for name in required]
    if every_kind:
        guessed = [not _annotated(annotations.get(name, "")) for name in required]
        options = [
            tuple(dict.fromkeys([*kinds, *_ALL]))[: _COMBINED[len(required) - 1]] if free else kinds
            for kinds, free in zip(options, guessed, strict=True)
        ]
    combinations = sorted(itertools.product(*[list(enumerate(o)) for o in options]), key=lambda c: sum(i for i, _ in c))
    return [tuple(kind for _, kind in c) for c in combinations[:most]]


def _annotated(annotation: str) -> str | None:
    """The kind that an annotation asks for, None where it says nothing."""
    return next((kind for pattern, kind in _BY_ANNOTATION if re.search(pattern, annotation.strip("'\""))), None)


def _kinds(name: str, annotation: str) -> tuple[str, ...]:
    if (kind := _annotated(annotation)) is not None:
        return {"unary": ("unary", "predicate", "binary"), "matrix": ("matrix", "pairs")}.get(kind, (kind,))
    for pattern, kinds in _BY_NAME:
        if re.fullmatch(pattern, name.strip("_")):
            return kinds[:4]
    return ("int", "ints", "str", "dict")


def sample(kinds: Sequence[str], count: int, rng: random.Random) -> list[str]:
    """Different argument tuples of the given kinds, at most `count`."""
    sources: dict[str, None] = {}
    for _ in range(4 * count):
        if len(sources) == count:
            break
        values = ", ".join(_value(kind, rng) for kind in kinds)
        sources.setdefault(f"({values},)" if len(kinds) == 1 else f"({values})")
    return list(sources)


def _small(rng: random.Random) -> int:
    return rng.choice((rng.randint(0, 9), rng.randint(0, 9), rng.randint(-5, 30)))


def _value(kind: str, rng: random.Random) -> str:
    match kind:
        case "int":
            return repr(rng.choice((rng.randint(0, 6), rng.randint(1, 20), rng.randint(-3, 120))))
        case "float":
            return repr(rng.choice((float(_small(rng)), _small(rng) / 2, rng.randint(0, 100) / 8)))
        case "bool":
            return repr(rng.random() < 0.5)
        case "str":
            return repr(rng.choice(_WORDS))
        case "digits":
            return repr("".join(rng.choice("0110123456789") for _ in range(rng.randint(1, 6))))
        case "bytes":
            return repr(rng.choice(_WORDS).encode())
        case "ints":
            return repr([_small(rng) for _ in range(rng.randint(0, 6))])
        case "floats":
            return repr([_small(rng) / 2 for _ in range(rng.randint(1, 5))])
        case "strs":
            return repr([rng.choice(_WORDS) for _ in range(rng.randint(0, 4))])
        case "pairs":
            return repr([(_small(rng), _small(rng)) for _ in range(rng.randint(1, 4))])
        case "matrix":
            width = rng.randint(1, 3)
            return repr([[_small(rng) for _ in range(width)] for _ in range(rng.choice((width, rng.randint(1, 3))))])
        case "dict":
            return repr({rng.choice("abcdxy"): _small(rng) for _ in range(rng.randint(0, 4))})
        case "graph":
            nodes = "abcd"[: rng.randint(2, 4)]
            return repr({n: [m for m in nodes if m != n and rng.random() < 0.5] for n in nodes})
        case "type":
            return "int"
        case "unary":
            return rng.choice(_UNARY)
        case "predicate":
            return rng.choice(_PREDICATE)
        case "binary":
            return rng.choice(_BINARY)
    raise ValueError(f"unknown kind {kind!r}")
