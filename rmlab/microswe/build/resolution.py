"""Is a function self-contained, and what text must travel with it?

Modules are read, never imported. A free name is resolved to a builtin, a harmless module of the standard library, or a
definition of the same distribution, whose text joins the context; anything else makes the function unusable, with the
reason. What a name means is decided by the first binding at the top of its module.
"""

import ast
import builtins
import re
import symtable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

_SAFE_MODULES = (
    "abc array base64 binascii bisect calendar cmath collections collections.abc copy dataclasses decimal enum fractions "
    "functools heapq html itertools keyword math numbers operator re statistics string struct textwrap types "
    "unicodedata"
)
SAFE_MODULES = frozenset(_SAFE_MODULES.split())
"""Modules of the standard library that a function may use: no files, no clock, no chance, no processes."""

_UNSAFE_NAMES = (
    "__import__ breakpoint compile delattr dir eval exec exit globals hash help id input locals memoryview open print "
    "quit setattr super vars __file__ __name__ __builtins__"
)
UNSAFE_NAMES = frozenset(_UNSAFE_NAMES.split())
LARGEST_CLASS = 4  # statements in a helper class
_BUILTINS = frozenset(dir(builtins))


class Unusable(Exception):
    """The function cannot become a task; the message is the reason, a few words that can be counted."""


@dataclass(frozen=True)
class Module:
    """One module's text. package: the distribution's import name, within which names may be followed."""

    name: str
    package: str
    text: str
    is_package: bool = False
    folder: Path | None = None

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree. Raises SyntaxError for a text that this Python cannot read."""
        return ast.parse(self.text)

    @cached_property
    def bindings(self) -> dict[str, ast.stmt]:
        """Top-level name to the statement that first binds it. Names bound by several assignments are left out."""
        found: dict[str, ast.stmt] = {}
        assigned: list[str] = []
        for statement in _top_level(self.tree.body):
            if isinstance(statement, ast.FunctionDef) and any(
                "overload" in ast.unparse(d) for d in statement.decorator_list
            ):
                continue  # the one without the decorator is the function
            for name in _bound_names(statement):
                if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                    assigned.append(name)
                found.setdefault(name, statement)
        for name in {name for name in assigned if assigned.count(name) > 1}:
            if isinstance(found[name], (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                del found[name]
        return found

    @cached_property
    def stars(self) -> list[ast.ImportFrom]:
        """The module's `from x import *`."""
        return [s for s in _top_level(self.tree.body) if isinstance(s, ast.ImportFrom) and s.names[0].name == "*"]


