"""With which arguments do a function's own documentation and tests call it?

Calls are read from doctests and from the texts of tests, never run. What a call refers to (a variable set before it, a
one-line function) is put in its place, so that every example is a self-contained argument tuple as Python source.
"""

import ast
import doctest
from collections.abc import Iterable, Iterator
from copy import deepcopy

from rmlab.microswe.build.functions import Function

_SAFE = (
    "abs all any bool bytearray bytes chr complex dict divmod enumerate filter float frozenset int isinstance iter len "
    "list map max min next object ord pow range repr reversed round set slice sorted str sum tuple zip ValueError TypeError "
    "KeyError IndexError nan inf Fraction Decimal deque Counter OrderedDict defaultdict"
)
SAFE_NAMES = frozenset(_SAFE.split())
"""What an argument may refer to: harmless builtins and the names that the sandbox gives to inputs."""

_STAND_INS = {
    "add": "lambda a, b: a + b",
    "sub": "lambda a, b: a - b",
    "mul": "lambda a, b: a * b",
    "neg": "lambda x: -x",
    "eq": "lambda a, b: a == b",
    "lt": "lambda a, b: a < b",
    "gt": "lambda a, b: a > b",
    "identity": "lambda x: x",
    "inc": "lambda x: x + 1",
    "dec": "lambda x: x - 1",
    "double": "lambda x: 2 * x",
    "iseven": "lambda x: x % 2 == 0",
    "even": "lambda x: x % 2 == 0",
    "odd": "lambda x: x % 2 == 1",
    "isodd": "lambda x: x % 2 == 1",
    "truediv": "lambda a, b: a / b",
    "is_even": "lambda x: x % 2 == 0",
    "is_odd": "lambda x: x % 2 == 1",
    "ZZ": "int",
    "S": "int",
    "Integer": "int",
}
"""Names that documentation uses without defining them, as plain Python that means the same to these functions."""

LONGEST = 120
MOST = 40


def examples(function: Function, tests: dict[str, str]) -> list[str]:
    """Argument tuples of the calls in the docstring, then in the tests, each once; at most MOST."""
    signature = signature_of(function.code)
    sources: dict[str, None] = {}
    for text in (*_doctests(function.documentation), *(tests[key] for key in function.tests)):
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue  # a doctest of a fault, or of another Python: no call can be read from it
        for call, known in _calls(tree.body, function.entry, {}):
            source = _arguments(call, signature, known)
            if source is not None:
                sources.setdefault(source)
            if len(sources) == MOST:
                return list(sources)
    return list(sources)


def signature_of(code: str) -> ast.arguments:
    """The parameters of the first function in a text."""
    function = ast.parse(code).body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.args


def _doctests(documentation: str) -> list[str]:
    try:
        parsed = doctest.DocTestParser().get_examples(documentation)
    except ValueError:
        return []  # a docstring that is no doctest
    together = "".join(example.source for example in parsed)
    try:
        ast.parse(together)
        return [together]
    except SyntaxError:
        return [example.source for example in parsed]


Known = dict[str, ast.expr]


def _calls(body: Iterable[ast.stmt], entry: str, known: Known) -> Iterator[tuple[ast.Call, Known]]:
    """Calls of `entry` in order, each with what the plain names are known to stand for there."""
    known = dict(known)
    for statement in body:
        match statement:
            case ast.FunctionDef(
                name=name, args=arguments, body=[ast.Return(value=ast.expr() as value)], decorator_list=[]
            ):
                arguments = deepcopy(arguments)
                for a in ast.walk(arguments):
                    if isinstance(a, ast.arg):
                        a.annotation = None
                known[name] = ast.Lambda(arguments, value)
        for node in ast.walk(statement) if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else ():
            match node:
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name == entry:
                    yield node, known
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                known[name] = value
            case ast.FunctionDef(body=inner) | ast.ClassDef(body=inner):
                yield from _calls(inner, entry, known)


class _Substitute(ast.NodeTransformer):
    def __init__(self, known: Known):
        self.known = known
        self.bound: list[str] = []
        self.depth = 0

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        names = [a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)]
        self.bound += names
        self.generic_visit(node)
        del self.bound[len(self.bound) - len(names) :]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in ("operator", "op") and node.attr in _STAND_INS:
            return ast.parse(_STAND_INS[node.attr], mode="eval").body
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.bound or not isinstance(node.ctx, ast.Load):
            return node
        if node.id in self.known and self.depth < 4:
            self.depth += 1
            changed: ast.AST = self.visit(deepcopy(self.known[node.id]))
            self.depth -= 1
            return changed
        if node.id in _STAND_INS:
            return ast.parse(_STAND_INS[node.id], mode="eval").body
        return node


def _arguments(call: ast.Call, signature: ast.arguments, known: Known) -> str | None:
    """The call's arguments as one positional tuple, None where they do not stand for themselves."""
    names = [a.arg for a in [*signature.posonlyargs, *signature.args]]
    values: list[ast.expr] = list(call.args)
    if any(isinstance(v, ast.Starred) for v in values):
        return None
    given = {k.arg: k.value for k in call.keywords}
    defaults = dict(zip(names[len(names) - len(signature.defaults) :], signature.defaults, strict=True))
    for name in names[len(values) :]:
        if name in given:
            values.append(given.pop(name))
        elif given and name in defaults:
            values.append(defaults[name])
        elif given:
            return None
    if given or not values:
        return None
    substituted = _Substitute(known).visit(ast.Tuple([deepcopy(v) for v in values], ast.Load()))
    source = ast.unparse(ast.fix_missing_locations(substituted))
    return source if len(source) <= LONGEST and stands_alone(source) else None


def stands_alone(source: str) -> bool:
    """Whether an argument tuple refers to nothing but literals, its own lambdas and SAFE_NAMES."""
    tree = ast.parse(source, mode="eval")
    nodes = list(ast.walk(tree))
    bound = {n.arg for n in nodes if isinstance(n, ast.arg)}
    bound |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    known = all(n.id in SAFE_NAMES or n.id in bound for n in nodes if isinstance(n, ast.Name))
    return known and not any(isinstance(n, ast.Attribute) and n.attr.startswith("_") for n in nodes)
