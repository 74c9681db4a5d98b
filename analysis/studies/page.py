"""The page of a study's results: written by a command, each number with its mark, so that the same test compares it as all others.

The plan of a study stays as it was written before its first cell ran; `results.md` stands beside it and is written anew as cells come.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from analysis.pages.marked_text import MarkedText
from analysis.pages.sources import marks_of
from analysis.presentation.style import csv_text
from analysis.studies import answer, gallery, references, repeats, study_overview, study_table
from analysis.studies.planned_study import FILE, PlannedStudy
from analysis.studies.repeats import Repeat
from rmlab.files import write_text
from rmlab.metrics.sweep_levels import distinct

PAGE, COUNTS = "results.md", "study_counts.json"
NOTHING_YET = "**No cell of this study has run.**"
"""How a plan begins whose results are not there yet."""


def write(study: PlannedStudy, folder: Path) -> list[Path]:
    """Writes the page, its marks and the counts that it names; says in the plan where the results are. Nothing without a finished cell."""
    if not study.groups:
        return []
    page, counts, again = folder / PAGE, folder / COUNTS, folder / f"{repeats.NAME}.csv"
    retrained = repeats.repeats(study)
    write_text(counts, json.dumps(counted_cells(study, retrained), indent=1) + "\n")
    if retrained:
        write_text(again, csv_text([one.row for one in retrained]))
    compared_with = references.rows(study)
    baseline = folder / f"{references.NAME}.csv"
    if compared_with:
        write_text(baseline, csv_text(compared_with))
    figures = gallery.page(study, folder)
    if figures:
        write_text(*figures)
    text = as_marked(study, retrained, compared_with, figures is not None)
    write_text(page, text.text)
    path, marks = marks_of(page)
    marks[PAGE] = text.marks()
    write_text(path, yaml.safe_dump(marks, allow_unicode=True, sort_keys=False, width=1000))
    plan = folder / "README.md"
    if plan.exists() and NOTHING_YET in (before := plan.read_text(encoding="utf-8")):
        write_text(plan, before.replace(NOTHING_YET, f"**What came out stands in [{PAGE}]({PAGE}).**"))
    return [
        counts,
        *([again] if retrained else []),
        *([baseline] if compared_with else []),
        *(figures or ())[:1],
        page,
        path,
    ]


def counted_cells(study: PlannedStudy, retrained: Sequence[Repeat]) -> dict[str, Any]:
    """The counts that the page names: trainings of the study, those that are finished, that failed, that were not planned (and stand in
    no table), sweeps that are complete, values of cells that were trained again and how many of these lie where they should, tests and
    those that show a difference."""
    planned, done = study.trainings
    failed = {one.cell.key: one.failures for one in study.cells}
    whole = sum(all(one.run is not None for one in study.of(name)) for name in study.sweeps)
    tests = [
        test for group in study.groups.values() for test in distinct(list(group.tests.values())) if test.p is not None
    ]
    return {
        "planned": planned,
        "finished": done,
        "failed": sum(failed.values()),
        "never": len({one.cell.key for one in study.cells if one.state == "failed"}),
        "unplanned": study.unplanned,
        "sweeps": len(study.sweeps),
        "whole": whole,
        "repeated": len(retrained),
        "inside": sum(one.inside for one in retrained),
        "tests": len(tests),
        "shown": sum(test.shown for test in tests),
    }


def as_marked(
    study: PlannedStudy, retrained: Sequence[Repeat], compared_with: list[dict[str, Any]], figures: bool = False
) -> MarkedText:
    """The whole page. retrained: of `repeats`. compared_with: the rows of `references`. figures: whether there is a page with the figures
    of each sweep."""
    counts = counted_cells(study, retrained)
    text = MarkedText(f"{study_table.NAME}.csv")

    def count(name: str) -> None:
        text.number(f"{counts[name]:,}", "", name, COUNTS)

    text.say(f"# What came of the sweeps of {study.name.replace('_', ' ')}?\n\n")
    count("finished")
    text.say(" of ")
    count("planned")
    text.say(" trainings are finished and ")
    count("whole")
    text.say(" of ")
    count("sweeps")
    text.say(
        " sweeps are complete. [README.md](README.md) is the plan, written before the first of them ran; "
        "[ledger.csv](ledger.csv) has every cell. A cell that two sweeps have in common is trained once.\n\n"
    )
    text.add(answer.as_marked(study))
    if any(group.tests for group in study.groups.values()):
        text.say(f"![All sweeps]({study_overview.NAME}.png)\n\n").say(f"*{study_overview.caption(study)}*\n\n")
    if figures:
        text.say(f"The figures of each sweep stand [on a page of their own]({gallery.FOLDER}/README.md).\n\n")
    text.add(references.as_marked(study, compared_with))
    if counts["tests"]:
        text.say("Holm's correction is made within each sweep, not over the study: ")
        count("shown")
        text.say(" of ")
        count("tests")
        text.say(
            " tests show a difference, and each sweep has its own 5 % of showing one by chance. The sweeps of one row above share their "
            "baseline's trainings, so an unusual baseline would move all of their differences.\n\n"
        )
    text.add(study_table.as_marked(study))
    text.add(repeats.as_marked(retrained, COUNTS))
    text.say("## Counts, and this page again\n\nTrainings that failed: ")
    count("failed")
    text.say("; cells that have no finished training because of that: ")
    count("never")
    text.say(
        "; finished runs that no table here uses, because they are not of the plan or a later run took their place: "
    )
    count("unplanned")
    text.say(".\n\n")
    text.say(
        f"**Again:** `rmlab study FOLDER --page` writes this page, its tables and the figure from the bundles below FOLDER ({FILE} names "
        "the sweeps); `rmlab figures --from FOLDER` draws the figures of each sweep.\n"
    )
    return text
