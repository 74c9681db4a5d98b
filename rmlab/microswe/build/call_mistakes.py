"""Which small mistakes can be made in a call? One function taken for its like, arguments swapped or left out, the call itself left out."""

import ast
from collections.abc import Iterator

from rmlab.microswe.build.expressions import plus

_CONFUSED = (
    "min max",
    "any all",
    "sum len max",
    "sorted reversed",
    "append extend",
    "pop popleft",
    "appendleft extendleft",
    "strip lstrip rstrip",
    "startswith endswith",
    "upper lower title",
    "find rfind",
    "index rindex",
    "split rsplit",
    "partition rpartition",
    "keys values items",
    "islower isupper",
    "isdigit isalpha isalnum",
    "ceil floor",
    "union intersection difference symmetric_difference",
    "issubset issuperset",
    "add discard",
    "ljust rjust center",
    "bisect_left bisect_right",
    "takewhile dropwhile",
    "filter filterfalse",
    "zip zip_longest",
    "removeprefix removesuffix",
    "nlargest nsmallest",
    "combinations permutations",
    "int float round",
    "abs int",
    "setdefault get",
    "list set",
    "tuple list",
    "map filter",
    "update setdefault",
    "most_common elements",
    "bin oct hex",
    "chr str",
)
_FUNCTIONS: dict[str, list[str]] = {}
for _alike in map(str.split, _CONFUSED):
    for _one in _alike:
        _FUNCTIONS.setdefault(_one, []).extend(other for other in _alike if other != _one)
_WRAPPERS = {
    "abs", "sorted", "set", "int", "reversed", "list", "tuple", "str", "len", "float", "max", "min", "sum", "bool",
    "iter",
}  # fmt: skip
_WRAPPER_METHODS = {"strip", "lower", "upper", "copy", "lstrip", "rstrip"}


def call_mistakes(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """(operator, node to put in its place) for each mistake at this very call."""
    name = ""
    match node.func:
        case ast.Name(id=name):
            swaps: list[ast.expr] = [ast.Name(other, ast.Load()) for other in _FUNCTIONS.get(name, ())]
        case ast.Attribute(value=owner, attr=name):
            swaps = [ast.Attribute(owner, other, ast.Load()) for other in _FUNCTIONS.get(name, ())]
        case _:
            swaps = []
    for func in swaps:
        yield "function_swap", ast.Call(func, node.args, node.keywords)
    plain = not any(isinstance(a, ast.Starred) for a in node.args)
    if name == "range" and plain and not node.keywords:
        yield from (("range_bounds", ast.Call(node.func, args, [])) for args in _ranges(node.args))
    elif plain:
        for i in range(len(node.args) - 1):
            swapped = [*node.args[:i], node.args[i + 1], node.args[i], *node.args[i + 2 :]]
            yield "swapped_arguments", ast.Call(node.func, swapped, node.keywords)
        if len(node.args) > 1:
            yield "missing_argument", ast.Call(node.func, node.args[:-1], node.keywords)
    for i in range(len(node.keywords)):
        yield "missing_argument", ast.Call(node.func, node.args, [*node.keywords[:i], *node.keywords[i + 1 :]])
    if isinstance(node.func, ast.Name) and name in _WRAPPERS and len(node.args) == 1 and plain:
        yield "missing_call", node.args[0]
    if isinstance(node.func, ast.Attribute) and name in _WRAPPER_METHODS:
        yield "missing_call", node.func.value


def _ranges(args: list[ast.expr]) -> Iterator[list[ast.expr]]:
    last = 0 if len(args) == 1 else 1
    for amount in (1, -1):
        yield [*args[:last], plus(args[last], amount), *args[last + 1 :]]
    if len(args) == 1:
        yield [ast.Constant(1), args[0]]
    else:
        yield from ([plus(args[0], amount), *args[1:]] for amount in (1, -1))
        if len(args) == 2:
            yield [args[1]]
        else:
            yield args[:2]
