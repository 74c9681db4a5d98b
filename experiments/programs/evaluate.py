"""`rmlab evaluate`: all metrics of a score table, as tables to read or as one JSON object.

With the trajectories that the table scores, the baselines that need no verifier stand beside it.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmlab.errors import DataError
from rmlab.metrics.report import Report, is_miscalibrated, report
from rmlab.metrics.scores import Scores
from rmlab.verifiers.score_table import read_score_table

if TYPE_CHECKING:
    from rich.table import Table

METRICS = {
    "Discrimination": {"auc_within_task": "AUC within task", "auc_between_tasks": "AUC between tasks", "auc_pooled": "AUC pooled"},
    "Calibration": {
        "ece_width_10": "ECE, 10 bins", "ece_width_15": "ECE, 15 bins", "ece_mass_10": "ECE, 10 equal-mass bins",
        "ece_debiased": "ECE², debiased", "ece_prior_corrected": "ECE, prior corrected",
        "ece_confidence": "ECE of max(s, 1 - s)", "mce": "MCE",
        "brier": "Brier score",
        "log_loss": "log loss", "calibration_slope": "slope", "calibration_intercept": "intercept"},
    "What the gradient sees": {
        "advantage_cosine": "advantage cosine", "advantage_cosine_all": "the same, all groups",
        "advantage_noise_share": "noise share"},
}


def main(scores: Path, as_json: bool, trajectories: Path | None = None, validation: Path | None = None) -> None:
    """Prints the report of a score table.

    as_json: exactly one JSON object on stdout instead of tables. trajectories: a trajectory set that holds the scored
    attempts; adds `baselines`. validation: a score table of the same verifier on other tasks; adds `post_hoc`.
    Raises DataError for a table or set that is not one.
    """
    table = read_score_table(scores)
    found = report(table, validation=None if validation is None else read_score_table(validation))
    if trajectories is not None:
        found["baselines"] = _baselines(table, trajectories)
    if as_json:
        print(json.dumps(found, indent=1, allow_nan=False))
    else:
        _show(scores, found)


def _baselines(table: Scores, path: Path) -> dict[str, Any]:
    from rmlab.trajectories.store import TrajectorySet, read_trajectories
    from rmlab.verifiers.baselines import baseline_report

    pool = read_trajectories(path)
    scored = set(table.trajectory_id.tolist())
    evaluation = tuple(t for t in pool.trajectories if t.trajectory_id in scored)
    if len(evaluation) < len(table):
        raise DataError(f"{path} holds {len(evaluation)} of the {len(table)} scored attempts (by trajectory_id): "
                        "name the trajectories that the table was made from")
    judged = {t.cluster for t in evaluation}
    apart = tuple(t for t in pool.part("validation").trajectories if t.cluster not in judged)  # never fitted on what is judged
    baselines: dict[str, Any] = baseline_report(TrajectorySet(evaluation, pool.metadata), TrajectorySet(apart, pool.metadata))
    return baselines


def _show(path: Path, found: Report) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 130)
    scored = "nothing" if found["score_rate"] is None else f"{found['score_rate']:.1%}"
    resolved = "-" if found["resolved_rate"] is None else f"{found['resolved_rate']:.1%}"
    policies = f" of {found['policies']} policies (grouped values: per policy, averaged)" if found["policies"] > 1 else ""
    console.print(f"[bold]{escape(str(path))}[/bold]: {found['trajectories']:,} labelled attempts{policies} at {found['tasks']:,} tasks, "
                  f"{scored} scored, {resolved} resolved; {found['unlabelled']:,} unlabelled left out")
    console.print(f"Intervals: 95 %, {found['replicates']:,} resamples of {found['clusters']:,} clusters, seed {found['seed']}",
                  style="dim")
    console.print(_curve_table(found))
    console.print(_metric_table(found))
    if found["post_hoc"] is not None:
        console.print(_post_hoc_table(found))
    if "baselines" in found:
        console.print(_baseline_table(found))


def _table(title: str) -> "Table":
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def _groups(found: Report) -> str:
    return "(task, policy) groups" if found["policies"] > 1 else "tasks"


def _curve_table(found: Report) -> "Table":
    across = found["rm_at_k_across"] or {}
    shown = _table("Best of k")
    names = ("k", "RM@k", "95 %", "pass@k", "95 %", f"{_groups(found)} with k attempts", *(["RM@k across policies"] if across else []))
    for name in names:
        shown.add_column(name, justify="right", no_wrap=True)
    for k in sorted({*found["rm_at_k"], *across}, key=int):
        cells = [k]
        for name in ("rm_at_k", "pass_at_k"):
            cells += [_number(found[name].get(k)), _interval(found["ci95"].get(name, {}).get(k))]
        shown.add_row(*cells, str(found["tasks_at_k"].get(k, "")), *([_number(across.get(k))] if across else []))
    return shown


def _metric_table(found: Report) -> "Table":
    shown = _table("Metrics")
    shown.add_column("", no_wrap=True)
    shown.add_column("value", justify="right", no_wrap=True)
    shown.add_column("95 %", justify="right", no_wrap=True)
    shown.add_column("", style="dim")
    notes = _notes(found)
    for section, names in METRICS.items():
        shown.add_section()
        shown.add_row(f"[bold]{section}[/bold]")
        for name, title in names.items():
            shown.add_row(f"  {title}", _number(found[name]), _interval(found["ci95"].get(name)), notes.get(name, ""))
    return shown


def _notes(found: Report) -> dict[str, str]:
    notes = {
        "auc_within_task": f"{found['within_pairs']:,} pairs in {found['mixed_tasks']:,} {_groups(found)} with both labels",
        "auc_between_tasks": "high for a score that only knows how hard a task is",
        "brier": "miscalibration - discrimination + uncertainty = " + "{} - {} + {}".format(
            *(_number(found[f"brier_{part}"]) for part in ("miscalibration", "discrimination", "uncertainty"))),
        "ece_debiased": "squared; may be negative",
        "ece_prior_corrected": "" if found["ece_prior_corrected"] is not None else "needs the base rates of training and validation",
        "advantage_noise_share": "of the scores' spread, at tasks where all attempts have one label",
    }
    if found["within_pair_share"] is not None:
        notes["auc_pooled"] = f"{found['within_pair_share']:.2%} of its pairs lie within a task"
    verdict = is_miscalibrated(found)
    if verdict is not None:
        floor = _number(found["ece_noise_floor_task_p95"])
        notes["ece_width_10"] = (f"miscalibrated: 95 % of calibrated scores stay below {floor}" if verdict
                                 else f"not shown to be miscalibrated: calibrated scores reach {floor}")
    return notes


def _post_hoc_table(found: Report) -> "Table":
    shown = _table("Calibrated on validation")
    for name in ("", "ECE, 10 bins", "95 %", "Brier score", "log loss"):
        shown.add_column(name, justify="right" if name else "left", no_wrap=True)
    for name, values in {"before": found, **found["post_hoc"]}.items():
        shown.add_row(name, _number(values["ece_width_10"]), _interval(values["ci95"].get("ece_width_10")), _number(values["brier"]),
                      _number(values["log_loss"]))
    return shown


def _baseline_table(found: Report) -> "Table":
    from rich.markup import escape

    most = max(found["rm_at_k"], key=int)
    shown = _table("Without a verifier")
    for name in ("", f"RM@{most}", "AUC within task", "AUC pooled", ""):
        shown.add_column(name, justify="right" if name else "left")
    for name, values in {"(this table)": found, **found["baselines"]}.items():
        shown.add_row(escape(name), _number((values.get("rm_at_k") or {}).get(most)), _number(values.get("auc_within_task")),
                      _number(values.get("auc_pooled")), escape(str(values.get("reason") or "")))
    return shown


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _interval(ends: list[float] | None) -> str:
    return "" if ends is None else f"{ends[0]:.4f} to {ends[1]:.4f}"
