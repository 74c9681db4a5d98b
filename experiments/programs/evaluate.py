"""`rmlab evaluate`: all metrics of a score table, as tables to read, as one JSON object, or as a page.

    rmlab evaluate scores.csv --columns score=final_probe,resolved=label,task_id=iid --html report.html

Reports of a test harness are attempts without scores: `rmlab evaluate run1.json run2.json run3.json` gives pass@k. With the
trajectories that the table scores, the baselines that read them stand beside it.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rmlab.errors import DataError, UsageError
from rmlab.files import check_output
from rmlab.metrics.hybrid_selection import select_by_tests
from rmlab.metrics.report import report
from rmlab.scores.baselines import FOLDS, baseline_report, table_baselines
from rmlab.scores.columns import ColumnNames, column_names
from rmlab.scores.harness_reports import BY_INSTANCE, Incomplete, harness_reports, read_reports
from rmlab.scores.scores import Scores
from rmlab.scores.table import ScoreTable, read_table
from rmlab.wording import counted


def main(
    scores: Path | Sequence[Path],
    as_json: bool,
    trajectories: Path | None = None,
    validation: Path | None = None,
    *,
    columns: Sequence[str] = (),
    training_prior: float | None = None,
    incomplete: str = "unresolved",
    html: Path | None = None,
) -> None:
    """Prints the report of a score table, or of harness reports (each one attempt a task, without scores).

    as_json: exactly one JSON object on stdout instead of tables. trajectories: a trajectory set that holds the scored
    attempts; `baselines` then has those that read it. validation: a score table of the same verifier on other tasks, with the
    same columns; `post_hoc` is fitted on it. columns: ROLE=COLUMN of tables with other names. training_prior: share of resolved
    examples in the verifier's training. incomplete: what tasks are that a report lists as incomplete. html: a page to write.
    Raises DataError for a table or set that is not one, UsageError for arguments that do not go together.
    """
    paths = [scores] if isinstance(scores, Path) else list(scores)
    for number, path in enumerate(paths):
        if os.path.normpath(path.absolute()) in [os.path.normpath(other.absolute()) for other in paths[:number]]:
            raise UsageError(f"{path} is named twice: it would count as two attempts a task. Name it once.")
    if training_prior is not None and not 0 < training_prior < 1:
        raise UsageError(f"--training-prior {training_prior}: it is a share of resolved examples, above 0 and below 1")
    if training_prior is not None and validation is None:
        raise UsageError(
            "--training-prior: the prior-corrected ECE needs the base rate of validation too, whose table --validation names"
        )
    if html is not None:
        check_output(html, [*paths, *filter(None, (trajectories, validation))])
    names = column_names(columns)
    table = _read(paths, names, incomplete)
    apart = None if validation is None else read_table(validation, names).scores
    if apart is not None and (both := set(apart.task_id.tolist()) & set(table.scores.task_id.tolist())):
        raise DataError(
            f"--validation {validation} shares {counted(len(both), 'task')} with {paths[0]}, first {min(both)!r}: calibrators would be "
            "fitted on what they are judged by. Name a table of other tasks, or leave --validation out: then they are "
            "fitted on other folds."
        )
    found = report(
        table.scores, validation=apart, training_prior=training_prior, folds=0 if apart is not None else FOLDS
    )
    found["notes"] = list(table.notes)
    found["selection"] = None
    if table.regression_N is not None and table.reproduction_N is not None:
        found["selection"] = asdict(select_by_tests(table.scores, table.regression_N, table.reproduction_N))
    found["baselines"] = (
        table_baselines(table.scores, apart) if trajectories is None else _baselines(table.scores, trajectories)
    )
    title = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {counted(len(paths) - 1, 'more report')}"
    if html is not None:
        from rmlab.pages.report_page import write_report_page

        write_report_page(html, title, found, table.scores)
    if as_json:
        print(json.dumps(found, indent=1, allow_nan=False))
        return
    from rmlab.pages.report_tables import show

    show(title, found)
    if html is not None:
        print(f"page: {html}")


def _read(paths: Sequence[Path], names: ColumnNames, incomplete: str) -> ScoreTable:
    if incomplete not in list(Incomplete):
        raise UsageError(f"--incomplete {incomplete}: it is one of {', '.join(Incomplete)}")
    found = harness_reports(paths[0])
    if len(paths) > 1 or (found and not (names.named and all(report.kind == BY_INSTANCE for report in found))):
        if names.named:
            raise UsageError("--columns names columns of a score table; reports of a test harness have none")
        return read_reports(paths, Incomplete(incomplete))
    return read_table(paths[0], names)


def _baselines(table: Scores, path: Path) -> dict[str, Any]:
    from rmlab.trajectories.store import TrajectorySet, read_trajectories

    pool = read_trajectories(path)
    scored = set(table.trajectory_id.tolist())
    evaluation = tuple(t for t in pool.trajectories if t.trajectory_id in scored)
    if len(evaluation) < len(table):
        raise DataError(
            f"{path} holds {len(evaluation)} of the {len(table)} scored attempts (by trajectory_id): "
            "name the trajectories that the table was made from"
        )
    judged = {t.cluster for t in evaluation}
    apart = tuple(
        t for t in pool.part("validation").trajectories if t.cluster not in judged
    )  # never fitted on what is judged
    baselines: dict[str, Any] = baseline_report(
        TrajectorySet(evaluation, pool.metadata), TrajectorySet(apart, pool.metadata), scored=table
    )
    return baselines
