"""The answer of which_metric_foretells_rl as a page: its sentences and tables, and what is missing."""

from typing import Any

import numpy as np

from analysis.foretelling.answer import Answer
from analysis.foretelling.as_paid import NAME as AS_PAID
from analysis.foretelling.causal import POOLED, moved, unpaired
from analysis.foretelling.ends import MEANS
from analysis.foretelling.equivalence import Equivalence
from analysis.foretelling.estimates import ANY, FACTORIAL, GOOD, METRICS, PRIMARY, RIVAL
from analysis.foretelling.runs import NO_RUN, Study
from analysis.foretelling.sentences import PAYS
from rmlab.wording import counted, estimate, number

RANKED = ("execution_free", "second_seed", "hybrid", "execution", "voluntary")
"""Blocks whose runs are ranked within a start or stand beside those; causal experiments are paired by their weights."""


def markdown(study: Study, found: Answer) -> str:
    """The check of the design, the answer, the table, the causal comparisons, and what is missing."""
    lines = [
        "**Design.** " + (" ".join(found.faults) or "Met."),
        "",
        *found.sentences,
        "",
        "| metric | ρ, alone | p | p (Holm) | points lost by choosing by it, alone | ρ, hybrid | p (Holm) | points lost, hybrid | "
        "ρ with AUC within task |",
        "|---" * 9 + "|",
    ]
    for name, metric in METRICS.items():
        alone, hybrid = (found.relations[block].get(name) for block in ("execution_free", "hybrid"))
        lost = [_points_lost(found.regret.get(block, {}).get(name)) for block in FACTORIAL]
        holm = [number(found.p_holm.get((block, name)), 4) for block in ("execution_free", "hybrid")]
        cells = [
            metric.name,
            _rho(alone),
            number(alone.p if alone else None, 4),
            holm[0],
            lost[0],
            _rho(hybrid),
            holm[1],
            lost[1],
            number(found.with_auc[name][0] if name in found.with_auc else None, 2),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    any_lost = [_points_lost(found.regret.get(block, {}).get(ANY)) for block in FACTORIAL]
    lines += [f"| *{ANY}* |  |  |  | {any_lost[0]} |  |  | {any_lost[1]} |  |", ""]
    for block, of_name in found.exploratory.items():
        lines += [f"Exploratory, not in the plan, where {PAYS[block]}:", ""]
        lines += ["| within starts | ρ | verifiers |", "|---" * 3 + "|"]
        lines += [f"| {name} | {number(rho, 2)} | {n} |" for name, (rho, n) in of_name.items()]
        lines += [*_as_paid(found, block), ""]
        for start, of_metric in found.regret_by_start.get(block, {}).items():
            by = ", ".join(f"{_points_lost(of_metric[name])} by {METRICS[name].name}" for name in (PRIMARY, RIVAL))
            lines += [
                f"Points lost by choosing one of four verifiers of start {start}: {by}, {_points_lost(of_metric[ANY])} by none.",
                "",
            ]
    lines += _ends(found) + _beside_execution(found)
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
    lines += _weights(study)
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


def _ends(found: Answer) -> list[str]:
    """What became of policies, a row a block and start."""
    if not found.ends:
        return []
    lines = [
        f"| block | start | runs | {' | '.join(MEANS.values())} | end below their start | shown below | shown above |",
        "|---" * (6 + len(MEANS)) + "|",
    ]
    for (block, start), one in found.ends.items():
        means = [number(one.means.get(name)) for name in MEANS]
        counts = [str(count) for count in (one.collapsed, one.below, one.above)]
        lines.append(f"| {' | '.join([block, start or 'both', str(one.runs), *means, *counts])} |")
    return [
        *lines,
        "",
        "Means over runs, shown and not tested; pass@1 on the held-out tasks of the outcome, the hacking gap at validation tasks.",
        "",
    ]


def _as_paid(found: Answer, block: str) -> list[str]:
    """Lines of a block's exploratory table."""
    if (one := found.as_paid.get(block)) is None:
        return []
    return [
        f"| {AS_PAID} and pass@1 | {_rho(one.relation)} | {one.relation.n} |",
        *(
            f"| {AS_PAID} and pass@1, start {start}{which} | {number(rho, 2)} | {n} |"
            for which, by_start in (("", one.by_start), (f", AUC {GOOD:.2f} or more", one.good_by_start))
            for start, (rho, n) in by_start.items()
        ),
    ]


def _beside_execution(found: Answer) -> list[str]:
    """How hybrid policies end beside one that execution paid from the same weights, a paragraph a start."""
    lines = []
    for start, one in found.beside_execution.items():
        runs, seed = len(one.execution), " with another RL seed" if one.other_seed else ""
        carries = "the deviation of that one run" if runs == 1 else f"what these {runs} runs deviate by"
        policies = counted(len(one.differences), "hybrid policy", "hybrid policies")
        lines += [
            f"**Beside execution from the same weights.** Looked at afterwards, beside {counted(runs, 'run')} of execution{seed} "
            f"({', '.join(one.execution)}): pass@1 after RL of {policies} of start {start} that began from the same weights differs from "
            f"it by {100 * one.mean:+.1f} points on average; {one.below} are shown below it and {one.above} above (95 % interval, paired "
            f"by task). Every one of these differences carries {carries}.",
            "",
        ]
    return lines


def _weights(study: Study) -> list[str]:
    """Which blocks that are ranked have runs from several sets of weights of one start; and that the blocks differ in them."""
    lines = []
    sets: dict[tuple[str, str], set[str]] = {}
    for block in RANKED:
        for run in study.of(block):
            sets.setdefault((block, run.cell["start"]), set()).add(run.start)
    for (block, start), own in sets.items():
        if len(own) > 1:
            lines.append(
                f"The runs of {block} begin from {len(own)} sets of weights of start {start}, which are ranked apart."
            )
    free = {start: own for (block, start), own in sets.items() if block == "execution_free"}
    others = [f"{block} ({start})" for (block, start), own in sets.items() if not own <= free.get(start, own)]
    if others:
        lines.append(
            f"From other weights of their start than execution_free begin runs of {', '.join(others)}: it was trained again for them."
        )
    return [" ".join(lines), ""] if lines else []


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
