"""A report as tables in a terminal."""

from collections.abc import Container
from functools import partial
from typing import TYPE_CHECKING, Any

from rmlab import wording
from rmlab.metrics import registry, thin
from rmlab.metrics.definitions import Report
from rmlab.metrics.report import is_miscalibrated
from rmlab.wording import counted

if TYPE_CHECKING:
    from rich.table import Table

number = partial(wording.number, digits=4)
"""A value of a report, - where it is undefined."""


def show(title: str, report: Report) -> None:
    """Prints a report. title: what it is of. report: of `rmlab.metrics.report`, with `baselines`, `selection` and `notes` where there."""
    from rich.console import Console
    from rich.text import Text

    from rmlab.console_table import print_table

    console = Console(highlight=False, markup=False)
    whole = not console.is_terminal  # a pipe gets each sentence on one line
    console.print(Text.assemble((title, "bold"), ": ", summary(report)), soft_wrap=whole)
    for line in how_far(report):
        console.print(line, style="dim", soft_wrap=whole)
    for note in report.get("notes", ()):
        console.print(f"  {note}", style="dim", soft_wrap=whole)
    print_table(console, _curve_table(report))
    if report["score_rate"] == 0:
        console.print("No attempt has a score, so there are no metrics of scores.", style="dim")
        return
    print_table(console, _metric_table(report), sentences=True)
    if report["post_hoc"] is not None:
        print_table(console, _post_hoc_table(report))
    if report.get("selection") is not None:
        print_table(console, _selection_table(report["selection"]))
    if "baselines" in report:
        print_table(console, _baseline_table(report), sentences=True)


def summary(report: Report) -> str:
    """What a table holds, in one line."""
    scored = "nothing" if report["score_rate"] is None else f"{report['score_rate']:.1%}"
    resolved = "-" if report["resolved_rate"] is None else f"{report['resolved_rate']:.1%}"
    policies = (
        f" of {report['policies']} policies (grouped values: per policy, averaged)" if report["policies"] > 1 else ""
    )
    return (
        f"{counted(report['trajectories'], 'labelled attempt')}{policies} at {counted(report['tasks'], 'task')}, "
        f"{scored} scored, {resolved} resolved; "
        f"{report['unlabelled']:,} unlabelled left out"
    )


def how_far(report: Report) -> list[str]:
    """What intervals and curves are of, and where little can be said of them."""
    lines = [
        f"Intervals: 95 %, {report['replicates']:,} resamples of {counted(report['clusters'], 'cluster')}, seed {report['seed']}"
    ]
    lines += [*thin.few_clusters(report["clusters"]), *thin.mixed_in_one_cluster(report)]
    reached = list(report["tasks_at_k"].values())
    if reached and reached[-1] < reached[0]:
        lines.append(thin.reached_k(report))
    return lines


def notes_of(report: Report) -> dict[str, str]:
    """What has to be known to read a metric, by its name."""
    notes = {metric.name: metric.note for metric in registry.METRICS if metric.note}
    notes |= {
        "auc_within_task_patches": "needs a column patch"
        if report["patches"] is None
        else f"{counted(report['patches'], 'distinct patch', 'distinct patches')}; {report['mixed_patches']:,} with both labels left out",
        "auc_within_task": f"{counted(report['within_pairs'], 'pair')} in {_mixed(report)} with both labels",
        "brier": "miscalibration - discrimination + uncertainty = "
        + "{} - {} + {}".format(
            *(number(report[f"brier_{part}"]) for part in ("miscalibration", "discrimination", "uncertainty"))
        ),
        "ece_noise_floor": f"of calibrated scores, labels drawn independently; 95 % below {number(report['ece_noise_floor_p95'])}",
        "ece_noise_floor_task": f"labels of a task drawn alike (τ² = {number(report['task_effect_variance'])}); 95 % below "
        f"{number(report['ece_noise_floor_task_p95'])}",
        "ece_prior_corrected": ""
        if report["ece_prior_corrected"] is not None
        else "needs the base rates of training and validation",
        "ece_prior_corrected_less_floor": ""
        if report["ece_prior_corrected_less_floor"] is None
        else "the floor is that of the corrected scores; 95 % below "
        f"{number(report['ece_prior_corrected_noise_floor_task_p95'])}",
        "aurc": f"mean error rate of the likelier answer at all coverages; {number(report['aurc_excess'])} above a perfect order",
        "aurc_picks": f"share unresolved of the best-scored attempts; {number(report['aurc_picks_excess'])} above a perfect order",
    }
    for name in thin.WITHIN_TASK[1:]:  # the first one says it already
        if few := thin.beside(report, name).strip(" ()"):
            notes[name] = "; ".join(filter(None, (f"rests on {few}", notes.get(name))))
    notes["auc_within_task_across"] = (
        "pairs of any policies: defined with one attempt of each policy at a task"
        if report["policies"] > 1
        else "only one policy has labels"
    )
    if report["within_pair_share"] is not None:
        notes["auc_pooled"] = f"{report['within_pair_share']:.2%} of its pairs lie within a task"
    if slope := report["ci95"].get("calibration_slope"):
        notes["calibration_slope"] = (
            "overconfident: below 1"
            if slope[1] < 1
            else "underconfident: above 1"
            if slope[0] > 1
            else "neither over- nor underconfidence shown"
        )
    verdict = is_miscalibrated(report)
    if verdict is not None:
        floor = number(report["ece_noise_floor_task_p95"])
        notes["ece_width_10"] = (
            f"miscalibrated: 95 % of calibrated scores stay below {floor}"
            if verdict
            else f"not shown to be miscalibrated: calibrated scores reach {floor}"
        )
    return notes


