"""Which figures are there, and what is each drawn from? A figure registers itself where it is defined.

    @figure("How good is the attempt that a verifier picks from k?", Needs.sweep)
    def draw(sweep: SweepRuns, out: Path) -> list[Path]: ...

The figure's name is the name of its file, in whichever folder that is. `rmlab figures` draws every registered figure;
`python -m analysis.registry` writes the table of figures into analysis/README.md.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import analysis

if TYPE_CHECKING:
    from analysis.sweep.tracked import SweepRuns

README = Path(__file__).parent / "README.md"
BEGIN = "| figure | drawn from | question |\n|---|---|---|\n"


class Needs(StrEnum):
    """What a figure is drawn from, and so how its `draw` is called. Each returns the files that it wrote."""

    sweep = "the verifiers of one sweep"  # draw(SweepRuns, out)
    rl = "RL runs"  # draw(Sequence[PolicyRun], out), into a folder for each group of comparable runs
    rl_study = "all RL runs together"  # draw(Sequence[PolicyRun], out), into OUT/rl/NAME
    search = "the trials of a search"  # draw(rows, objectives, folder, note), by `rmlab sweep`
    study = "the sweeps of a study"  # draw(PlannedStudy, folder), by `rmlab study`

    @property
    def command(self) -> str:
        """The command that draws it."""
        return {Needs.search: "rmlab sweep", Needs.study: "rmlab study"}.get(self, "rmlab figures")


@dataclass(frozen=True)
class Figure:
    """name: of its file, and what `rmlab figures NAME` takes. question: what it answers, in one or two sentences. lacks: of a sweep,
    what its runs lack for this figure; "" where it is drawn."""

    name: str
    question: str
    needs: Needs
    draw: Callable[..., list[Path]]
    lacks: Callable[["SweepRuns"], str] | None = None


FIGURES: dict[str, Figure] = {}
Draw = TypeVar("Draw", bound=Callable[..., list[Path]])


def figure(question: str, needs: Needs, lacks: Callable[["SweepRuns"], str] | None = None) -> Callable[[Draw], Draw]:
    """Registers a figure's `draw` under the name of the file that defines it. lacks: see `Figure`.

    Raises ValueError where a file of this name in another folder is a figure already.
    """

    def register(draw: Draw) -> Draw:
        name = draw.__module__.rpartition(".")[2]
        if name in FIGURES and (other := FIGURES[name].draw.__module__) != draw.__module__:
            raise ValueError(f"{other} and {draw.__module__} are two figures of one name: give one file another name")
        FIGURES[name] = Figure(name, question, needs, draw, lacks)
        return draw

    return register


@cache
def _import_all() -> None:
    for module in pkgutil.walk_packages(analysis.__path__, "analysis."):
        importlib.import_module(module.name)


def registered(needs: Needs | None = None) -> dict[str, Figure]:
    """The registered figures by name, in the order of their names. needs: only those that are drawn from it, None = all."""
    _import_all()
    return {name: one for name, one in sorted(FIGURES.items()) if needs in (None, one.needs)}


def draw_sweep(group: "SweepRuns", out: Path, names: Sequence[str] = ()) -> list[Path]:
    """Draws figures of one group of comparable runs into its folder below `out`; returns the files. names: none = all of a sweep's."""
    drawable = registered(Needs.sweep)
    return [path for name in names or drawable for path in drawable[name].draw(group, out)]


def table() -> str:
    """The figures as a Markdown table."""
    return BEGIN + "".join(f"| `{one.name}` | {one.needs} | {one.question} |\n" for one in registered().values())


def with_table(text: str) -> str:
    """A README with its table of figures as it is now."""
    before, begin, rest = text.partition(BEGIN)
    lines = rest.splitlines(keepends=True)
    end = next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return before + (table() if begin else "") + "".join(lines[end:])


if __name__ == "__main__":
    from analysis.registry import (
        with_table as write,
    )  # `-m` runs this file under another name than figures import it by

    README.write_text(write(README.read_text(encoding="utf-8")), encoding="utf-8")
