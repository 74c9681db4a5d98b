"""How good is the verifier that the levels of each sweep are compared with, beside what needs no verifier?

Sweeps that share the trainings of their baseline share a row: an unusual baseline would move all of their differences together.
"""

from typing import Any

import numpy as np

from analysis.pages.marked_text import MarkedText
from analysis.pages.sources import plain
from analysis.studies.effects import OWN, pool_value
from analysis.studies.planned_study import PlannedStudy
from analysis.sweep.level_tests import metric_words
from analysis.sweep.rules import BOUND
from analysis.sweep.tracked import FinishedCell, SweepRuns, mean_over_seeds
from rmlab.metrics.sweep_levels import FAMILY
from rmlab.wording import number

NAME = "study_references"
METRICS = (*FAMILY, "ece_prior_corrected", "ece_platt")
RULES = {
    "random": "an attempt at random",
    "oracle": "a perfect verifier",
    "last_value": "rule: the last value shown is the expected one",
    "majority": "rule: the most frequent patch",
    "shape": "rule: shape of the attempt",
    "length": "rule: length of the attempt",
}
"""Baselines that are shown, and their names; see `rmlab.baselines`."""
FITTED = ("shape", "length")


def rows(study: PlannedStudy) -> list[dict[str, Any]]:
    """The pool that verifiers are judged on, each baseline, and the rules; nothing without a finished cell."""
    groups = [group for group in study.groups.values() if group.tests]
    if not groups:
        return []
    report = groups[0].cells[0].report
    pool = {
        name: report.get(name)
        for name in ("trajectories", "tasks", "clusters", "policies", "resolved_rate", "mixed_tasks")
    }
    found: list[dict[str, Any]] = [{"kind": "pool", "name": OWN} | pool]
    shared: dict[tuple[Any, ...], dict[str, Any]] = {}
    for group in groups:
        values = _baseline(group)
        key = tuple(tuple(value) for value in values.values())
        row = shared.setdefault(key, {"kind": "baseline", "sweeps": "", "trainings": len(values[FAMILY[0]])})
        row["sweeps"] = f"{row['sweeps']} {group.sweep}".strip()
        row |= {metric: float(np.mean(value)) if value else None for metric, value in values.items()}
        for metric, (low, high) in _intervals(group).items():
            row |= {f"{metric}_low": low, f"{metric}_high": high}
    found += [row | {"name": row["sweeps"].split()[0]} for row in shared.values()]
    for rule, of_rule in _cells(groups[0])[0].baselines.items():
        if rule in RULES and "rm_at_k" in of_rule:
            k = max(of_rule["rm_at_k"], key=int)
            values = {"rm_at_k": of_rule["rm_at_k"][k]} | {metric: of_rule.get(metric) for metric in FAMILY[1:]}
            found.append({"kind": "rule", "name": rule} | values)
    return found


def _cells(group: SweepRuns) -> list[FinishedCell]:
    """Those of the baseline, by seed; of its first arm."""
    return next(cells for arm in group.arms if (cells := group.at(group.baseline, arm)))


def _baseline(group: SweepRuns) -> dict[str, list[float]]:
    """The values of the baseline's trainings in each metric, by seed."""
    cells = _cells(group)
    return {metric: [v for cell in cells if (v := pool_value(cell, metric, OWN)) is not None] for metric in METRICS}


def _intervals(group: SweepRuns) -> dict[str, tuple[float, float]]:
    """Of best of k and of AUC within task of the baseline's trainings: the mean of their 95 % intervals' ends, over tasks."""
    cells = _cells(group)
    k = max(cells[0].report["rm_at_k"], key=int)
    ends = {
        "rm_at_k": mean_over_seeds(cells, "rm_at_k", k),
        "auc_within_task": mean_over_seeds(cells, "auc_within_task"),
    }
    return {metric: (low, high) for metric, (_, low, high) in ((m, e) for m, e in ends.items() if e) if low == low}


def as_marked(study: PlannedStudy, found: list[dict[str, Any]]) -> MarkedText:
    """The section of the page. found: `rows`."""
    text = MarkedText(f"{NAME}.csv")
    if not found:
        return text
    pool, group = found[0], next(group for group in study.groups.values() if group.tests)
    where = "kind=pool"
    text.say("## How good is the baseline?\n\nVerifiers are judged on ")
    text.number(f"{pool['trajectories']:,}", where, "trajectories").say(" attempts at ")
    text.number(f"{pool['tasks']:,}", where, "tasks").say(" tasks")
    if pool["clusters"]:
        text.say(" in ").number(f"{pool['clusters']:,}", where, "clusters").say(" clusters of similar functions")
    text.say("; ").number(f"{pool['resolved_rate']:.2f}", where, "resolved_rate")
    text.say(" of the attempts are resolved. AUC within task is a mean over the ")
    text.number(f"{pool['mixed_tasks']:,}", where, "mixed_tasks")
    text.say(
        " pairs of a task and a policy with attempts of both labels. A training set has its own ratio of labels, half resolved unless a "
        "sweep varies it, and that shifts the scores; `ECE, prior corrected` is the ECE without this shift.\n\n"
    )
    head = [
        "verifier or rule",
        *(metric_words(group, metric) for metric in FAMILY),
        "ECE, prior corrected",
        "ECE after Platt scaling",
    ]
    text.say(f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n")
    for row in found[1:]:
        name = RULES.get(row["name"], "") or f"baseline of {', '.join(row['sweeps'].split())}"
        text.say(f"| {name}")
        for metric in METRICS:
            text.say(" | ")
            if row.get(metric) is not None:
                text.number(number(row[metric]), f"kind={row['kind']} name={plain(row['name'])}", metric)
        text.say(" |\n")
    text.say("\n")
    if any(row["name"] in FITTED for row in found):
        text.say(
            "The rules of shape and length are fitted on the validation part: they are calibrated without telling attempts apart.\n\n"
        )
    return text.add(_beside_rules(group, found))


def _beside_rules(group: SweepRuns, found: list[dict[str, Any]]) -> MarkedText:
    """Whether the first baseline's intervals lie above the best rule that needs no verifier; of each metric a sentence."""
    text = MarkedText(f"{NAME}.csv")
    baseline = next((row for row in found if row["kind"] == "baseline" and group.sweep in row["sweeps"].split()), None)
    rules = [row for row in found if row["kind"] == "rule" and row["name"] != BOUND]
    for metric in ("rm_at_k", "auc_within_task"):
        known = [row for row in rules if row.get(metric) is not None]
        if baseline is None or baseline.get(f"{metric}_low") is None or not known:
            continue
        best = max(known, key=lambda row: row[metric])
        where = f"kind=baseline name={plain(baseline['name'])}"
        text.say(" " if text.text else "").say(
            f"The interval over tasks of the first baseline's {metric_words(group, metric)}, ["
        )
        text.number(number(baseline[f"{metric}_low"]), where, f"{metric}_low").say(", ")
        text.number(number(baseline[f"{metric}_high"]), where, f"{metric}_high").say("], ")
        text.say("lies above" if baseline[f"{metric}_low"] > best[metric] else "does not lie above")
        rule = RULES[best["name"]].removeprefix("rule: ")
        text.say(f' the best rule without a verifier, "{rule}" (').number(
            number(best[metric]), f"kind=rule name={best['name']}", metric
        )
        text.say("; unpaired).")
    return text.say("\n\n") if text.text else text
