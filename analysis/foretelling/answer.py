"""What the runs of which_metric_foretells_rl allow to say: the statistics of its plan, and a sentence for each question.

One verifier is one training is one unit; ranks are taken within a start. Where fewer than FEWEST verifiers of a block have an outcome,
nothing is concluded of that block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.foretelling.causal import causal
from analysis.foretelling.design import CORRELATION, correlation, faults
from analysis.foretelling.equivalence import Equivalence
from analysis.foretelling.estimates import (
    ANY,
    FACTORIAL,
    FEWEST,
    METRICS,
    PRIMARY,
    RIVAL,
    corrected,
    correlation_of,
    exploratory,
    regrets,
    regrets_by_start,
    relations_of,
    rivals,
    with_both,
    with_second_seeds,
)
from analysis.foretelling.plan import ROLES
from analysis.foretelling.reruns import Rerun, RerunSpread, rerun_spread, reruns
from analysis.foretelling.runs import Study, column
from analysis.rl.rank_statistics import Interval, Relation
from rmlab.metrics.sweep_levels import LEVEL
from rmlab.wording import counted, estimate

PAYS = {
    "execution_free": "a verifier alone pays",
    "execution": "execution alone pays",
    "hybrid": "a verifier and execution pay",
}
"""What pays in a block, in words."""


@dataclass(frozen=True)
class Answer:
    """relations: block -> metric -> its correlation with the outcome. p_holm: of (block, metric) in the secondary family. over: |rho| of
    AUC less that of ECE, by block. given: coefficients of AUC and of ECE beside each other, by block. regret: by metric, of
    `execution_free`; regret_by_start: start -> the same among its verifiers. causal: by name of the comparison. repeated: correlation
    between two RL seeds, and the verifiers that have both; mean_of_seeds: the primary correlation with the mean of both for these.
    voluntary: correlation of AUC within task with the outcome in that block, and its verifiers. with_auc: by metric, its correlation
    with AUC within task over the verifiers of `execution_free` that have an outcome and both metrics (None: undefined, or of fewer than
    four), and their number. ends: by block, how many policies end shown below their start, shown above it, and how many there are.
    exploratory: what the plan does not have, of `execution_free`, with its coefficient and count. finished: by block, and of "all", how
    many runs are taken and how many are planned. rerun_spread: what a new start and RL seed change, of "all" conditions and by the role
    of the verifier that pays; reruns: runs beyond the plan beside that."""

    relations: Mapping[str, Mapping[str, Relation]]
    p_holm: Mapping[tuple[str, str], float | None]
    over: Mapping[str, Interval]
    given: Mapping[str, Sequence[Interval]]
    regret: Mapping[str, Interval]
    regret_by_start: Mapping[str, Mapping[str, Interval]]
    causal: Mapping[str, Equivalence]
    repeated: tuple[float | None, int]
    mean_of_seeds: Relation | None
    voluntary: tuple[float | None, int]
    with_auc: Mapping[str, tuple[float | None, int]]
    ends: Mapping[str, tuple[int, int, int]]
    exploratory: Mapping[str, tuple[float | None, int]]
    faults: Sequence[str]
    finished: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    rerun_spread: Mapping[str, RerunSpread] = field(default_factory=dict)
    reruns: Sequence[Rerun] = ()
    sentences: Sequence[str] = field(default_factory=list)

    def shown(self, block: str, metric: str) -> bool:
        """Whether a metric's correlation with the outcome is: the primary one by its p, all others after Holm's correction."""
        p = self.p_holm.get((block, metric))
        if (block, metric) == ("execution_free", PRIMARY):
            one = self.relations[block].get(metric)
            p = None if one is None else one.p
        return p is not None and p <= LEVEL

    def rows(self) -> list[dict[str, Any]]:
        """Every number, a row each: what pages are checked against."""
        rows: list[dict[str, Any]] = []
        for block, of_metric in self.relations.items():
            for name, one in of_metric.items():
                holm_p = self.p_holm.get((block, name))
                about = {"block": block, "metric": name, "kind": "rho"}
                rows.append(
                    {
                        **about,
                        "value": one.rho,
                        "low": one.low,
                        "high": one.high,
                        "p": one.p,
                        "p_holm": holm_p,
                        "n": one.n,
                    }
                )
        for kind, by_block in (
            ("over", self.over),
            ("given_auc", _first(self.given, 0)),
            ("given_ece", _first(self.given, 1)),
        ):
            rows += [{"block": block, "kind": kind, **_ends(one)} for block, one in by_block.items()]
        rows += [
            {"block": "execution_free", "metric": name, "kind": "regret", **_ends(one)}
            for name, one in self.regret.items()
        ]
        rows += [
            {
                "block": "execution_free",
                "metric": name,
                "kind": "regret_by_start",
                "start": start,
                **_ends(of_metric[name]),
            }
            for start, of_metric in self.regret_by_start.items()
            for name in (PRIMARY, RIVAL, ANY)
        ]
        for name, (rho, n) in self.with_auc.items():
            rows.append({"block": "execution_free", "metric": name, "kind": "with_auc", "value": rho, "n": n})
        for block, (below, above, n) in self.ends.items():
            rows.append({"block": block, "kind": "ends_below", "value": below, "n": n})
            rows.append({"block": block, "kind": "ends_above", "value": above, "n": n})
        for name, (rho, n) in self.exploratory.items():
            rows.append({"block": "execution_free", "metric": name, "kind": "exploratory", "value": rho, "n": n})
        rho, pairs = self.repeated
        rows.append({"block": "execution_free", "kind": "two_seeds", "value": rho, "n": pairs})
        if (mean := self.mean_of_seeds) is not None:
            ends = {"value": mean.rho, "low": mean.low, "high": mean.high}
            rows.append({"block": "execution_free", "metric": PRIMARY, "kind": "mean_of_seeds", **ends})
        for name, effect in self.causal.items():
            ends = {"value": effect.difference, "low": effect.low, "high": effect.high}
            said = {"p": effect.p, "p_alike": effect.p_alike, "least_shown": effect.least_shown, "words": effect.words}
            rows.append({"kind": "causal", "metric": name, "n": effect.seeds, **ends, **said})
        for role, spread in self.rerun_spread.items():
            rows.append({"kind": "rerun_deviation", "metric": role, "value": spread.deviation, "n": spread.runs})
            rows.append({"kind": "rerun_conditions", "metric": role, "n": spread.conditions})
        for again in self.reruns:
            ends = {"value": again.outcome, "low": again.low, "high": again.high}
            rows.append({"kind": "rerun", "block": again.block, "metric": again.name, **ends, "n": again.outcomes})
        for block, (finished, planned) in self.finished.items():
            rows.append({"kind": "runs", "block": block, "value": finished, "n": planned})
        return rows


def _first(given: Mapping[str, Sequence[Interval]], place: int) -> dict[str, Interval]:
    return {block: both[place] for block, both in given.items()}


def _ends(one: Interval) -> dict[str, float]:
    return {"value": one.value, "low": one.low, "high": one.high}


def answer(study: Study) -> Answer:
    """All of it."""
    relations, over, given = dict[str, dict[str, Relation]](), dict[str, Interval](), dict[str, list[Interval]]()
    for block in FACTORIAL:
        runs = study.of(block)
        relations[block] = relations_of(runs) if len(runs) >= FEWEST else {}
        if relations[block] and len(both := with_both(runs)) >= FEWEST:
            over[block], given[block] = rivals(both)
    free = study.of("execution_free")
    lost = regrets(free) if len(free) >= FEWEST else {}
    rows = [run.verifier for run in free]
    found = Answer(
        relations,
        corrected(relations),
        over,
        given,
        lost,
        regrets_by_start(free) if lost else {},
        causal(study),
        *with_second_seeds(study),
        correlation_of(
            column(study.of("voluntary"), PRIMARY),
            [run.outcome for run in study.of("voluntary")],
            [run.start for run in study.of("voluntary")],
        ),
        {
            name: correlation_of(column(free, PRIMARY), column(free, name), [run.start for run in free])
            for name in METRICS
            if name != PRIMARY
        },
        {
            block: (sum(run.moved < 0 for run in runs), sum(run.moved > 0 for run in runs), len(runs))
            for block in ("execution_free", "execution", "hybrid")
            if (runs := study.of(block))
        },
        exploratory(free) if len(free) >= FEWEST else {},
        faults(rows, "have an outcome"),
        {block: (len(study.of(block)), study.planned(block)) for block in study.blocks}
        | {"all": (len(study.taken), len(study.cells))},
        {role or "all": spread for role in (None, *ROLES) if (spread := rerun_spread(study, role)) is not None},
        reruns(study),
    )
    return Answer(**{**vars(found), "sentences": _sentences(study, found)})


def _sentences(study: Study, found: Answer) -> list[str]:
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
        verb = "foretells" if p is not None and p <= LEVEL else "is not shown to foretell"
        rho = estimate(one.rho, (one.low, one.high), 2, signed=True)
        said.append(
            f"Where {words}, AUC within task {verb} pass@1 after RL: ρ = {rho}, p = {p or 1:.4f}, {there} verifiers."
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
    shown = [
        f"{METRICS[name].name} ({block})" for (block, name), p in found.p_holm.items() if p is not None and p <= LEVEL
    ]
    said.append(f"After Holm's correction these are shown too: {', '.join(shown) or 'none'}.")
    if found.regret:
        lost = {name: f"{100 * found.regret[name].value:.1f}" for name in (PRIMARY, RIVAL, ANY)}
        said.append(
            f"Choosing one of four verifiers costs {lost[PRIMARY]} points by AUC within task, {lost[RIVAL]} by ECE, {lost[ANY]} by none."
        )
    said += [
        f"Of {n} policies that {PAYS[block]}, {below} are shown to end below their start, {above} above it."
        for block, (below, above, n) in found.ends.items()
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
        said.append(
            f"{words[0].upper()}{words[1:]} (margin 3 points): {', '.join(n for n, o in found.causal.items() if o.words == words)}."
        )
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
