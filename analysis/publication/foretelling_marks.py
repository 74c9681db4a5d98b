"""The marks and lines of the figure `foretelling`, what each means, and the legends of its upper and its lower panels."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from analysis.foretelling.answer import Answer
from analysis.foretelling.runs import Study, beside
from analysis.foretelling.sentences import PAYS
from analysis.presentation import style

LOOKS = {
    "balanced": ("o", "1:1"),
    "mostly_unresolved": ("v", "1:4"),
    "mostly_resolved": ("^", "4:1"),
    "overconfident": ("s", "1:1, overconfident"),
}
"""A mark for each column, so that it is read in grey too, and its resolved to unresolved attempts in training."""
FILLS = {"a": ("filled", style.RESOLVED), "b": ("hollow", "white")}
"""Of the marks of a start: in words, and the colour of the face."""
BESIDE: dict[str, Any] = {
    "before RL": (":", "before RL"),
    "execution alone pays": ("--", "after RL that execution alone pays"),
}
"""Lines at the pass@1 that outcomes stand beside: dash and words."""
BLOCKS = {"execution_free": (style.RESOLVED, "D"), "hybrid": (style.UNRESOLVED, ">")}
"""Colour and mark of a block in the panel of metrics; none of the marks is that of a column, and each is seen to be hollow."""


def of_runs(study: Study) -> dict[str, Any]:
    """Legend of the upper panels: by name the columns, each with its mark in the fill of each start, and the lines that are drawn."""
    from matplotlib.lines import Line2D

    there = at_the_top(study)
    faces = [face for start, (_, face) in FILLS.items() if start in there.starts]
    columns: dict[str, Any] = {
        name: tuple(_mark(mark, style.RESOLVED, face) for face in faces)
        for column, (mark, name) in LOOKS.items()
        if column in there.columns
    }
    lines = {
        said: Line2D([], [], linestyle=line, linewidth=0.8, color="black")
        for name, (line, said) in BESIDE.items()
        if name in there.lines
    }
    return columns | lines


def words(study: Study, between: str) -> str:
    """What marks of the upper panels mean, as it stands above their legend. between: its two halves, a space or a line's end."""
    return f"marks: resolved to unresolved attempts in training;{between}{said_of_fills(at_the_top(study).starts)}"


def said_of_fills(starts: set[str]) -> str:
    """Which marks are of which start."""
    return ", ".join(f"{fill}: start {start}" for start, (fill, _) in FILLS.items() if start in starts)


def of_blocks(found: Answer) -> dict[str, Any]:
    """Legend of the panel of metrics: what pays in each block that is drawn; empty where it is a verifier alone, as in the upper
    panels."""
    there = [block for block, relations in found.relations.items() if relations]
    if there == ["execution_free"]:
        return {}
    return {PAYS[block]: _mark(mark, colour, colour) for block, (colour, mark) in BLOCKS.items() if block in there}


def _mark(mark: str, colour: str, face: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", marker=mark, markersize=4, color=colour, markerfacecolor=face)


class Top(NamedTuple):
    """What the upper panels have marks and lines of. columns, starts: of the plan, by name. lines: by name of BESIDE the start and the
    pass@1 of each line."""

    columns: set[str]
    starts: set[str]
    lines: Mapping[str, Sequence[tuple[str, float]]]


def at_the_top(study: Study) -> Top:
    """By the runs of `execution_free`, whose outcomes are drawn there."""
    runs = study.of("execution_free")
    lines = {
        name: [(start.split(" ")[0], level) for start, level in by_start.items()]
        for name, by_start in beside(runs, study.of("execution")).items()
        if by_start
    }
    return Top({run.cell["column"] for run in runs}, {run.cell["start"] for run in runs}, lines)
