"""Which texts are one small mistake away from this function? Every mutant differs from it in exactly one line.

The same operators make the bugs of tasks, propose a scripted agent's repairs, and say how weak a public call is. Most
can be undone by another (`<` and `<=`, `n` and `n - 1`); what was taken away (a statement, a call, a term) cannot.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rmlab.microswe.build.expressions import negated
from rmlab.microswe.build.replacements import ARITHMETIC, replacements

_BLOCKS = {"body", "orelse", "finalbody", "handlers", "cases"}
_SKIPPED = {"decorator_list", "returns", "annotation", "type_comment", "type_params"}
_SIMPLE = (
    ast.Assign,
    ast.AugAssign,
    ast.Expr,
    ast.Return,
    ast.Delete,
    ast.Raise,
    ast.Continue,
    ast.Break,
    ast.Assert,
    ast.AnnAssign,
)
_COMPOUND = (ast.If, ast.While, ast.For, ast.With, ast.FunctionDef)
_SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.ClassDef,
)


@dataclass(frozen=True)
class Mutant:
    """A whole text with one line changed. line: 1-based. operator: the name of the mistake."""

    code: str
    line: int
    operator: str


def mutants(code: str, lines: Sequence[int] | None = None) -> list[Mutant]:
    """Every one-line mistake that the operators make in a function's text, by line, each text once.

    code: one or more function definitions. lines: 1-based lines to change, None = all. Statements that share a line or
    reach over several are left alone; in any other formatting than `ast.unparse`'s, the changed line takes that one.
    Raises SyntaxError where the code does not parse.
    """
    tree = ast.parse(code)
    text = code.split("\n")
    nodes = _walked(tree)
    strings = list(dict.fromkeys(n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)))
    begun = Counter(n.lineno for n in nodes if isinstance(n, ast.stmt))
    changes: list[Mutant] = []
    seen = {code}
    wanted = None if lines is None else set(lines)
    for statement, variables in sorted(_statements(tree.body, ()), key=lambda pair: pair[0].lineno):
        number = statement.lineno
        if (wanted is not None and number not in wanted) or not _stands_alone(statement, begun):
            continue
        old = text[number - 1]
        indent = old[: len(old) - len(old.lstrip())]
        for operator, new in _changed_lines(statement, variables, strings, old.lstrip().startswith("elif")):
            if "\n" in new:
                continue
            changed = "\n".join([*text[: number - 1], indent + new, *text[number:]])
            if changed not in seen and new != old.strip():
                seen.add(changed)
                changes.append(Mutant(changed, number, operator))
    return changes


def _walked(tree: ast.AST) -> list[ast.AST]:
    """As `ast.walk`, without the contexts of names, in a third of its time: scripts ask for mutants of every program they write."""
    nodes = [tree]
    for node in nodes:
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                nodes += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and field != "ctx":
                nodes.append(value)
    return nodes


def _statements(body: Sequence[ast.stmt], outer: tuple[str, ...]) -> Iterator[tuple[ast.stmt, tuple[str, ...]]]:
    """Statements with the variables that are bound at them, in the order of binding."""
    for statement in body:
        yield from _statement(statement, outer, {})


def _statement(
    statement: ast.stmt, outer: tuple[str, ...], bound: dict[str, int]
) -> Iterator[tuple[ast.stmt, tuple[str, ...]]]:
    here = [*outer, *(name for name, line in bound.items() if line < statement.lineno and name not in outer)]
    yield statement, tuple(here)
    if isinstance(statement, ast.FunctionDef):
        inner = _bindings(statement)
        for child in statement.body:
            yield from _statement(child, tuple(here), inner)
    elif not isinstance(statement, (ast.ClassDef, ast.AsyncFunctionDef)):
        for field in _BLOCKS:
            for child in getattr(statement, field, []):
                if isinstance(child, ast.stmt):
                    yield from _statement(child, outer, bound)
                else:  # an except handler or a case of a match
                    for grandchild in child.body:
                        yield from _statement(grandchild, outer, bound)


def _bindings(function: ast.FunctionDef) -> dict[str, int]:
    """Names a function binds itself (parameters, assignments) and the line of their first binding."""
    a = function.args
    names = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs, *([a.kwarg] if a.kwarg else [])]
    bound = {argument.arg: function.lineno for argument in names}
    stores: list[ast.Name] = []
    visited: list[ast.AST] = [function]
    for node in visited:
        for field in node._fields:
            value = getattr(node, field, None)
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, ast.Name):
                    if isinstance(child.ctx, ast.Store):
                        stores.append(child)
                elif isinstance(child, ast.AST) and not isinstance(child, _SCOPES):
                    visited.append(child)
    for name in sorted(stores, key=lambda n: (n.lineno, n.col_offset)):
        bound.setdefault(name.id, name.lineno)
    return bound


def _stands_alone(statement: ast.stmt, begun: Mapping[int, int]) -> bool:
    """begun: how many statements begin on each line."""
    if isinstance(statement, _COMPOUND):
        head: Any = statement
        last = max(
            (n.end_lineno or 0 for part in _head_parts(head) for n in [part] if hasattr(n, "end_lineno")),
            default=statement.lineno,
        )
        return last <= statement.lineno < statement.body[0].lineno
    if not isinstance(statement, _SIMPLE) or statement.end_lineno != statement.lineno:
        return False
    return begun[statement.lineno] == 1


def _head_parts(statement: ast.stmt) -> Iterator[ast.AST]:
    for field, value in ast.iter_fields(statement):
        if field not in _BLOCKS and field not in _SKIPPED:
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    yield part
                    yield from (n for n in ast.walk(part) if isinstance(n, ast.expr))


def _changed_lines(
    statement: ast.stmt, variables: tuple[str, ...], strings: list[str], is_elif: bool
) -> Iterator[tuple[str, str]]:
    """(operator, the new line without its indentation), one for each mistake in the statement or its head."""
    if isinstance(statement, (ast.If, ast.While)):
        old = statement.test
        statement.test = negated(old)
        yield "negated_condition", _render(statement, is_elif)
        statement.test = old
    for holder, field, place, node, names in _sites(statement, variables):
        for operator, new in replacements(node, names, strings):
            _put(holder, field, place, new)
            yield operator, _render(statement, is_elif)
        _put(holder, field, place, node)
    for operator, replaced in _other_statements(statement, variables):
        yield operator, ast.unparse(ast.fix_missing_locations(replaced))


def _put(holder: ast.AST, field: str, place: int | None, node: ast.AST) -> None:
    if place is None:
        setattr(holder, field, node)
    else:
        getattr(holder, field)[place] = node


def _render(statement: ast.stmt, is_elif: bool) -> str:
    if not isinstance(statement, _COMPOUND):
        return ast.unparse(statement)
    kept = {field: getattr(statement, field) for field in (*_BLOCKS, "decorator_list") if hasattr(statement, field)}
    for field in kept:
        setattr(statement, field, [ast.Pass()] if field == "body" else [])
    try:
        head = ast.unparse(statement).split("\n")
    finally:
        for field, value in kept.items():
            setattr(statement, field, value)
    return ("el" if is_elif else "") + "\n".join(head[:-1])


def _sites(
    node: ast.AST, variables: tuple[str, ...]
) -> Iterator[tuple[ast.AST, str, int | None, ast.expr, tuple[str, ...]]]:
    """Every expression of a statement's head: who holds it, in which field and place, and the variables it may use."""
    if isinstance(node, ast.JoinedStr):
        return
    names = (*variables, *(name for name in _own_names(node) if name not in variables))
    for field, value in ast.iter_fields(node):
        if field in _SKIPPED or (field in _BLOCKS and isinstance(node, (ast.stmt, ast.ExceptHandler))):
            continue
        for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.expr):
                yield node, field, place, child, names
            if not (isinstance(child, ast.UnaryOp) and isinstance(child.operand, ast.Constant)):  # -1 is one literal
                yield from _sites(child, names)


