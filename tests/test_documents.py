"""What the documents point to exists: files and folders of links, and paths in code spans."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY

DOCUMENTS = sorted(
    path
    for path in [
        *REPOSITORY.glob("*.md"),
        *(
            p
            for top in ("analysis", "conf", "experiments", "rmlab", "sweeps")
            for p in (REPOSITORY / top).rglob("*.md")
        ),
    ]
    if path.name in ("README.md", "CONTRIBUTING.md")
)
TOP = ("analysis", "conf", "experiments", "hydra_plugins", "rmlab", "sweeps", "tests")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(rf"`((?:{'|'.join(TOP)})/[\w./*-]*)`")


def missing(document: Path) -> list[str]:
    """The paths that a document names and that are not there. A name in capitals (`NAME.yaml`) stands for many."""
    text = document.read_text(encoding="utf-8")
    links = [document.parent / target for target in LINK.findall(text) if "://" not in target]
    spans = [name for name in CODE.findall(text) if not re.search(r"\b[A-Z]{2,}\b(?!\.md)", name)]
    return [str(path) for path in links if not path.exists()] + [
        name for name in spans if not any(REPOSITORY.glob(name.rstrip("/")))
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_path_in_a_document_exists(document: Path) -> None:
    assert missing(document) == []


def test_a_path_that_is_gone_is_found(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "[a](b.md) [c](https://x.y/z) `rmlab/rl/loop.py` `rmlab/rl/none.py` `sweeps/NAME.yaml` `conf/rewards`"
    )
    assert missing(tmp_path / "README.md") == [str(tmp_path / "b.md"), "rmlab/rl/none.py", "conf/rewards"]


WRITTEN = sorted(
    path
    for top in TOP
    if top != "tests"
    for path in (REPOSITORY / top).rglob("*")
    if path.suffix in (".py", ".md", ".yaml")
)
MODULE = re.compile(r"(?<![\w./-])((?:rmlab|analysis|hydra_plugins)(?:\.[A-Za-z]\w*)+)")
FILE = re.compile(rf"(?<![\w./])((?:{'|'.join(TOP)})/[\w./-]*\.py)\b")


def gone(text: str) -> list[str]:
    """The modules (with what is looked for in them) and the Python files that a text names and that are not there."""
    files = [name for name in FILE.findall(text) if not re.search(r"\b[A-Z]{2,}\b", name)]
    modules = [name for name in MODULE.findall(text) if not is_there(name)]
    return modules + [name for name in files if not (REPOSITORY / name).exists()]


def is_there(name: str) -> bool:
    """Whether a dotted name is a package, a module, or the name of something whose word occurs in one."""
    place, (first, *inner) = REPOSITORY, name.split(".")
    for part in (first, *inner):
        if (place / part).is_dir() or (place / f"{part}.py").is_file():
            place /= part
        else:
            source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            return bool(re.search(rf"\b{part}\b", source.read_text(encoding="utf-8")))
    return True


def test_every_module_that_is_named_exists() -> None:
    """In the code with its docstrings and messages, in configurations and on all pages."""
    found = {str(path.relative_to(REPOSITORY)): gone(path.read_text(encoding="utf-8")) for path in WRITTEN}
    found["rmlab/trajectories/leakage.py"].remove("tests/a.py")  # an example
    assert {path: names for path, names in found.items() if names} == {}


def test_a_module_that_is_gone_is_found() -> None:
    text = "`rmlab.wording` rmlab.wording.listed rmlab.wording.unlisted `rmlab.metrics.none` analysis/none.py tests/NAME.py"
    assert gone(text) == ["rmlab.wording.unlisted", "rmlab.metrics.none", "analysis/none.py"]


def test_imports_follow_the_order_of_the_packages() -> None:
    """A package of rmlab/ imports from its own row of CONTRIBUTING's table or from rows above it."""
    table = (
        (REPOSITORY / "CONTRIBUTING.md")
        .read_text(encoding="utf-8")
        .partition("## The packages")[2]
        .partition("\n## ")[0]
    )
    rows = [re.findall(r"`rmlab/(\w+)", line.split("|")[1]) for line in table.splitlines() if line.startswith("| `")]
    place = {package: row for row, packages in enumerate(rows) for package in packages}
    assert {p.parent.name for p in (REPOSITORY / "rmlab").glob("*/__init__.py")} <= set(place), (
        "every package has its row"
    )
    upwards = [
        f"{path.relative_to(REPOSITORY)} imports rmlab.{imported}"
        for path in (REPOSITORY / "rmlab").rglob("*.py")
        if (package := path.relative_to(REPOSITORY / "rmlab").parts[0].removesuffix(".py")) in place
        for imported in re.findall(r"^\s*(?:from|import) rmlab\.(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        if place.get(imported, 0) > place[package]
    ]
    assert upwards == [], (
        "a package imports from its own row of CONTRIBUTING's table of packages, or from rows above it"
    )


def listed_rows(init: Path) -> list[str]:
    """The names of a package's docstring that have a line of their own."""
    return re.findall(r"^([a-z_0-9]+)  +\S", ast.get_docstring(ast.parse(init.read_text())) or "", re.MULTILINE)


IMPORT = re.compile(r"^\s*(?:from analysis import (\w+(?:, \w+)*)|(?:from|import) analysis\.(\w+))", re.MULTILINE)


def imported_of_analysis(text: str) -> set[str]:
    """The folders and modules that lie in `analysis` itself and that a source imports from."""
    return {name for several, one in IMPORT.findall(text) for name in [*several.split(", "), one] if name}


def test_imports_of_analysis_are_found_in_whatever_form() -> None:
    forms = (
        "from analysis.a import b",
        "    import analysis.c.d as e",
        "from analysis import f, g as h",
        "import analysis",
    )
    assert imported_of_analysis("\n".join(forms)) == {"a", "c", "f", "g"}


def test_imports_of_analysis_go_down_the_list_of_its_folders() -> None:
    analysis = REPOSITORY / "analysis"
    order = listed_rows(analysis / "__init__.py")
    packages = {path.parent.name for path in analysis.glob("*/__init__.py")}
    assert packages <= set(order), "every folder has its line"
    upwards = [
        f"{path.relative_to(REPOSITORY)} imports analysis.{imported}"
        for path in analysis.rglob("*.py")
        if (own := path.relative_to(analysis).parts[0].removesuffix(".py")) in order
        for imported in imported_of_analysis(path.read_text(encoding="utf-8"))
        if order.index(imported) < order.index(own)
    ]
    assert upwards == [], (
        "a folder imports from itself and from those below it in the docstring of analysis/__init__.py"
    )


def test_the_docstring_of_a_package_lists_its_modules_and_no_others() -> None:
    listed = {}
    for init in sorted(init for top in ("rmlab", "analysis") for init in (REPOSITORY / top).rglob("__init__.py")):
        rows = set(listed_rows(init))
        modules = {path.stem for path in init.parent.glob("*.py")} - {"__init__"}
        packages = {path.parent.name for path in init.parent.glob("*/__init__.py")}
        listed[str(init.relative_to(REPOSITORY))] = (sorted(rows - modules - packages), sorted(modules - rows))
    assert {init: wrong for init, wrong in listed.items() if wrong != ([], [])} == {}, (
        "in the docstring of that __init__.py: take out the modules that are gone (first list), "
        "add a line `name  what it does` for those that it lacks (second list)"
    )


OUTPUT = re.compile(r"rmlab [^`\n]*?\s(?:-o |--out |--html |output=)([a-z][\w./-]*)")


@pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="no clone")
def test_what_commands_on_pages_and_in_help_write_beside_the_readme_is_ignored_by_git() -> None:
    pages = [*DOCUMENTS, *(REPOSITORY / "rmlab" / "commands").glob("*.py")]
    written = {name for page in pages for name in OUTPUT.findall(page.read_text(encoding="utf-8"))}
    assert {"figures", "set.parquet", "runs.zip", "report.html", "few.parquet"} <= written
    beside = sorted(name for name in written if not name.startswith(("experiments/", "rmlab/")))
    # a folder is ignored as one, before it is there
    asked = "\n".join(name if "." in name else f"{name}/" for name in beside)
    answer = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"], input=asked, cwd=REPOSITORY, capture_output=True, text=True
    )
    assert answer.stdout.splitlines() == asked.splitlines()
