"""The page that shows the figures of each sweep of a study, where they lie beside its results.

`rmlab figures rm_at_k discrimination_calibration --from FOLDER --page FOLDER/figures` draws them; this page names those that there are.
"""

from pathlib import Path

from analysis.studies.planned_study import PlannedStudy

FOLDER = "figures"
SHOWN = {"rm_at_k": "Best of k", "discrimination_calibration": "Discrimination and calibration"}
"""Figures on the page, in this order, by what they show."""


def page(study: PlannedStudy, folder: Path) -> tuple[Path, str] | None:
    """The page and its text, of the pictures below FOLDER in the study's folder; None where there is none."""
    there = [
        (sweep, name, what)
        for sweep in study.sweeps
        for name, what in SHOWN.items()
        if (folder / FOLDER / sweep / f"{name}.png").exists()
    ]
    if not there:
        return None
    lines = [
        f"# Figures of each sweep of {study.name.replace('_', ' ')}",
        "",
        "The [results](../results.md) give in numbers what these figures show, and say what each level means. The CSV beside a picture "
        "has its values. A rule that needs no verifier has one line where it is worth the same at every level, else one for each of its "
        "values, with the levels that it holds for.",
    ]
    last = ""
    for sweep, name, what in there:
        if sweep != last:
            lines += ["", f"## {sweep}"]
            last = sweep
        lines += ["", f"![{what}, by {sweep}]({sweep}/{name}.png)"]
    lines += [
        "",
        f"**Again:** `rmlab figures {' '.join(SHOWN)} --from FOLDER --page FOLDER/{FOLDER}`, where FOLDER is the folder of the study; "
        "`rmlab study FOLDER --page` then writes this page.",
        "",
    ]
    return folder / FOLDER / "README.md", "\n".join(lines)
