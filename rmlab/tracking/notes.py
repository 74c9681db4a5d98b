"""Markdown that the MLflow UI shows beside a run or an experiment, short enough for a tag."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rmlab.metrics import thin
from rmlab.tracking.store import NOTE as NOTE
from rmlab.tracking.tags import LONGEST_TAG
from rmlab.tracking.views import EVALUATION
from rmlab.wording import counted, estimate, number

_number = partial(number, absent="")

RATES = [name for name in EVALUATION if name != "rm_at_k"]


def summary_note(question: str, answer: str, table: str, rest: str) -> str:
    """What a sweep's summary run says of itself: question, answer, table, where it comes from.

    The UI shows the first lines alone until "Show more". A table that is too long for a tag is cut after a line, and the note
    says where the whole one is.
    """
    head, lines, cut = f"**{question}** {answer}\n\n", table.split("\n"), ""
    while len(lines) > 1 and len(head + "\n".join(lines) + f"{cut}\n\n{rest}") > LONGEST_TAG:
        lines.pop()
        cut = "\n\n(the rest of the table: artifact `table.md`)"
    return head + "\n".join(lines) + f"{cut}\n\n{rest}"


def run_note(
    title: str,
    report: Mapping[str, Any],
    baselines: Mapping[str, Mapping[str, Any]],
    again: str,
    cautions: Sequence[str] = (),
) -> str:
    """What the page of a verifier's run says first: its headline values with their intervals, beside the rules that read no weights.

    report: metrics by the contract's names; baselines: the same of each rule. again: how to get the run again. cautions: sentences of
    `rmlab.metrics.thin.cautions`, what has to be known before the headline is believed.
    """
    ks = sorted(report["rm_at_k"], key=int)
    shown = list(dict.fromkeys([*(k for k in ks if k == "8"), ks[-1]]))
    within, across = "auc_within_task", "auc_within_task_across"
    values = [
        *(f"RM@{k} {_number(report['rm_at_k'][k])}" for k in shown),
        *(
            [f"AUC within task {estimate(report[within], report['ci95'].get(within))}{thin.beside(report, within)}"]
            if report[within] is not None
            else []
        ),
        *(
            [f"AUC within task across policies {estimate(report[across], report['ci95'].get(across))}"]
            if thin.shows_across(report)
            else []
        ),
        f"ECE {_number(report['ece_width_10'])} (less its floor {_number(report.get('ece_less_floor'))})",
    ]
    passed = [f"pass@{k} {_number(report['pass_at_k'].get(k))}" for k in dict.fromkeys(["1", ks[-1]])]
    clusters = report["clusters"]
    over = "tasks" if clusters == report["tasks"] else counted(clusters, "cluster of tasks", "clusters of tasks")
    head = ["", *(f"RM@{k}" for k in shown), "AUC within task", "AUC pooled", "ECE", "ECE less floor", "Brier"]
    lines = [
        f"**{title}**: {', '.join(values)} ({', '.join(passed)}; {report['tasks']} tasks, {report['trajectories']} attempts)",
        "",
        *([f"Beware: {' '.join(cautions)}", ""] if cautions else []),
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
    ]
    for name, found in {"this verifier": report, **baselines}.items():
        row = [*((found.get("rm_at_k") or {}).get(k) for k in shown), *(found.get(metric) for metric in RATES)]
        if any(value is not None for value in row):
            lines.append(f"| {' | '.join([name.replace('_', ' '), *(_number(value) for value in row)])} |")
    lines += [
        "",
        f"Interval: 95 % over {over}. Charts: `rm_at_k` has k as its step. Artifacts: `reliability.svg`, `browse.html` (the attempts, "
        "most confident mistakes first), `report.json` (all metrics), `scores.parquet`, `selection.json` (what was trained on), "
        "`config.yaml`.",
        "",
        f"`{again}`",
    ]
    return "\n".join(lines)[:LONGEST_TAG]