def _top_level(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements of a module's top, those of the first branch of try and if among them (not of TYPE_CHECKING)."""
    found: list[ast.stmt] = []
    for statement in body:
        match statement:
            case ast.Try(body=inner):
                found += _top_level(inner)
            case ast.If(test=test, body=inner) if not re.search("TYPE_CHECKING|__name__", ast.unparse(test)):
                found += _top_level(inner)
            case _:
                found.append(statement)
    return found


def _bound_names(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Import(names=names):
            return [a.asname or a.name.split(".")[0] for a in names]
        case ast.ImportFrom(names=names):
            return [a.asname or a.name for a in names if a.name != "*"]
        case ast.Assign(targets=targets):
            return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            return [name]
    return []


def free_names(text: str) -> set[str]:
    """Names that a text of definitions takes from outside: globals of its functions and of its defaults.

    Raises Unusable where it writes globals.
    """
    free: set[str] = set()
    table = symtable.symtable(text, "text", "exec")
    symbols = table.get_symbols()
    own = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    free |= {s.get_name() for s in symbols if s.is_referenced()} - own
    stack = list(table.get_children())
    while stack:
        scope = stack.pop()
        stack += scope.get_children()
        for symbol in scope.get_symbols():
            if symbol.is_declared_global() and symbol.is_assigned():
                raise Unusable("writes a global")
            if symbol.is_global():
                free.add(symbol.get_name())
    return free - own


@dataclass
class Resolver:
    """Follows names within a set of modules. modules: by dotted name; `normalise` gives a definition's plain text."""

    modules: dict[str, Module]
    most_lines: int = 60
    _context: dict[str, str] = field(default_factory=dict)

    def context_of(self, module: Module, function: ast.FunctionDef, text: str) -> str:
        """Imports and definitions that `text` (the normal form of `function`) needs before it. Raises Unusable."""
        self._context = {}
        pending = {function.name}
        for name in sorted(free_names(text)):
            self._need(name, module, pending)
        if function.name in self._context:
            raise Unusable("its name is taken in the context")
        imports = sorted({t for t in self._context.values() if t.startswith(("import ", "from "))})
        context = "\n".join([*imports, *(t for t in self._context.values() if not t.startswith(("import ", "from ")))])
        if context.count("\n") >= self.most_lines:
            raise Unusable("long context")
        return context

    def _need(self, name: str, module: Module, pending: set[str]) -> None:
        if name in pending or name in self._context:
            return
        statement, home, there = self._find(name, module)
        if statement is None or home is None:
            if name in UNSAFE_NAMES:
                raise Unusable(f"uses {name}")
            if name not in _BUILTINS:
                raise Unusable("unknown name")
            return
        pending = pending | {name}
        match statement:
            case ast.Import(names=names):
                alias = next(a for a in names if (a.asname or a.name.split(".")[0]) == there)
                if alias.name not in SAFE_MODULES or ("." in alias.name and not alias.asname and there != name):
                    raise Unusable(f"imports {alias.name.split('.')[0]}" if "." not in name else "imports a module")
                self._context[name] = "import " + alias.name + _called(name, alias if there == name else None)
            case ast.ImportFrom(module=source, names=names):
                alias = next(a for a in names if (a.asname or a.name) == there)
                if source not in SAFE_MODULES or statement.level:
                    raise Unusable(f"imports {(source or '.').split('.')[0]}")
                self._context[name] = f"from {source} import {alias.name}" + _called(
                    name, alias if there == name else None
                )
            case ast.FunctionDef() | ast.ClassDef() | ast.Assign() | ast.AnnAssign():
                self._define(name, statement, home, pending)
            case _:
                raise Unusable("a helper that is not a definition")

    def _define(self, name: str, statement: ast.stmt, home: Module, pending: set[str]) -> None:
        if isinstance(statement, ast.ClassDef) and len(statement.body) > LARGEST_CLASS:
            raise Unusable("needs a class")
        text = normalise(statement)
        if isinstance(statement, ast.ClassDef) and text.count("\n") > 12:
            raise Unusable("needs a class")
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and (
            len(text) > 600 or len(_bound_names(statement)) != 1
        ):
            raise Unusable("needs a large constant")
        for other in sorted(free_names(text)):
            self._need(other, home, pending)
        own = _bound_names(statement)[0]
        for key, value in ((own, text), *(((name, f"{name} = {own}"),) if own != name else ())):
            if self._context.setdefault(key, value) != value:
                raise Unusable("two helpers of one name")

    def _find(self, name: str, module: Module, depth: int = 0) -> tuple[ast.stmt | None, Module | None, str]:
        """The statement that defines a name, its module, and the name there, followed through imports within the package."""
        statement = module.bindings.get(name)
        if statement is None:
            for star in module.stars:
                source = self.modules.get(absolute(star, module))
                if source is not None and source.package == module.package and depth < 6:
                    found = self._find(name, source, depth + 1)
                    if found[0] is not None:
                        return found
            return None, None, name
        if isinstance(statement, ast.ImportFrom) and depth < 6:
            source = self.modules.get(absolute(statement, module))
            alias = next(a for a in statement.names if (a.asname or a.name) == name)
            followed = statement.level or (source is not None and source.name not in SAFE_MODULES)
            if source is not None and source.package == module.package and source is not module and followed:
                found = self._find(alias.name, source, depth + 1)
                if found[0] is None:
                    raise Unusable("needs a module of its package")
                return found
        return statement, module, name


def _called(name: str, alias: ast.alias | None) -> str:
    """What follows an import that shall bind `name`. alias: as it was written, None where another module called it otherwise."""
    called = alias.asname if alias is not None else name
    return f" as {called}" if called else ""


def absolute(statement: ast.ImportFrom, module: Module) -> str:
    """The dotted name of the module that a `from ... import` reads."""
    if not statement.level:
        return statement.module or ""
    parts = module.name.split(".")
    drop = statement.level - (1 if module.is_package else 0)
    base = parts[: len(parts) - drop] if drop else parts
    return ".".join([*base, *([statement.module] if statement.module else [])])


_PLAIN_DECORATORS = {
    "lru_cache", "cache", "functools.lru_cache", "functools.cache", "lru_cache(maxsize=None)",
    "functools.lru_cache(maxsize=None)", "wraps(func)", "wraps(f)", "staticmethod",
}  # fmt: skip
_MARKS = {"public"}  # decorators that only register a name


def normalise(statement: ast.stmt, in_place: bool = False) -> str:
    """A definition's plain text: no docstrings, comments or annotations, formatted by `ast.unparse`.

    in_place: takes them out of the statement itself, which is half the work.
    Raises Unusable for decorators whose effect is not known, for async and for empty bodies.
    """
    plain = _Plain().visit(statement if in_place else deepcopy(statement))
    return ast.unparse(ast.fix_missing_locations(plain))


class _Plain(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [d for d in node.decorator_list if ast.unparse(d) not in _MARKS]
        for decorator in node.decorator_list:
            if ast.unparse(decorator) not in _PLAIN_DECORATORS:
                raise Unusable("decorated")
        node.returns = None
        node.type_comment = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        self._strip(node)
        if not node.body:
            raise Unusable("empty")
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._strip(node)
        node.body = node.body or [ast.Pass()]
        self.generic_visit(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        raise Unusable("async")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return self.generic_visit(ast.Assign([node.target], node.value))

    @staticmethod
    def _strip(node: ast.FunctionDef | ast.ClassDef) -> None:
        node.body = [s for s in node.body if not _is_text(s)]


def _is_text(statement: ast.stmt) -> bool:
    """A docstring, or a string that stands for a comment."""
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False
