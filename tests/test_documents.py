"""What the documents point to exists: files and folders of links, and paths in code spans."""

import ast
import re
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


def test_imports_of_analysis_go_down_the_list_of_its_folders() -> None:
    order = listed_rows(Path("analysis/__init__.py"))
    packages = {path.parent.name for path in Path("analysis").glob("*/__init__.py")}
    assert packages <= set(order), "every folder has its line"
    upwards = [
        f"{path} imports analysis.{imported}"
        for path in Path("analysis").rglob("*.py")
        if (own := path.relative_to("analysis").parts[0].removesuffix(".py")) in order
        for imported in re.findall(r"^\s*from analysis\.(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        if order.index(imported) < order.index(own)
    ]
    assert upwards == [], (
        "a folder imports from itself and from those below it in the docstring of analysis/__init__.py"
    )


def test_the_docstring_of_a_package_lists_its_modules_and_no_others() -> None:
    listed = {}
    for init in sorted([*Path("rmlab").rglob("__init__.py"), *Path("analysis").rglob("__init__.py")]):
        rows = set(listed_rows(init))
        modules = {path.stem for path in init.parent.glob("*.py")} - {"__init__"}
        packages = {path.parent.name for path in init.parent.glob("*/__init__.py")}
        listed[str(init)] = (sorted(rows - modules - packages), sorted(modules - rows))
    assert {init: wrong for init, wrong in listed.items() if wrong != ([], [])} == {}, (
        "in the docstring of that __init__.py: take out the modules that are gone (first list), "
        "add a line `name  what it does` for those that it lacks (second list)"
    )
