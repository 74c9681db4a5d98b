"""Which code does the starter base read? Functions and methods of installed, pinned packages, as plain text.

Plain = no docstrings, comments, annotations or decorators, formatted by `ast.unparse`: as tasks show their functions.
Tests are left out (they hold calls and values of functions that tasks are made from), and so is what does not parse.

Text that teaches what belongs on a line: a function with one line broken, and the edit that mends it.

Made from functions of packages alone, by the operators that also make bugs; nothing is run and nothing is labelled. The
form is an episode's first two turns without an issue: who reads episodes later has then seen many more functions.

None of them is, or nearly is, a function that must not be read. The rule is that of `rmlab.microswe.build.clusters`: equal syntax trees
after renaming, or token trigrams with a Jaccard overlap of at least 0.6. Trigrams are found through an index, and trees are only renamed
where their shape is that of a known one, so that a hundred thousand functions take a minute.
"""

import ast
import importlib.metadata
import importlib.util
import random
import re
import sys
import sysconfig
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rmlab.errors import DataError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.build import functions as task_functions
from rmlab.microswe.build.clusters import LEAST_OVERLAP, Trigram, renamed, trigrams
from rmlab.microswe.build.operators import mutants
from rmlab.microswe.build.resolution import Unusable, normalise
from rmlab.microswe.task import Task
from rmlab.models.tokenizer import IM_END, IM_START
from rmlab.trajectories.record import Split
from rmlab.verifiers.prompt import escape

HELD_OUT: tuple[Split, ...] = ("verifier", "validation", "rl", "evaluation")


def held_out_functions(tasks: Iterable[Task]) -> list[str]:
    """Texts of the functions of the held-out parts: every original, and the helpers that travel with it."""
    texts: dict[str, None] = {}
    for task in tasks:
        if task.part in HELD_OUT:
            for code in dict.fromkeys((task.original, task.context)):
                texts.update(
                    (ast.unparse(node), None) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)
                )
    return list(texts)


class NearCopies:
    """Knows functions by text; `found` says whether a function is a near copy of one of them."""

    def __init__(self, texts: Iterable[str]):
        known = [(text, ast.parse(text).body[0]) for text in texts]
        self._trees = {renamed(text) for text, _ in known}
        self._shapes = {_shape(tree) for _, tree in known}
        self._sizes: list[int] = []
        self._holders: dict[Trigram, list[int]] = defaultdict(list)
        for number, (text, _) in enumerate(known):
            grams = trigrams(text)
            self._sizes.append(len(grams))
            for gram in grams:
                self._holders[gram].append(number)

    def found(self, code: str, tree: ast.AST | None = None) -> bool:
        """Whether a function, or one nested in it, is a near copy.

        code: the text of one definition. tree: its syntax tree, where it is there already.
        """
        whole = tree or ast.parse(code).body[0]
        functions = [node for node in ast.walk(whole) if isinstance(node, ast.FunctionDef)]
        return any(self._is_copy(node, code if node is whole else ast.unparse(node)) for node in functions)

    def _is_copy(self, function: ast.FunctionDef, text: str) -> bool:
        own = trigrams(text)
        shared = Counter(number for gram in own for number in self._holders.get(gram, ()))
        if any(n >= LEAST_OVERLAP * (len(own) + self._sizes[number] - n) for number, n in shared.items()):
            return True
        return _shape(function) in self._shapes and renamed(text) in self._trees


def _shape(tree: ast.AST) -> int:
    """Of the kinds of nodes in their order, which renaming leaves as they are. Only compared within a process."""
    return hash(tuple(map(type, ast.walk(tree))))


STDLIB = "stdlib"
PACKAGES: tuple[str, ...] = (
    STDLIB,
    "algorithms",
    "boltons",
    "funcy",
    "more_itertools",
    "pydash",
    "sympy",
    "toolz",
    "PIL",
    "_pytest",
    "aiohttp",
    "alembic",
    "anyio",
    "attr",
    "click",
    "dateutil",
    "docker",
    "fontTools",
    "fsspec",
    "git",
    "graphql",
    "gunicorn",
    "huey",
    "hydra",
    "hypothesis",
    "jinja2",
    "joblib",
    "mako",
    "markdown_it",
    "matplotlib",
    "mpmath",
    "mypy",
    "narwhals",
    "networkx",
    "numpy",
    "omegaconf",
    "optuna",
    "packaging",
    "pandas",
    "pyasn1",
    "pycparser",
    "pygments",
    "pyparsing",
    "requests",
    "rich",
    "scipy",
    "sklearn",
    "sortedcontainers",
    "sqlalchemy",
    "sqlparse",
    "starlette",
    "tqdm",
    "typer",
    "urllib3",
    "werkzeug",
    "yaml",
)
"""Import names. torch and transformers are not among them: a machine may have its own builds of those."""

FEWEST_LINES, MOST_LINES, MOST_CHARACTERS = 3, 40, 1500
_NOT_READ = re.compile(
    r"(^|/)(tests?|testing|idlelib|tkinter|lib2to3|turtledemo|ensurepip|site-packages|benchmarks?|bench|vendor|"
    r"_vendor|_vendored_packages|externals?|protos?)(/|$)|(^|/)(test_|conftest)|_pb2"
)


