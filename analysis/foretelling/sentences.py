"""The answer of which_metric_foretells_rl in words: a sentence for each question of its plan, and what cannot be concluded."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.foretelling.answer import Answer
from analysis.foretelling.design import CORRELATION, correlation
from analysis.foretelling.estimates import ANY, FACTORIAL, FEWEST, METRICS, PRIMARY, RIVAL, with_both
from analysis.foretelling.runs import Study
from analysis.rl.rank_statistics import Interval
from rmlab.metrics.sweep_levels import LEVEL
from rmlab.wording import counted, estimate

PAYS = {
    "execution_free": "a verifier alone pays",
    "execution": "execution alone pays",
    "hybrid": "a verifier and execution pay",
    "voluntary": "a verifier of voluntary evidence alone pays",
}
"""What pays in a block, in words."""


def sentences(study: Study, found: Answer) -> list[str]:
    """What can and cannot be concluded, a question each."""
    said = []
    for block, words in ((block, PAYS[block]) for block in FACTORIAL):
        of_metric, there = found.relations[block], f"{len(study.of(block))} of {study.planned(block)}"
        if PRIMARY not in of_metric:
            said.append(
                f"Where {words} nothing can be concluded: {there} verifiers have an outcome, {FEWEST} are needed."
            )
            continue
        one, p = (
            of_metric[PRIMARY],
            of_metric[PRIMARY].p if block == "execution_free" else found.p_holm.get((block, PRIMARY)),
        )
        corrected = "" if block == "execution_free" else " after Holm's correction"
        verb = "foretells" if p is not None and p <= LEVEL else "is not shown to foretell"
        rho = estimate(one.rho, (one.low, one.high), 2, signed=True)
        said.append(
            f"Where {words}, AUC within task {verb} pass@1 after RL: ρ = {rho}, p = {1 if p is None else p:.4f}{corrected}, "
            f"{there} verifiers."
        )
        both = [run.verifier for run in with_both(study.of(block))]
        if block not in found.over:
            said.append(
                f"Whether AUC rather than ECE does is not concluded where {words}: {counted(len(both), 'verifier')} have both, "
                f"{FEWEST} are needed."
            )
            continue
        said.append(_rivals_said(found.over[block], both, words))
        auc, ece = (estimate(g.value, (g.low, g.high), 2, signed=True) for g in found.given[block])
        said.append(f"Beside each other, where {words}: AUC within task {auc}, ECE {ece} (coefficients of ranks).")
    shown = {
        block: [
            METRICS[name].name for name in METRICS if (p := found.p_holm.get((block, name))) is not None and p <= LEVEL
        ]
        for block in FACTORIAL
    }
    which = "; ".join(f"where {PAYS[block]} {', '.join(names)}" for block, names in shown.items() if names)
    said.append(f"After Holm's correction these are shown too: {which or 'none'}.")
    for block, regret in found.regret.items():
        lost = {name: f"{100 * regret[name].value:.1f}" for name in (PRIMARY, RIVAL, ANY)}
        said.append(
            f"Where {PAYS[block]}, choosing one of four verifiers costs {lost[PRIMARY]} points by AUC within task, {lost[RIVAL]} by ECE, "
            f"{lost[ANY]} by none."
        )
    said += [
        f"Of {one.runs} policies that {PAYS[block]}, {one.below} are shown to end below their start, {one.above} above it."
        for (block, start), one in found.ends.items()
        if block in PAYS and not start
    ]
    agreement, pairs = found.repeated
    if agreement is not None:
        said.append(f"Two RL seeds of one verifier agree by ρ = {agreement:+.2f} over {counted(pairs, 'verifier')}.")
    if (mean := found.mean_of_seeds) is not None and mean.rho is not None:
        ends = estimate(mean.rho, (mean.low, mean.high), 2, signed=True)
        said.append(
            f"With the mean of both seeds for these, ρ of AUC within task is {ends} where a verifier alone pays."
        )
    alone, count = found.voluntary
    if alone is not None:
        said.append(f"With voluntary evidence ρ is {alone:+.2f} over {counted(count, 'verifier')}, without a test.")
    for words in dict.fromkeys(one.words for one in found.causal.values()):
        which = ", ".join(name for name, one in found.causal.items() if one.words == words)
        said.append(f"{words[0].upper()}{words[1:]} (margin 3 points, each by its own test): {which}.")
    if not found.causal:
        said.append("Of the causal experiments no comparison has three seeds yet.")
    said.append("The unit is one training of a verifier; the causal experiments are of one or two, and of one start.")
    return said


def _rivals_said(over: Interval, rows: Sequence[Mapping[str, Any]], words: str) -> str:
    """rows: the verifiers of this very block, which may be fewer or others than those of another one."""
    ends = estimate(over.value, (over.low, over.high), 2, signed=True)
    if not abs(correlation(rows)) < CORRELATION:
        return f"Whether AUC rather than ECE does is not concluded where {words}: the two are correlated here (|ρ| less |ρ| = {ends})."
    better = (
        "AUC rather than ECE"
        if over.low > 0
        else "ECE rather than AUC"
        if over.high < 0
        else "neither rather than the other"
    )
    return f"Where {words}, {better} orders the outcomes (|ρ| less |ρ| = {ends})."
