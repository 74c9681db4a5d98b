"""The views are a state of the UI's own page, which it promises to nobody: every word of it has to be one that the UI still knows."""

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest

from rmlab.tracking.views import PREFIX, view_tags

SCRIPTS = Path(mlflow.__file__).parent / "server" / "js" / "build" / "static" / "js"


def states() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each view's tag as the UI reads it."""
    for tag in view_tags().values():
        view = json.loads(tag)
        way, _, packed = view["state"].partition(";")
        assert way == "deflate"
        yield view["name"], json.loads(zlib.decompress(base64.b64decode(packed)))


def words(tree: Any) -> set[str]:
    """The keys of a state, of all that is in it."""
    if isinstance(tree, list):
        return {word for one in tree for word in words(one)}
    return {*tree, *(word for one in tree.values() for word in words(one))} if isinstance(tree, dict) else set()


def test_the_ui_knows_every_word_of_a_view() -> None:
    if not SCRIPTS.is_dir():
        pytest.skip("this MLflow has no UI beside it (mlflow-skinny)")
    ui = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in SCRIPTS.glob("*.js"))
    known = set(re.findall(r"\w+", ui))
    used = {word for _, state in states() for word in words(state)} | {"viewStateShareKey", "deflate"}
    assert len(used) > 40
    assert used - known == set(), "the state of the page has other keys now: rmlab/tracking/views.py has to follow"
    for text in (
        PREFIX.removesuffix("."),
        '"deflate;',
        *json.dumps(["LINE", "BAR", "SHOWALL", "average"])[1:-1].split(", "),
    ):
        assert text in ui or text.strip('"') in known, text
