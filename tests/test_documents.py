"""What the documents point to exists: files and folders of links, and paths in code spans."""

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
