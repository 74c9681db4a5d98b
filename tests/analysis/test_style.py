"""Figures have the same bytes whatever a user's matplotlib is set to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.presentation import style
from analysis.summaries import pareto
from rmlab.paths import REPOSITORY

ROWS = [{"trial": i, "best": "yes" if i else "", "a_b": 0.1 * i} for i in range(2)]
FIGURE = (ROWS, {"a_b": "maximize"})
NOTE = "a note with $ and _"
DRAWS = f"""
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import analysis.verifiers.differences
from analysis.summaries import pareto
pareto.draw(*{FIGURE}, Path(sys.argv[2]), {NOTE!r})
import matplotlib
print(matplotlib.rcParams["lines.linewidth"])
"""
SETTINGS = (
    "text.usetex: True\nlines.linewidth: 9\nsavefig.bbox: tight\nfont.family: serif\nfigure.dpi: 300\n"
    "axes.facecolor: red\nbackend: TkAgg\naxes.prop_cycle: cycler('color', ['r'])\npdf.compression: 0\n"
)


def files(folder: Path) -> list[bytes]:
    return [(folder / f"pareto.{suffix}").read_bytes() for suffix in ("pdf", "png", "csv")]


def drawn(folder: Path, **environment: str) -> tuple[list[bytes], str]:
    unset = ("MPLBACKEND", "MATPLOTLIBRC")
    done = subprocess.run(
        [sys.executable, "-c", DRAWS, str(REPOSITORY), "out"],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k not in unset} | environment,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return files(folder / "out"), done.stdout


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """As drawn in the tests' own process, whatever was drawn in it before."""
    pareto.draw(*FIGURE, folder := tmp_path_factory.mktemp("plain"), NOTE)
    return files(folder)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["module://no.such_backend", "nonsense"])
def test_a_backend_that_is_not_there(plain: list[bytes], tmp_path: Path, backend: str) -> None:
    assert drawn(tmp_path, MPLBACKEND=backend)[0] == plain


def test_a_matplotlibrc_of_the_working_folder_and_the_backend_of_a_notebook(plain: list[bytes], tmp_path: Path) -> None:
    """Both in one process: the variable goes before the file, whose own backend a slow test has."""
    (tmp_path / "matplotlibrc").write_text(SETTINGS)
    again, said = drawn(tmp_path, MPLBACKEND="module://matplotlib_inline.backend_inline")
    assert again == plain
    assert said == "9.0\n", "what else runs in the process has the user's settings"


@pytest.mark.slow
def test_a_matplotlibrc_with_a_backend_of_its_own(plain: list[bytes], tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text(SETTINGS)
    assert drawn(tmp_path)[0] == plain


def test_a_picture_has_the_bytes_of_savefig(tmp_path: Path) -> None:
    """Which draws a figure twice: once to lay it out. The panels share an axis, and what stands beside them takes room from them."""
    metadata = {"pdf": {"CreationDate": None, "Creator": "rmlab"}, "png": {"Software": "rmlab"}}
    pictures: dict[str, list[bytes]] = {}
    for how in ("once", "savefig"):
        with style.figure(2, 2, 2.1, 1.9, sharey="row") as (drawn, axes):
            for place, axis in enumerate(axes.flat):
                axis.plot([0, 1, 2], [place, 10**place, 3], label=f"line {place}")
                axis.set(title=f"two\nlines {place}", xlabel="x", ylabel="y")
            style.level_axis(axes[1], ["a level", "a level with a long name"], {})
            drawn.legend(*style.legend(axes.flat), loc="outside right center")
            style.footnote(drawn, NOTE * 20)
            for kind in metadata:
                path = tmp_path / how / f"picture.{kind}"
                if how == "once":
                    style.save_picture(drawn, path)
                else:
                    path.parent.mkdir(exist_ok=True)
                    drawn.savefig(path, metadata=metadata[kind])
                pictures.setdefault(kind, []).append(path.read_bytes())
    assert pictures["png"][0] == pictures["png"][1]
    assert pictures["pdf"][0] == pictures["pdf"][1]
