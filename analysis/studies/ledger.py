"""The ledger of a study in words: which cells are finished, which failed or are missing, and the commands that run these."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from analysis.studies.planned_study import CellState, PlannedStudy
from rmlab.wording import counted

REPEATS = 2
"""How often a cell is trained that fails; after that it is named and left."""


def ledger_lines(study: PlannedStudy) -> list[str]:
    """Which cells are finished and which are missing, in words, and the commands that run these."""
    planned, done = study.trainings
    lines = [f"{study.name}: {done} of {counted(planned, 'training')} finished, preset {study.preset}", ""]
    commands = []
    for name in study.sweeps:
        cells = study.of(name)
        states = Counter(one.state for one in cells)
        shared = f" ({states['elsewhere']} of them in another sweep)" if states["elsewhere"] else ""
        lines.append(
            f"  {name:<20} {states['finished'] + states['elsewhere']} of {len(cells)} finished{shared}{_missing(cells)}"
        )
        again = [one for one in cells if one.state == "failed" and one.failures < REPEATS]
        if states["missing"] or again:
            retry = " --retry-failed" if again else ""
            commands.append(f"  rmlab sweep {name} preset={study.preset} --on-error continue{retry}")
    for one in study.cells:
        if one.failures:
            left = (
                "" if one.state != "failed" else "; to be repeated once" if one.failures < REPEATS else "; not repeated"
            )
            lines.append(
                f"  failed {counted(one.failures, 'time')}: {one.cell.sweep}: {one.cell.name}: {first_sentence(one.error)}{left}"
            )
    if study.unplanned:
        lines.append(
            f"  {counted(study.unplanned, 'finished run')} beside these: of no planned cell, older runs of one, or not counted"
        )
    lines += [f"  {text}" for text in study.left_aside()]
    lines += [f"  {text}" for text in study.contradictions()]
    return [*lines, "", "Next:" if commands else "Nothing is left to run.", *commands]


def first_sentence(error: str, longest: int = 160) -> str:
    """An error's first sentence, cut where it is long: those of a GPU go on with pages of advice. ledger.csv has the whole."""
    words = " ".join(error.split())
    found = re.match(r".*?[.!?](?=\s|$)", words)
    first = (found[0] if found else words).rstrip(".")
    return first if len(first) <= longest else f"{first[: longest - 1]}…"


def _missing(cells: Sequence[CellState]) -> str:
    """`; missing: 2:1, 1:4 s0 s1`: levels and arms of which no seed is there, and seeds of the others."""
    if not any(one.state in ("finished", "failed") for one in cells):
        return "; not begun"
    places: dict[str, list[CellState]] = defaultdict(list)
    for one in cells:
        places[" ".join(filter(None, (one.cell.level, one.cell.arm)))].append(one)
    said = []
    for place, of_place in places.items():
        open_ = [f"s{one.cell.seed}" for one in of_place if one.run is None]
        if open_:
            said.append(place if len(open_) == len(of_place) else " ".join([place, *open_]))
    return f"; missing: {', '.join(said)}" if said else ""
