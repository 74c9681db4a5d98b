"""A figure is one file: it registers itself, and the command and the README know it from there."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import analysis
from analysis import registry
from analysis.registry import FIGURES, README, Needs, registered, with_table
from rmlab.commands.figures import draw_figures

CODE = """
from analysis.registry import Needs, figure


@figure("How many cells are there?", Needs.sweep)
def draw(sweep, out):
    path = out / "cell_count.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"cells\\n{len(sweep.cells)}\\n")
    return [path]
"""


@pytest.fixture
def new_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file `cell_count.py` beside the shipped figures."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "cell_count.py").write_text(CODE)
    monkeypatch.setattr(analysis, "__path__", [*analysis.__path__, str(tmp_path / "code")])
    registry._import_all.cache_clear()
    yield
    FIGURES.pop("cell_count", None)
    sys.modules.pop("analysis.cell_count", None)


def test_a_new_file_is_all_that_a_figure_needs(new_figure: None, runs_folder: Path, tmp_path: Path) -> None:
    from rmlab.tracking.store import Store
    from tests.analysis.verifiers.test_figures import track

    for seed in (0, 1):
        track(Store.open(None), tmp_path, "100", seed, 0.5)
    assert registered(Needs.sweep)["cell_count"].question == "How many cells are there?"
    [path] = draw_figures(["cell_count"], out=tmp_path / "drawn")
    assert path.read_text() == "cells\n2\n"
    assert "| `cell_count` | the verifiers of one sweep | How many cells are there? |\n" in registry.table()


def test_two_figures_of_one_name_are_refused() -> None:
    def draw() -> list[Path]:
        return []

    registered()
    draw.__module__ = "analysis.rl.reliability"
    with pytest.raises(
        ValueError, match=r"analysis\.verifiers\.reliability and analysis\.rl\.reliability are two figures"
    ):
        registry.figure("Is it?", Needs.rl)(draw)


def test_the_readme_lists_every_figure_as_it_is_registered() -> None:
    text = README.read_text(encoding="utf-8")
    assert with_table(text) == text, "run `.venv/bin/python -m analysis.registry`"
    assert with_table(f"a\n\n{registry.BEGIN}| `gone` | x | y |\n\nb\n") == f"a\n\n{registry.table()}\nb\n"


def test_every_file_that_draws_is_registered() -> None:
    """A `draw` without the decorator would never be drawn."""
    drawing = {p.stem for p in Path(registry.__file__).parent.rglob("*.py") if "\ndef draw(" in p.read_text()}
    assert drawing == set(registered()), (
        "its `draw` needs the decorator @figure(question, Needs...) of analysis/registry.py"
    )
