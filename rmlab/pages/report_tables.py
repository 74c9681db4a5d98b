"""A report as tables in a terminal."""

import sys
from collections.abc import Container
from functools import partial
from typing import TYPE_CHECKING, Any

from rmlab import wording
from rmlab.metrics import registry
from rmlab.metrics.definitions import Report
from rmlab.metrics.report import is_miscalibrated
from rmlab.wording import counted

if TYPE_CHECKING:
    from rich.table import Table

FEW_CLUSTERS = 10

number = partial(wording.number, digits=4)
"""A value of a report, - where it is undefined."""


def show(title: str, found: Report) -> None:
    """Prints a report. title: what it is of. found: of `rmlab.metrics.report`, with `baselines`, `selection` and `notes` where there."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 130)
    console.print(f"[bold]{escape(title)}[/bold]: {escape(summary(found))}")
    for line in how_far(found):
        console.print(line, style="dim")
    for note in found.get("notes", ()):
        console.print(f"  {note}", style="dim", markup=False)
    console.print(_curve_table(found))
    if found["score_rate"] == 0:
        console.print("No attempt is scored: there is nothing to say of scores.", style="dim")
        return
    console.print(_metric_table(found))
    if found["post_hoc"] is not None:
        console.print(_post_hoc_table(found))
    if found.get("selection") is not None:
        console.print(_selection_table(found["selection"]))
    if "baselines" in found:
        console.print(_baseline_table(found))


def summary(found: Report) -> str:
    """What a table holds, in one line."""
    scored = "nothing" if found["score_rate"] is None else f"{found['score_rate']:.1%}"
    resolved = "-" if found["resolved_rate"] is None else f"{found['resolved_rate']:.1%}"
    policies = (
        f" of {found['policies']} policies (grouped values: per policy, averaged)" if found["policies"] > 1 else ""
    )
    return (
        f"{counted(found['trajectories'], 'labelled attempt')}{policies} at {counted(found['tasks'], 'task')}, "
        f"{scored} scored, {resolved} resolved; "
        f"{found['unlabelled']:,} unlabelled left out"
    )


def how_far(found: Report) -> list[str]:
    """What intervals and curves are of, and where little can be said of them."""
    said = [
        f"Intervals: 95 %, {found['replicates']:,} resamples of {counted(found['clusters'], 'cluster')}, seed {found['seed']}"
    ]
    if found["clusters"] < FEW_CLUSTERS:
        said.append(
            f"Only {counted(found['clusters'], 'cluster')}: intervals from so few are too narrow, "
            "and other clusters may say something else."
        )
    reached = list(found["tasks_at_k"].values())
    if reached and reached[-1] < reached[0]:
        most = max(found["tasks_at_k"], key=int)
        said.append(
            f"{reached[-1]:,} of {reached[0]:,} {groups(found)} {'has' if reached[-1] == 1 else 'have'} {most} attempts; "
            "the others use all they have."
        )
    return said


def notes_of(found: Report) -> dict[str, str]:
    """What has to be known to read a metric, by its name."""
    notes = {metric.name: metric.note for metric in registry.METRICS if metric.note}
    notes |= {
        "auc_within_task_patches": "needs a column patch"
        if found["patches"] is None
        else f"{counted(found['patches'], 'distinct patch', 'distinct patches')}; {found['mixed_patches']:,} with both labels left out",
        "auc_within_task": f"{counted(found['within_pairs'], 'pair')} in {found['mixed_tasks']:,} {groups(found)} with both labels",
        "brier": "miscalibration - discrimination + uncertainty = "
        + "{} - {} + {}".format(
            *(number(found[f"brier_{part}"]) for part in ("miscalibration", "discrimination", "uncertainty"))
        ),
        "ece_noise_floor": f"of calibrated scores, labels drawn independently; 95 % below {number(found['ece_noise_floor_p95'])}",
        "ece_noise_floor_task": f"labels of a task drawn alike (τ² = {number(found['task_effect_variance'])}); 95 % below "
        f"{number(found['ece_noise_floor_task_p95'])}",
        "ece_prior_corrected": ""
        if found["ece_prior_corrected"] is not None
        else "needs the base rates of training and validation",
        "ece_prior_corrected_less_floor": ""
        if found["ece_prior_corrected_less_floor"] is None
        else "the floor is that of the corrected scores; 95 % below "
        f"{number(found['ece_prior_corrected_noise_floor_task_p95'])}",
        "aurc": f"mean error rate of the likelier answer at all coverages; {number(found['aurc_excess'])} above a perfect order",
        "aurc_picks": f"share unresolved of the best-scored attempts; {number(found['aurc_picks_excess'])} above a perfect order",
    }
    notes["auc_within_task_across"] = (
        "pairs of any policies: defined with one attempt of each policy at a task"
        if found["policies"] > 1
        else "only one policy has labels"
    )
    if found["within_pair_share"] is not None:
        notes["auc_pooled"] = f"{found['within_pair_share']:.2%} of its pairs lie within a task"
    verdict = is_miscalibrated(found)
    if verdict is not None:
        floor = number(found["ece_noise_floor_task_p95"])
        notes["ece_width_10"] = (
            f"miscalibrated: 95 % of calibrated scores stay below {floor}"
            if verdict
            else f"not shown to be miscalibrated: calibrated scores reach {floor}"
        )
    return notes


def groups(found: Report) -> str:
    """What grouped values are means over."""
    return "(task, policy) groups" if found["policies"] > 1 else "tasks"


def interval(ends: list[float] | None) -> str:
    """An interval, nothing where there is none."""
    return "" if ends is None else f"{ends[0]:.4f} to {ends[1]:.4f}"


def _table(title: str) -> "Table":
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def curves(found: Report, with_interval: Container[str] | None = None) -> tuple[list[str], list[list[str]]]:
    """(header, rows) of the table of best of k. with_interval: the curves whose intervals are shown; None = all that have some."""
    columns = registry.columns(found)
    intervals = {m.name for m in columns if m.statistic and (with_interval is None or m.name in with_interval)}
    header = ["k"]
    for metric in columns:
        header += [metric.label.replace("tasks", groups(found)), *(["95 %"] if metric.name in intervals else [])]
    rows = []
    for k in sorted({k for metric in columns for k in found[metric.name]}, key=int):
        row = [k]
        for metric in columns:
            value = found[metric.name].get(k)
            row.append(f"{'' if value is None else value}" if metric.statistic is None else number(value))
            if metric.name in intervals:
                row.append(interval(found["ci95"].get(metric.name, {}).get(k)))
        rows.append(row)
    return header, rows


def _curve_table(found: Report) -> "Table":
    header, rows = curves(found, with_interval=("rm_at_k", "pass_at_k"))
    shown = _table("Best of k")
    for name in header:
        shown.add_column(name, justify="right", no_wrap=name == "95 %" or len(header) < 8)
    for row in rows:
        shown.add_row(*row)
    return shown


def _metric_table(found: Report) -> "Table":
    shown = _table("Metrics")
    shown.add_column("", no_wrap=True)
    shown.add_column("value", justify="right", no_wrap=True)
    shown.add_column("95 %", justify="right", no_wrap=True)
    shown.add_column("", style="dim")
    notes = notes_of(found)
    for section, metrics in registry.sections().items():
        shown.add_section()
        shown.add_row(f"[bold]{section}[/bold]")
        for metric in metrics:
            value, ends = found[metric.name], found["ci95"].get(metric.name)
            shown.add_row(f"  {metric.label}", number(value), interval(ends), notes.get(metric.name, ""))
    return shown


def _post_hoc_table(found: Report) -> "Table":
    shown = _table(
        "Calibrated on validation"
        if found["post_hoc_fitted_on"] == "validation"
        else f"Calibrated on other tasks of this table ({found['post_hoc_fitted_on']})"
    )
    header, rows = calibrated(found)
    for name in header:
        shown.add_column(name, justify="right" if name else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    return shown


def calibrated(found: Report) -> tuple[list[str], list[list[str]]]:
    """(header, rows) of the table of post-hoc calibration."""
    rows = [
        [
            name,
            number(values["ece_width_10"]),
            interval(values["ci95"].get("ece_width_10")),
            number(values["ece_less_floor"]),
            interval(values["ci95"].get("ece_less_floor")),
            number(values["brier"]),
            number(values["log_loss"]),
        ]
        for name, values in {"before": found, **found["post_hoc"]}.items()
    ]
    return ["", "ECE, 10 bins", "95 %", "less its floor", "95 %", "Brier score", "log loss"], rows


def _selection_table(selection: dict[str, Any]) -> "Table":
    shown = _table(
        "Selection by score, by tests, by both"
        + (f" ({counted(selection['untested'], 'attempt')} without tests ranked last)" if selection["untested"] else "")
    )
    for name in ("k", "execution free", "execution based", "hybrid"):
        shown.add_column(name, justify="right", no_wrap=True)
    for k in selection["hybrid"]:
        shown.add_row(k, *(number(selection[name][k]) for name in ("execution_free", "execution_based", "hybrid")))
    return shown


def _baseline_table(found: Report) -> "Table":
    from rich.markup import escape

    header, rows = beside_baselines(found)
    shown = _table("Without a verifier")
    for name in header:
        shown.add_column(name, justify="right" if name else "left")
    for row in rows:
        shown.add_row(*map(escape, row))
    return shown


def beside_baselines(found: Report) -> tuple[list[str], list[list[str]]]:
    """(header, rows) of the table that has the baselines beside a report.

    Where no policy has a resolved and an unresolved attempt at one task, as with one attempt of each policy a task, values
    across policies stand in place of those within one.
    """
    across = found["auc_within_task"] is None and found["auc_within_task_across"] is not None
    rm_at_k, auc, where = (
        ("rm_at_k_across", "auc_within_task_across", " across policies")
        if across
        else ("rm_at_k", "auc_within_task", "")
    )
    most = max(found[rm_at_k], key=int, default="1")
    rows = [
        [
            name.replace("_", " "),
            number((values.get(rm_at_k) or {}).get(most)),
            number(values.get(auc)),
            number(values.get("auc_pooled")),
            str(values.get("reason") or values.get("note") or ""),
        ]
        for name, values in {"(this table)": found, **found["baselines"]}.items()
    ]
    return ["", f"RM@{most}{where}", f"AUC within task{where}", "AUC pooled", ""], rows