@dataclass(frozen=True)
class Code:
    """A function: its syntax tree as it is in `text`, without what the plain text leaves out."""

    text: str
    tree: ast.FunctionDef


def functions(packages: Iterable[str], left_out: Counter[str]) -> Iterator[Code]:
    """Every function and method of the packages, each text once, in the order of packages and files.

    left_out: counts what is not taken, by reason. Raises DataError where a package is not installed.
    """
    seen: set[str] = set()
    for package in packages:
        for path in _files(package):
            try:
                tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
            except (SyntaxError, ValueError):
                left_out["a module that does not parse"] += 1
                continue
            for statement in _definitions(tree):
                code = _plain(statement, left_out)
                if code is None:
                    continue
                if code.text in seen:
                    left_out["repeated"] += 1
                    continue
                seen.add(code.text)
                yield code


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Import name to the version of the distribution that it comes from, and Python's own."""
    distributions = importlib.metadata.packages_distributions()
    found = {"python": sys.version.split()[0]}
    for package in packages:
        if package != STDLIB:
            names = distributions.get(package)
            if not names:
                raise DataError(
                    f"the package {package} is not installed: the text is built with the pinned set and the extra `tasks` "
                    "(pip install -c constraints.txt -e '.[dev,tasks]')"
                )
            found[package] = importlib.metadata.version(sorted(names)[0])
    return found


def _definitions(tree: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """Functions of a module and methods of its classes; what is nested in a function stays in it."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement
        elif isinstance(statement, ast.ClassDef):
            yield from _definitions(statement)


def _plain(statement: ast.FunctionDef, left_out: Counter[str]) -> Code | None:
    if (statement.end_lineno or 0) - statement.lineno > 10 * MOST_LINES:
        left_out["too long"] += 1
        return None
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.decorator_list = []
    try:
        text = normalise(statement, in_place=True)
        tree = ast.parse(text).body[0]
    except (Unusable, SyntaxError) as reason:  # unparsed text may not parse: a lone surrogate, a nested f-string
        left_out[str(reason) if isinstance(reason, Unusable) else "its plain text does not parse"] += 1
        return None
    lines = text.count("\n") + 1
    if not FEWEST_LINES <= lines <= MOST_LINES or len(text) > MOST_CHARACTERS:
        left_out["too short" if lines < FEWEST_LINES else "too long"] += 1
        return None
    assert isinstance(tree, ast.FunctionDef)
    return Code(text, tree)


def _files(package: str) -> list[Path]:
    if package == STDLIB:
        folder = Path(sysconfig.get_paths()["stdlib"])
    else:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise DataError(
                f"the package {package} is not installed: the text is built with the pinned set and the extra `tasks`"
            )
        if not spec.submodule_search_locations:
            return [Path(spec.origin)]
        folder = Path(next(iter(spec.submodule_search_locations)))
    return [p for p in sorted(folder.rglob("*.py")) if not _NOT_READ.search(p.relative_to(folder).as_posix())]


LINES_TRIED = 3


def as_long_as_a_task(code: str) -> bool:
    """Whether the function has a length that functions of tasks may have (`rmlab.microswe.build.functions`)."""
    lines = code.count("\n") + 1
    return (
        task_functions.FEWEST_LINES <= lines <= task_functions.MOST_LINES
        and len(code) <= task_functions.MOST_CHARACTERS
    )


def repairs(codes: Iterable[Code], forbidden: NearCopies, number: int) -> Iterator[str]:
    """One text a function, of at most `number` functions, drawn by a hash of their text."""
    fitting = [c.text for c in codes if as_long_as_a_task(c.text)]
    for text in sorted(fitting, key=lambda code: fingerprint(["repair", code]))[:number]:
        mended = repair(text, forbidden)
        if mended is not None:
            yield mended


def repair(code: str, forbidden: NearCopies) -> str | None:
    """The broken function with numbered lines, and `edit N: line`; None where no operator applies or a near copy comes out."""
    drawn = random.Random(int(fingerprint(code), 16))
    lines = code.split("\n")
    tried = drawn.sample(range(1, len(lines) + 1), min(LINES_TRIED, len(lines)))
    by_operator: dict[str, list[tuple[int, str]]] = {}
    for mutant in mutants(code, tried):
        by_operator.setdefault(mutant.operator, []).append((mutant.line, mutant.code))
    if not by_operator:
        return None
    line, broken = drawn.choice(by_operator[drawn.choice(sorted(by_operator))])
    if forbidden.found(broken):
        return None
    numbered = "\n".join(f"{n} {text}" for n, text in enumerate(broken.split("\n"), start=1))
    turns = (("user", numbered), ("assistant", f"edit {line}: {lines[line - 1].strip()}"))
    return "".join(f"{IM_START}{role}\n{escape(content)}{IM_END}\n" for role, content in turns)
