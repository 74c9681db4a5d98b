"""Which small mistakes can stand in place of one expression? The expression half of the AST operators.

Each function takes a node and yields (operator, node to put in its place). `rmlab.microswe.build.operators` walks the
statements, puts the nodes in and keeps what changes exactly one line. Nodes given are never altered.
The operators are the usual ones of mutation testing (Jia and Harman 2011, "An Analysis and Survey of the Development
of Mutation Testing"), and the confusions of one function, one variable or one bound with its neighbour.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from rmlab.microswe.build.call_mistakes import call_mistakes
from rmlab.microswe.build.expressions import integer, negated, number, plus

Replacement = tuple[str, ast.expr]

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt, ast.NotEq),
    ast.LtE: (ast.Lt, ast.GtE, ast.Eq),
    ast.Gt: (ast.GtE, ast.Lt, ast.NotEq),
    ast.GtE: (ast.Gt, ast.LtE, ast.Eq),
    ast.Eq: (ast.NotEq, ast.LtE, ast.GtE),
    ast.NotEq: (ast.Eq, ast.Lt, ast.Gt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add, ast.FloorDiv),
    ast.Div: (ast.FloorDiv, ast.Mult),
    ast.FloorDiv: (ast.Mod, ast.Mult, ast.Div),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd, ast.BitXor),
    ast.BitXor: (ast.BitOr, ast.BitAnd),
}
_BOUNDED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq)
_NEVER_NUMBERS = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict)
ORDERED = (ast.Add, ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift)
_MOST_VARIABLES = 3


def replacements(node: ast.expr, variables: Sequence[str], strings: Sequence[str]) -> Iterator[Replacement]:
    """All small mistakes at this very node (not within it).

    variables: names in scope, in the order they were bound. strings: string literals of the function, for confusions.
    """
    value = integer(node)
    if value is not None:
        yield "constant", number(value + 1)
        yield "constant", number(value - 1)
        if value < 0:
            yield "sign", number(-value)
        return
    handler = _HANDLERS.get(type(node))
    if handler is not None:
        yield from handler(node)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield from _variable(node, variables)
    elif isinstance(node, ast.Constant):
        yield from _constant(node, strings)


def _variable(node: ast.Name, variables: Sequence[str]) -> Iterator[Replacement]:
    if node.id not in variables:
        return
    own = variables.index(node.id)
    others = sorted((abs(i - own), i) for i in range(len(variables)) if i != own)
    for _, i in others[:_MOST_VARIABLES]:
        yield "wrong_variable", ast.Name(variables[i], ast.Load())


def _constant(node: ast.Constant, strings: Sequence[str]) -> Iterator[Replacement]:
    if isinstance(node.value, bool):
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node.value, float):
        yield "constant", ast.Constant(node.value + 1.0)
        yield "constant", ast.Constant(node.value / 2)
    elif isinstance(node.value, str):
        if node.value in ("", " "):
            yield "constant", ast.Constant(" " if node.value == "" else "")
        alike = [s for s in strings if s != node.value and len(s) == len(node.value)]
        for other in alike[:2]:
            yield "constant", ast.Constant(other)


def _compare(node: ast.Compare) -> Iterator[Replacement]:
    for i, op in enumerate(node.ops):
        for other in COMPARISONS[type(op)]:
            yield "comparison", ast.Compare(node.left, [*node.ops[:i], other(), *node.ops[i + 1 :]], node.comparators)
        bound = node.comparators[i]
        if isinstance(op, _BOUNDED) and integer(bound) is None and not isinstance(bound, _NEVER_NUMBERS):
            for amount in (1, -1):
                changed = [*node.comparators[:i], plus(bound, amount), *node.comparators[i + 1 :]]
                yield "boundary", ast.Compare(node.left, node.ops, changed)
    if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        yield "swapped_operands", ast.Compare(node.comparators[0], node.ops, [node.left])


def _binary(node: ast.BinOp) -> Iterator[Replacement]:
    if (
        isinstance(node.op, ast.Mod)
        and isinstance(node.left, (ast.Constant, ast.JoinedStr))
        and integer(node.left) is None
    ):
        return  # text formatting, not arithmetic
    for other in ARITHMETIC.get(type(node.op), ()):
        yield "arithmetic", ast.BinOp(node.left, other(), node.right)
    yield "missing_term", node.left
    yield "missing_term", node.right
    if isinstance(node.op, ORDERED):
        yield "swapped_operands", ast.BinOp(node.right, node.op, node.left)


def _boolean(node: ast.BoolOp) -> Iterator[Replacement]:
    yield "boolean", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for i, value in enumerate(node.values):
        rest = [*node.values[:i], *node.values[i + 1 :]]
        yield "missing_term", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        yield "negated_condition", ast.BoolOp(node.op, [*node.values[:i], negated(value), *node.values[i + 1 :]])


def _unary(node: ast.UnaryOp) -> Iterator[Replacement]:
    yield "negated_condition" if isinstance(node.op, ast.Not) else "sign", node.operand


def _conditional(node: ast.IfExp) -> Iterator[Replacement]:
    yield "negated_condition", ast.IfExp(negated(node.test), node.body, node.orelse)
    yield "missing_branch", node.body
    yield "missing_branch", node.orelse


def _subscript(node: ast.Subscript) -> Iterator[Replacement]:
    if isinstance(node.slice, ast.Slice):
        for changed in _slices(node.slice):
            yield "slice_bounds", ast.Subscript(node.value, changed, node.ctx)
    elif not isinstance(node.slice, (ast.Tuple, ast.Constant, ast.JoinedStr)) or integer(node.slice) is not None:
        literal = integer(node.slice)
        options = [plus(node.slice, -1), plus(node.slice, 1)]
        if literal is not None:
            options.append(number({0: -1, -1: 0}.get(literal, -literal)))
        for option in options:
            yield "index", ast.Subscript(node.value, option, node.ctx)


def _slices(s: ast.Slice) -> Iterator[ast.Slice]:
    if s.lower is not None:
        yield ast.Slice(None, s.upper, s.step)
        yield from (ast.Slice(plus(s.lower, amount), s.upper, s.step) for amount in (1, -1))
    elif s.step is None:
        yield ast.Slice(ast.Constant(1), s.upper, s.step)
    if s.upper is not None:
        yield ast.Slice(s.lower, None, s.step)
        yield from (ast.Slice(s.lower, plus(s.upper, amount), s.step) for amount in (1, -1))
    elif s.step is None and s.lower is not None:
        yield ast.Slice(s.lower, number(-1), s.step)
    if (s.lower is None) != (s.upper is None):
        yield ast.Slice(s.upper, s.lower, s.step)
    if s.step is not None:
        yield ast.Slice(s.lower, s.upper, None)
        if (step := integer(s.step)) is not None and abs(step) > 1:
            yield ast.Slice(s.lower, s.upper, number(step - 1))


def _sequence(node: ast.Tuple | ast.List) -> Iterator[Replacement]:
    if isinstance(node.ctx, ast.Load):
        for i in range(min(len(node.elts) - 1, 3)):
            swapped = [*node.elts[:i], node.elts[i + 1], node.elts[i], *node.elts[i + 2 :]]
            yield "swapped_values", type(node)(swapped, node.ctx)


def _comprehension(node: Any) -> Iterator[Replacement]:
    for i, generator in enumerate(node.generators):
        for j, test in enumerate(generator.ifs):
            for operator, ifs in (
                ("negated_condition", [*generator.ifs[:j], negated(test), *generator.ifs[j + 1 :]]),
                ("missing_condition", [*generator.ifs[:j], *generator.ifs[j + 1 :]]),
            ):
                changed = ast.comprehension(generator.target, generator.iter, ifs, generator.is_async)
                parts = {name: getattr(node, name) for name in node._fields}
                parts["generators"] = [*node.generators[:i], changed, *node.generators[i + 1 :]]
                yield operator, type(node)(**parts)


_HANDLERS: dict[type[ast.expr], Any] = {
    ast.Compare: _compare,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _unary,
    ast.IfExp: _conditional,
    ast.Subscript: _subscript,
    ast.Call: call_mistakes,
    ast.Tuple: _sequence,
    ast.List: _sequence,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
}
