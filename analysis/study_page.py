"""The page of a study's results: written by a command, each number with its mark, so that the same test compares it as all others.

The plan of a study stays as it was written before its first cell ran; `results.md` stands beside it and is written anew as cells come.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from analysis import study_answer, study_gallery, study_overview, study_references, study_repeats, study_table
from analysis.marked_text import MarkedText
from analysis.page_numbers import marks_of
from analysis.planned_study import FILE, PlannedStudy
from analysis.study_repeats import Repeat
from analysis.style import csv_text
from rmlab.files import write_text
from rmlab.metrics.sweep_levels import distinct

PAGE, COUNTS = "results.md", "study_counts.json"
NOTHING_YET = "**No cell of this study has run.**"
"""How a plan begins whose results are not there yet."""


def write(study: PlannedStudy, folder: Path) -> list[Path]:
    """Writes the page, its marks and the counts that it names; says in the plan where the results are. Nothing without a finished cell."""
    if not study.groups:
        return []
    page, counts, again = folder / PAGE, folder / COUNTS, folder / f"{study_repeats.NAME}.csv"
    repeats = study_repeats.repeats(study)
    write_text(counts, json.dumps(counted_cells(study, repeats), indent=1) + "\n")
    if repeats:
        write_text(again, csv_text([one.row for one in repeats]))
    references = study_references.rows(study)
    baseline = folder / f"{study_references.NAME}.csv"
    if references:
        write_text(baseline, csv_text(references))
    gallery = study_gallery.page(study, folder)
    if gallery:
        write_text(*gallery)
    text = as_marked(study, repeats, references, gallery is not None)
    write_text(page, text.text)
    path, marks = marks_of(page)
    marks[PAGE] = text.marks()
    write_text(path, yaml.safe_dump(marks, allow_unicode=True, sort_keys=False, width=1000))
    plan = folder / "README.md"
    if plan.exists() and NOTHING_YET in (before := plan.read_text(encoding="utf-8")):
        write_text(plan, before.replace(NOTHING_YET, f"**What came out stands in [{PAGE}]({PAGE}).**"))
    return [
        counts,
        *([again] if repeats else []),
        *([baseline] if references else []),
        *(gallery or ())[:1],
        page,
        path,
    ]


def counted_cells(study: PlannedStudy, repeats: Sequence[Repeat]) -> dict[str, Any]:
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
        "repeated": len(repeats),
        "inside": sum(one.inside for one in repeats),
        "tests": len(tests),
        "shown": sum(test.shown for test in tests),
    }


def as_marked(
    study: PlannedStudy, repeats: Sequence[Repeat], references: list[dict[str, Any]], gallery: bool = False
) -> MarkedText:
    """The whole page. repeats, references: of `study_repeats` and `study_references`. gallery: whether there is a page with the figures
    of each sweep."""
    counts = counted_cells(study, repeats)
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
    text.add(study_answer.as_marked(study))
    if any(group.tests for group in study.groups.values()):
        text.say(f"![All sweeps]({study_overview.NAME}.png)\n\n").say(f"*{study_overview.caption(study)}*\n\n")
    if gallery:
        text.say(f"The figures of each sweep stand [on a page of their own]({study_gallery.FOLDER}/README.md).\n\n")
    text.add(study_references.as_marked(study, references))
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
    text.add(study_repeats.as_marked(repeats, COUNTS))
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