def _own_names(node: ast.AST) -> Iterator[str]:
    """Variables that a lambda or a comprehension binds for itself."""
    if isinstance(node, ast.Lambda):
        yield from (a.arg for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        for generator in node.generators:
            yield from (n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name))


def _other_statements(statement: ast.stmt, variables: tuple[str, ...]) -> Iterator[tuple[str, ast.stmt]]:
    """Mistakes that replace a whole simple statement."""
    match statement:
        case ast.Assign(targets=[target], value=value):
            if not isinstance(target, ast.Name) or target.id in variables:
                yield "dropped_statement", ast.Pass()
            if isinstance(target, (ast.Name, ast.Subscript)):
                yield "early_return", ast.Return(value)
            if isinstance(target, ast.Name) and target.id in variables and not isinstance(value, ast.Constant):
                yield "augmented", ast.AugAssign(target, ast.Add(), value)
        case ast.AugAssign(target=target, op=op, value=value):
            yield "dropped_statement", ast.Pass()
            yield "augmented", ast.Assign([target], value)
            for other in ARITHMETIC.get(type(op), ()):
                yield "arithmetic", ast.AugAssign(target, other(), value)
        case ast.Expr(value=ast.Call() as call):
            yield "dropped_statement", ast.Pass()
            yield "early_return", ast.Return(call)
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()) | ast.Delete() | ast.Raise() | ast.Assert():
            yield "dropped_statement", ast.Pass()
        case ast.Return(value=value) if value is not None:
            yield "dropped_statement", ast.Pass()
            for name in variables[-3:]:
                yield "wrong_variable", ast.Return(ast.Name(name, ast.Load()))
        case ast.Continue():
            yield "loop_control", ast.Break()
            yield "dropped_statement", ast.Pass()
        case ast.Break():
            yield "loop_control", ast.Continue()
            yield "dropped_statement", ast.Pass()
