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
FILLS = {"a": "filled", "b": "hollow"}
"""Of the marks of a start."""
BESIDE: dict[str, Any] = {
    "before RL": (":", "before RL"),
    "execution alone pays": ("--", "after RL that execution alone pays"),
}
"""Lines at the pass@1 that outcomes stand beside: dash and words."""
BLOCKS = {"execution_free": (style.RESOLVED, "D"), "hybrid": (style.UNRESOLVED, ">")}
"""Colour of a block, and its mark in the panel of metrics; none of the marks is that of a column, and each is seen to be hollow."""
SIZES = {"execution_free": 4.0, "hybrid": 2.8}
"""Of the marks of a block in the upper panels, so that blocks are told apart in grey too."""


def of_runs(study: Study) -> dict[str, Any]:
    """Legend of the upper panels: by name the columns, each with its mark in the fill of each start, the lines that are drawn, and what
    pays by colour, where there is more than one block."""
    from matplotlib.lines import Line2D

    there = at_the_top(study)
    starts = [start for start in FILLS if start in there.starts]

    def mark_of(column: str, block: str) -> Any:
        colour = BLOCKS[block][0]
        return tuple(_mark(LOOKS[column][0], colour, face_of(start, block), SIZES[block]) for start in starts)

    columns: dict[str, Any] = {
        name: mark_of(column, there.blocks[0]) for column, (_, name) in LOOKS.items() if column in there.columns
    }
    lines = {
        said: Line2D([], [], linestyle=line, linewidth=0.8, color="black")
        for name, (line, said) in BESIDE.items()
        if name in there.lines
    }
    blocks = {PAYS[block]: mark_of("balanced", block) for block in there.blocks}
    return columns | lines | (blocks if len(blocks) > 1 else {})


def words(study: Study, between: str) -> str:
    """What marks of the upper panels mean, as it stands above their legend. between: its two halves, a space or a line's end."""
    return f"marks: resolved to unresolved attempts in training;{between}{said_of_fills(at_the_top(study).starts)}"


def said_of_fills(starts: set[str]) -> str:
    """Which marks are of which start."""
    return ", ".join(f"{fill}: start {start}" for start, fill in FILLS.items() if start in starts)


def of_blocks(found: Answer) -> dict[str, Any]:
    """Legend of the panel of metrics: what pays in each block that is drawn; empty where it is a verifier alone, as in the upper
    panels."""
    there = [block for block, relations in found.relations.items() if relations]
    if there == ["execution_free"]:
        return {}
    return {PAYS[block]: _mark(mark, colour, colour) for block, (colour, mark) in BLOCKS.items() if block in there}


def face_of(start: str, block: str) -> str:
    """The colour of the face of a run's mark: that of its block, or white."""
    return BLOCKS[block][0] if FILLS[start] == "filled" else "white"


def _mark(mark: str, colour: str, face: str, size: float = 4) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", marker=mark, markersize=size, color=colour, markerfacecolor=face)


class Top(NamedTuple):
    """What the upper panels have marks and lines of. columns, starts: of the plan, by name. lines: by name of BESIDE the start and the
    pass@1 of each line, of the weights that the runs of the first block begin from. blocks: those that are drawn."""

    columns: set[str]
    starts: set[str]
    lines: Mapping[str, Sequence[tuple[str, float]]]
    blocks: Sequence[str]


def at_the_top(study: Study) -> Top:
    """By the runs of the factorial, whose outcomes are drawn there."""
    blocks = [block for block in BLOCKS if study.of(block)]
    every = [run for block in blocks for run in study.of(block)]
    runs = study.of(blocks[0]) if blocks else []
    lines = {
        name: [(start.split(" ")[0], level) for start, level in by_start.items()]
        for name, by_start in beside(runs, study.of("execution")).items()
        if by_start
    }
    return Top({run.cell["column"] for run in every}, {run.cell["start"] for run in every}, lines, blocks)
