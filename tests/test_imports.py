"""How the modules know one another: all of rmlab can be imported, and none, nor a package, is in a circle with others."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY

ALL = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        print(f"{name}: {type(error).__name__}: {error}", flush=True)
"""


@cache
def modules(*folders: str) -> dict[str, ast.Module]:
    """Every module of these folders, of the library where none is named, parsed."""
    found = {}
    for folder in folders or ("rmlab",):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            name = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(tree: ast.Module) -> Iterator[str]:
    """Dotted names that a module imports when it is imported, later, or for type checkers alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def edges() -> dict[str, set[str]]:
    """Which module imports which: those of the library, and those that it starts or is started by."""
    known = modules("rmlab", "analysis", "experiments/programs", "hydra_plugins")
    found: dict[str, set[str]] = {name: set() for name in known}
    for name, tree in known.items():
        for other in imported(tree):
            while other and other not in known:
                other = other.rpartition(".")[0]
            if other not in ("", "rmlab", name):
                found[name].add(other)
    return found


def package(module: str) -> str:
    """`rmlab.sweep` of `rmlab.sweep.plan`; a module that lies in `rmlab` or `analysis` itself is one of its own."""
    top, *inner = module.split(".")
    return f"{top}.{inner[0]}" if inner and top in ("rmlab", "experiments", "analysis") else top


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """The modules of one circle, [] where there is none."""
    clear: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in clear:
            return []
        for other in sorted(graph[name]):
            if found := walk(other, [*way, name]):
                return found
        clear.add(name)
        return []

    return next((found for name in sorted(graph) if (found := walk(name, []))), [])


def test_no_module_imports_in_a_circle_and_no_late_import_hides_one() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()}) == ["a", "b", "c", "a"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    assert circle(edges()) == []


def test_no_package_imports_in_a_circle() -> None:
    packages: dict[str, set[str]] = {package(name): set() for name in edges()}
    for name, others in edges().items():
        packages[package(name)] |= {package(other) for other in others} - {package(name)}
    assert circle(packages) == []


NEEDS = {"rmlab.models.decoder_kernels": "triton"}
"""Modules of what torch brings along for CUDA devices alone."""


@pytest.mark.slow
def test_every_module_can_be_imported() -> None:
    """In one process: as there is no circle, not even of late imports, none depends on another having been imported first."""
    there = [name for name in modules() if name not in NEEDS or find_spec(NEEDS[name])]
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ALL, *there], capture_output=True, text=True, cwd=REPOSITORY
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == ""


def test_no_module_gives_a_name_of_its_own_twice() -> None:
    twice = []
    for module, tree in modules().items():
        given: list[str] = []
        for statement in tree.body:
            match statement:
                case ast.FunctionDef() | ast.ClassDef():
                    given.append(statement.name)
                case ast.Assign():
                    given += [n.id for target in statement.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
        twice += [f"{module}: {name}" for name in sorted({n for n in given if given.count(n) > 1})]
    assert twice == []


def test_a_class_name_stands_once() -> None:
    """Two classes of one name are two ideas under one word: a reader who searches for it lands in the wrong one."""
    where: dict[str, list[str]] = {}
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, []).append(f"{name}:{node.lineno}")
    assert {name: places for name, places in where.items() if len(places) > 1} == {}


def test_what_lies_beside_the_library_is_imported_by_name_from_any_folder(tmp_path: Path) -> None:
    """As installed packages: importing rmlab changes nobody's import path. A folder of the same name does not take their place."""
    (tmp_path / "experiments").mkdir()
    code = (
        "import sys; before = list(sys.path)\n"
        "import rmlab; assert sys.path == before\n"
        "import experiments.programs.rl, analysis.sweep.tracked, hydra_plugins.rmlab_sweeper as sweeper; print(sweeper.__file__)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (answer.stdout, answer.stderr) == (f"{REPOSITORY / 'hydra_plugins' / 'rmlab_sweeper.py'}\n", "")
