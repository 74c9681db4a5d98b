"""The answer of which_metric_foretells_rl as a page: its sentences and tables, and what is missing."""

from typing import Any

import numpy as np

from analysis.foretelling.answer import Answer
from analysis.foretelling.causal import POOLED, moved, unpaired
from analysis.foretelling.equivalence import Equivalence
from analysis.foretelling.estimates import ANY, METRICS, PRIMARY, RIVAL
from analysis.foretelling.runs import NO_RUN, Study
from rmlab.wording import estimate, number


def markdown(study: Study, found: Answer) -> str:
    """The check of the design, the answer, the table, the causal comparisons, and what is missing."""
    lines = [
        "**Design.** " + (" ".join(found.faults) or "Met."),
        "",
        *found.sentences,
        "",
        "| metric | ρ, alone | p | p (Holm) | ρ, hybrid | p (Holm) | points lost by choosing by it | ρ with AUC within task |",
        "|---" * 8 + "|",
    ]
    for name, metric in METRICS.items():
        alone, hybrid = (found.relations[block].get(name) for block in ("execution_free", "hybrid"))
        lost = found.regret.get(name)
        holm = [number(found.p_holm.get((block, name)), 4) for block in ("execution_free", "hybrid")]
        cells = [
            metric.name,
            _rho(alone),
            number(alone.p if alone else None, 4),
            holm[0],
            _rho(hybrid),
            holm[1],
            _points_lost(lost),
            number(found.with_auc[name][0] if name in found.with_auc else None, 2),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"| *{ANY}* |  |  |  |  |  | {_points_lost(found.regret.get(ANY))} |  |", ""]
    if found.exploratory:
        lines += ["Exploratory, not in the plan:", "", "| within starts | ρ | verifiers |", "|---" * 3 + "|"]
        lines += [f"| {name} | {number(rho, 2)} | {n} |" for name, (rho, n) in found.exploratory.items()]
        lines.append("")
        for start, of_metric in found.regret_by_start.items():
            by = ", ".join(f"{_points_lost(of_metric[name])} by {METRICS[name].name}" for name in (PRIMARY, RIVAL))
            lines += [
                f"Points lost by choosing one of four verifiers of start {start}: {by}, {_points_lost(of_metric[ANY])} by none.",
                "",
            ]
    if found.causal:
        lines += [
            "| change of the reward | RL seeds | points of pass@1, 90 % interval | p, alike within ± 3 | p, different | "
            "least that 80 % power shows | said |",
            "|---" * 7 + "|",
        ]
        lines += [
            f"| {name} | {one.seeds} | {_points_changed(one)} | {one.p_alike:.4f} | {one.p:.4f} | {100 * one.least_shown:.1f} | "
            f"{one.words} |"
            for name, one in found.causal.items()
        ]
        lines.append("")
    if apart := unpaired(study):
        lines += [*(f"- not compared: {line}" for line in apart), ""]
    if changed := moved(study):
        lines += [
            "| what pays | verifier | condition | runs | AUC within task | AUC pooled | ECE | pass@1 after RL | below its start | above | "
            "AUC within task, pool | ECE, pool | advantage cosine, pool |",
            "|---" * 13 + "|",
        ]
        for row in changed:
            metrics = [number(row[name]) for name in ("auc_within_task", "auc_pooled", "ece_width_10", "pass_at_1")]
            about = [row[name] for name in ("block", "verifier", "condition")]
            ends = [str(row[name]) for name in ("below", "above")]
            pooled = [number(row[f"pool_{name}"]) for name in POOLED]
            lines.append(f"| {' | '.join([*about, str(row['runs']), *metrics, *ends, *pooled])} |")
        lines += [
            "",
            "Means over seeds. AUC and ECE without a word: as it pays, on the start's own attempts at validation tasks before the first "
            "step. Pool: the frozen pool (-: what is paid is not known there). Below, above: how many runs are shown to end so (95 % "
            "interval, paired by task). The attempts at held-out tasks are made once for all runs that begin from a start with one RL "
            "seed, but each run makes these attempts at validation tasks itself. Few of these tasks have both labels, so maps that keep "
            "all ranks may differ here in AUC within task. On the frozen pool they do not (`check.py`).",
            "",
        ]
    lines += _again(found)
    lines += [f"**Runs.** {', '.join(f'{len(study.of(b))} of {study.planned(b)} {b}' for b in study.blocks)}.", ""]
    again = {run.start for run in study.taken.values()}
    for start in sorted({run.cell["start"] for run in study.taken.values()}):
        if (sets := sum(name.split(" ")[0] == start for name in again)) > 1:
            lines += [f"Start {start} has {sets} sets of weights, which are ranked apart.", ""]
    lines += _left_out(study) or ["Nothing was left out."]
    return "\n".join(lines) + "\n"


def _again(found: Answer) -> list[str]:
    """What a new start and RL seed change, and the reruns beside it."""
    if not found.rerun_spread:
        return []
    spread = found.rerun_spread["all"]
    parts = ", ".join(
        f"{one.deviation:.4f} where the {role} verifier pays"
        for role, one in found.rerun_spread.items()
        if role != "all"
    )
    lines = [
        f"**A new start and RL seed.** {spread.runs} runs of {spread.conditions} causal conditions were repeated with starts and verifiers "
        f"trained again and another RL seed: within a condition pass@1 after RL has a standard deviation of {spread.deviation:.4f} "
        f"({parts}; {spread.degrees} degrees of freedom at most, since conditions of one seed share a start).",
        "",
    ]
    if found.reruns:
        lines += [
            "| rerun beyond the plan | pass@1 after RL | 95 % interval for it | runs of the plan |",
            "|---" * 4 + "|",
        ]
        lines += [
            f"| {one.name} | {one.outcome:.3f}, {'inside' if one.inside else 'outside'} | [{one.low:.3f}, {one.high:.3f}] | "
            f"{one.outcomes} |"
            for one in found.reruns
        ]
        lines.append("")
    return lines


def _left_out(study: Study) -> list[str]:
    """A line a cell or run with its reason; cells of a block that have just not been run share one."""
    lines = [f"- left out: {name}: {reason}" for name, reason in study.left_out if reason != NO_RUN]
    missing = {name for name, reason in study.left_out if reason == NO_RUN}
    for block in study.blocks:
        names = [cell["name"] for cell in study.cells if cell["block"] == block and cell["name"] in missing]
        if names:
            which = "" if len(names) == study.planned(block) else f": {', '.join(names)}"
            lines.append(f"- left out: {len(names)} of {study.planned(block)} {block}: {NO_RUN}{which}")
    return lines


def _rho(one: Any) -> str:
    return "-" if one is None else estimate(one.rho, (one.low, one.high), 2, signed=True)


def _points_lost(one: Any) -> str:
    return "-" if one is None or np.isnan(one.value) else estimate(100 * one.value, (100 * one.low, 100 * one.high), 1)


def _points_changed(one: Equivalence) -> str:
    return estimate(100 * one.difference, (100 * one.low, 100 * one.high), 1, signed=True)
