"""`rmlab evaluate`: all metrics of a score table, as tables to read, as one JSON object, or as a page.

Reports of a test harness are attempts without scores: `rmlab evaluate run1.json run2.json run3.json` gives pass@k. Given the
trajectories, the table needs only ids and scores: the set provides the rest, and the baselines that need trajectories are added.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmlab.errors import DataError, UsageError
from rmlab.files import PAGE, check_output, write_text
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.scores.columns import ColumnNames
    from rmlab.scores.joining import JoinedTable
    from rmlab.scores.scores import Scores
    from rmlab.scores.table import ScoreTable
    from rmlab.trajectories.store import TrajectorySet

app = typer.Typer()


@app.command(
    epilog="Example: `rmlab evaluate scores.csv --columns score=final_probe,resolved=label,task_id=iid --html report.html`"
)
def evaluate(
    scores: Annotated[
        list[Path],
        typer.Argument(
            help="A score table (CSV, JSONL, JSON, Parquet) with task_id, score, resolved; or reports of a test harness, one attempt each."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            help="ROLE=COLUMN,... where the table uses other names: task_id, score, resolved (COLUMN==VALUE if that value "
            "means resolved), policy, ...; logprobs, or yes_logprob and no_logprob, to compute the score; regression and reproduction "
            "for test results."
        ),
    ] = None,
    trajectories: Annotated[
        Path | None,
        typer.Option(
            help="The trajectories that the table scores. It then needs only trajectory_id and score (or task_id, policy and score if each "
            "policy has one attempt at a task); labels, policies, repositories and patches come from the set. Adds the baselines "
            "that need trajectories."
        ),
    ] = None,
    validation: Annotated[
        Path | None,
        typer.Option(
            help="A score table of other tasks, to fit temperature, Platt and isotonic on. Default: folds of the table itself."
        ),
    ] = None,
    training_prior: Annotated[
        float | None,
        typer.Option(help="Share of resolved examples in training. With --validation, adds the prior-corrected ECE."),
    ] = None,
    incomplete: Annotated[
        str, typer.Option(help="How to count the tasks that a report lists as incomplete: unresolved or unlabelled.")
    ] = "unresolved",
    html: Annotated[
        Path | None, typer.Option(help="Write a self-contained page: figures, intervals, worst errors.")
    ] = None,
) -> None:
    """Compute all metrics of a score table: selection, discrimination, calibration, and what the gradient sees."""
    from rmlab.baselines.rules import FOLDS, table_baselines
    from rmlab.metrics.hybrid_selection import select_by_tests
    from rmlab.metrics.report import report
    from rmlab.metrics.thin import small_policies
    from rmlab.scores.columns import column_names
    from rmlab.scores.joining import join
    from rmlab.trajectories.store import read_trajectories

    for number, path in enumerate(scores):
        if os.path.normpath(path.absolute()) in [os.path.normpath(other.absolute()) for other in scores[:number]]:
            raise UsageError(f"{path} is named twice: it would count as two attempts at each task. Name it once.")
    if training_prior is not None and not 0 < training_prior < 1:
        raise UsageError(
            f"--training-prior {training_prior}: must be a share of resolved examples, above 0 and below 1"
        )
    if training_prior is not None and validation is None:
        raise UsageError(
            "--training-prior needs --validation: the prior-corrected ECE also uses the base rate of the validation table"
        )
    if html is not None:
        check_output(html, [*scores, *filter(None, (trajectories, validation))], PAGE)
    names = column_names(columns or [])
    pool = None if trajectories is None else read_trajectories(trajectories)
    joined = None
    table = _read(scores, names, incomplete, joined=pool is not None)
    if pool is not None and trajectories is not None:
        joined = join(table, scores[0], pool, trajectories)
        table = joined.table
    apart = None if validation is None else _validation(validation, names, pool, trajectories)
    if apart is not None and (both := set(apart.task_id.tolist()) & set(table.scores.task_id.tolist())):
        raise DataError(
            f"--validation {validation} shares {counted(len(both), 'task')} with {scores[0]}, first {min(both)!r}: calibrators would be "
            "fitted on the tasks that they are judged on. Name a table of other tasks, or leave --validation out to fit on "
            "folds of the table itself."
        )
    measured = report(
        table.scores, validation=apart, training_prior=training_prior, folds=0 if apart is not None else FOLDS
    )
    measured["notes"] = [*small_policies(table.scores), *table.notes]
    measured["selection"] = None
    if table.regression_N is not None and table.reproduction_N is not None:
        measured["selection"] = asdict(select_by_tests(table.scores, table.regression_N, table.reproduction_N))
    if joined is None or pool is None:
        measured["baselines"] = table_baselines(table.scores, apart)
    else:
        measured["joined"] = joined.counts
        measured["baselines"] = _baselines(joined, pool, apart)
    title = str(scores[0]) if len(scores) == 1 else f"{scores[0]} and {counted(len(scores) - 1, 'more report')}"
    if html is not None:
        from rmlab.pages.report_page import report_page

        write_text(html, report_page(title, measured, table.scores))
    if as_json:
        print(json.dumps(measured, indent=1, allow_nan=False))
        return
    from rmlab.pages.report_tables import show

    show(title, measured)
    if html is not None:
        print(f"page: {html}")


def _read(paths: Sequence[Path], names: "ColumnNames", incomplete: str, joined: bool) -> "ScoreTable":
    from rmlab.scores.harness_reports import BY_INSTANCE, Incomplete, harness_reports, read_reports
    from rmlab.scores.table import read_table

    if incomplete not in list(Incomplete):
        raise UsageError(f"--incomplete {incomplete}: must be one of {', '.join(Incomplete)}")
    of_harness = harness_reports(paths[0])
    if len(paths) > 1 or (
        of_harness and not (names.named and all(report.kind == BY_INSTANCE for report in of_harness))
    ):
        if names.named:
            raise UsageError("--columns names the columns of a score table; reports of a test harness have none")
        if joined:
            raise UsageError(
                "--trajectories needs a score table, and reports of a test harness have no scores. `rmlab import --labels` joins them "
                "to their trajectories."
            )
        return read_reports(paths, Incomplete(incomplete))
    return read_table(paths[0], names, joined)


def _validation(path: Path, names: "ColumnNames", pool: "TrajectorySet | None", pool_path: Path | None) -> "Scores":
    """Its table, joined with the set where that holds any of its attempts by id, or where it has no labels of its own."""
    from rmlab.scores.joining import join
    from rmlab.scores.table import read_table

    if pool is not None and pool_path is not None:
        table = read_table(path, names, joined=True)
        shared = {t.trajectory_id for t in pool.trajectories} & set(table.scores.trajectory_id.tolist())
        if shared or not set(table.scores.resolved.tolist()) & {0.0, 1.0}:
            return join(table, path, pool, pool_path).table.scores
    return read_table(path, names).scores


def _baselines(joined: "JoinedTable", pool: "TrajectorySet", validation: "Scores | None") -> dict[str, Any]:
    """Those of the set; where it cannot give one (it has no validation part to fit on), that of the table."""
    from rmlab.baselines.rules import baseline_report, table_baselines
    from rmlab.trajectories.store import TrajectorySet

    judged = {t.cluster for t in joined.trajectories}
    apart = tuple(
        t for t in pool.part("validation").trajectories if t.cluster not in judged
    )  # never fitted on what is judged
    of_set = baseline_report(
        TrajectorySet(joined.trajectories, pool.metadata),
        TrajectorySet(apart, pool.metadata),
        scored=joined.table.scores,
    )
    of_table = table_baselines(joined.table.scores, validation)
    return {
        name: of_table[name] if "reason" in own and "reason" not in of_table[name] else own
        for name, own in of_set.items()
    }
