"""Readers register themselves: a new one is one file, and the help names it without importing anything slow."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rmlab.cli import app
from rmlab.paths import REPOSITORY
from rmlab.trajectories import readers
from rmlab.trajectories.readers import registry
from rmlab.trajectories.readers.protocol import REGISTERED, register

READER = """
from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.readers.protocol import register
from rmlab.trajectories.record import Message

@register(order=35)
class Diary:
    name = "diary"

    def matches(self, document):
        return isinstance(document, dict) and "dear diary" in document

    def read(self, document, location):
        messages = [Message("assistant", document["dear diary"])]
        return Draft(location, self.name, "a task", "", messages, None, "submitted")
"""


@pytest.fixture
def one_more_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "diary.py").write_text(READER)
    monkeypatch.setattr(readers, "__path__", [*readers.__path__, str(tmp_path)])
    yield
    REGISTERED.pop("diary", None)
    sys.modules.pop(f"{readers.__name__}.diary", None)


def test_a_reader_is_one_file(one_more_reader: None) -> None:
    formats = registry.load_formats()
    names = [one.name for one in formats]
    assert names[names.index("swe-agent") :][:3] == ["swe-agent", "diary", "moatless"], "asked in the order it states"
    assert getattr(registry.format_of({"dear diary": "I ran it."}, formats), "name", None) == "diary"


def test_the_order_in_which_formats_are_asked() -> None:
    assert registry.format_names() == [
        *("mini-swe-agent", "openhands-events", "openhands-completions", "openhands-output", "swe-agent"),
        *("moatless", "moatless-nodes", "r2e-gym", "rmlab", "chat"),
    ]


def test_the_help_of_import_names_every_format() -> None:
    shown = CliRunner().invoke(app, ["import", "--help"], env={"COLUMNS": "400", "TERMINAL_WIDTH": "400"}).output
    assert f"auto, or one of {', '.join(registry.format_names())}" in shown


def test_two_readers_of_one_name_are_an_error() -> None:
    class Chat:
        name = "chat"

    with pytest.raises(ValueError, match="two readers are named 'chat'"):
        register(order=1)(Chat)  # type: ignore[type-var]


def test_names_are_known_without_anything_slow() -> None:
    code = (
        "import sys; from rmlab.trajectories.readers.registry import format_names; assert 'chat' in format_names(); "
        "print([name for name in ('numpy', 'pyarrow', 'torch', 'datasets', 'rich') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