def groups(report: Report) -> str:
    """What grouped values are means over."""
    return "(task, policy) groups" if report["policies"] > 1 else "tasks"


def _mixed(report: Report) -> str:
    of_several = report["policies"] > 1
    return counted(report["mixed_tasks"], "(task, policy) group" if of_several else "task")


def interval(ends: list[float] | None) -> str:
    """An interval, nothing where there is none."""
    return "" if ends is None else f"{ends[0]:.4f} to {ends[1]:.4f}"


def _table(title: str) -> "Table":
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def curves(report: Report, with_interval: Container[str] | None = None) -> tuple[list[str], list[list[str]]]:
    """(header, rows) of the table of best of k. with_interval: the curves whose intervals are shown; None = all that have some."""
    columns = registry.columns(report)
    intervals = {m.name for m in columns if m.statistic and (with_interval is None or m.name in with_interval)}
    header = ["k"]
    for metric in columns:
        header += [metric.label.replace("tasks", groups(report)), *(["95 %"] if metric.name in intervals else [])]
    rows = []
    for k in sorted({k for metric in columns for k in report[metric.name]}, key=int):
        row = [k]
        for metric in columns:
            value = report[metric.name].get(k)
            row.append(f"{'' if value is None else value}" if metric.statistic is None else number(value))
            if metric.name in intervals:
                row.append(interval(report["ci95"].get(metric.name, {}).get(k)))
        rows.append(row)
    return header, rows


def _curve_table(report: Report) -> "Table":
    across = ["rm_at_k_across"] if thin.shows_across(report) else []
    header, rows = curves(report, with_interval=("rm_at_k", "pass_at_k", *across))
    shown = _table("Best of k")
    for name in header:
        shown.add_column(name, justify="right")
    for row in rows:
        shown.add_row(*row)
    return shown


def _metric_table(report: Report) -> "Table":
    shown = _table("Metrics")
    shown.add_column("")
    shown.add_column("value", justify="right")
    shown.add_column("95 %", justify="right")
    shown.add_column("", style="dim")
    notes = notes_of(report)
    for section, metrics in registry.sections().items():
        shown.add_section()
        shown.add_row(section, style="bold")
        for metric in metrics:
            value, ends = report[metric.name], report["ci95"].get(metric.name)
            shown.add_row(f"  {metric.label}", number(value), interval(ends), notes.get(metric.name, ""))
    return shown


def _post_hoc_table(report: Report) -> "Table":
    shown = _table(
        "Calibrated on validation"
        if report["post_hoc_fitted_on"] == "validation"
        else f"Calibrated on other clusters of this table ({report['post_hoc_fitted_on']})"
    )
    header, rows = calibrated(report)
    for name in header:
        shown.add_column(name, justify="right" if name else "left")
    for row in rows:
        shown.add_row(*row)
    return shown


def calibrated(report: Report) -> tuple[list[str], list[list[str]]]:
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
        for name, values in {"before": report, **report["post_hoc"]}.items()
    ]
    return ["", "ECE, 10 bins", "95 %", "less its floor", "95 %", "Brier score", "log loss"], rows


def _selection_table(selection: dict[str, Any]) -> "Table":
    shown = _table(
        "Selection by score, by tests, by both"
        + (f" ({counted(selection['untested'], 'attempt')} without tests ranked last)" if selection["untested"] else "")
    )
    for name in ("k", "execution free", "execution based", "hybrid"):
        shown.add_column(name, justify="right")
    for k in selection["hybrid"]:
        shown.add_row(k, *(number(selection[name][k]) for name in ("execution_free", "execution_based", "hybrid")))
    return shown


def _baseline_table(report: Report) -> "Table":
    header, rows = beside_baselines(report)
    shown = _table("Without a verifier")
    for name in header:
        shown.add_column(name, justify="right" if name else "left")
    for row in rows:
        shown.add_row(*row)
    return shown


def beside_baselines(report: Report) -> tuple[list[str], list[list[str]]]:
    """(header, rows) of the table that has the baselines beside a report.

    Where hardly any policy has a resolved and an unresolved attempt at one task, as with one attempt of each policy a task, values across
    policies stand beside those within one, or in their place where there are none; this table's with their intervals.
    """
    across = thin.shows_across(report)
    kinds = [*([] if across and report["auc_within_task"] is None else [""]), *(["_across"] if across else [])]
    header: list[str] = [""]
    columns: list[tuple[str, ...]] = []
    for kind in kinds:
        where, auc = " across policies" if kind else "", f"auc_within_task{kind}"
        most = max(report[f"rm_at_k{kind}"], key=int, default="1")
        header += [f"RM@{most}{where}", f"AUC within task{where}{thin.beside(report, auc)}"]
        columns += [(f"rm_at_k{kind}", most), (auc,)]
    rows = []
    for name, values in {"(this table)": report, **report["baselines"]}.items():
        row = [name.replace("_", " ")]
        for path in columns:
            ends = _at(values["ci95"], path) if values is report and path[0].endswith("_across") else None
            row.append(wording.estimate(_at(values, path), ends, digits=4))
        rows.append([*row, number(values.get("auc_pooled")), str(values.get("reason") or values.get("note") or "")])
    return [*header, "AUC pooled", ""], rows


def _at(values: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        values = (values or {}).get(name)
    return values
