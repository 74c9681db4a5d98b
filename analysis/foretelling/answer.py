"""What the runs of which_metric_foretells_rl allow to say: the statistics of its plan, and a sentence for each question.

One verifier is one training is one unit; ranks are taken within a start. Where fewer than FEWEST verifiers of a block have an outcome,
nothing is concluded of that block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.foretelling.causal import causal
from analysis.foretelling.design import CORRELATION, correlation, faults, known
from analysis.foretelling.equivalence import Equivalence
from analysis.foretelling.runs import PaidRun, Study, column
from analysis.rl.rank_statistics import (
    Interval,
    Relation,
    losses,
    rank_correlations,
    rank_regression,
    regret,
    relation,
    sets_of,
    stronger,
    unit_weights,
)
from rmlab.metrics.sweep_levels import LEVEL, LevelTest, holm
from rmlab.wording import counted, estimate

FEWEST = 16
"""Verifiers with an outcome; the plan has the power with so many."""
PRIMARY, RIVAL = "auc_within_task", "ece_width_10"
ANY = "any verifier"
FACTORIAL = ("execution_free", "hybrid")


@dataclass(frozen=True)
class Metric:
    """name: as axes and tables write it. sign: 1 where a larger value is meant to be better."""

    name: str
    sign: int


METRICS = {
    PRIMARY: Metric("AUC within task", 1),
    RIVAL: Metric("ECE", -1),
    "ece_less_floor": Metric("ECE less floor", -1),
    "rm_at_most": Metric("RM@k", 1),
    "auc_pooled": Metric("AUC pooled", 1),
    "brier": Metric("Brier", -1),
    "advantage_cosine": Metric("advantage cosine", 1),
    "advantage_cosine_all": Metric("advantage cosine, all", 1),
}


@dataclass(frozen=True)
class Answer:
    """relations: block -> metric -> its correlation with the outcome. p_holm: of (block, metric) in the secondary family. over: |rho|
    of AUC less that of ECE, by block. given: coefficients of AUC and of ECE beside each other, by block. regret: by metric, of
    `execution_free`. causal: by name of the comparison. repeated: correlation between two RL seeds, and the verifiers that have both;
    mean_of_seeds: the primary correlation with the mean of both for these. voluntary: correlation of AUC within task with the outcome in
    that block, and its verifiers. with_auc: by metric, its correlation with AUC within task over the verifiers of `execution_free` that
    have an outcome and both metrics (None: undefined, or of fewer than four), and their number."""

    relations: Mapping[str, Mapping[str, Relation]]
    p_holm: Mapping[tuple[str, str], float | None]
    over: Mapping[str, Interval]
    given: Mapping[str, Sequence[Interval]]
    regret: Mapping[str, Interval]
    causal: Mapping[str, Equivalence]
    repeated: tuple[float | None, int]
    mean_of_seeds: Relation | None
    voluntary: tuple[float | None, int]
    with_auc: Mapping[str, tuple[float | None, int]]
    faults: Sequence[str]
    sentences: Sequence[str] = field(default_factory=list)

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
        for name, (rho, verifiers) in self.with_auc.items():
            rows.append({"block": "execution_free", "metric": name, "kind": "with_auc", "value": rho, "n": verifiers})
        rho, pairs = self.repeated
        rows.append({"block": "execution_free", "kind": "two_seeds", "value": rho, "n": pairs})
        if (mean := self.mean_of_seeds) is not None:
            ends = {"value": mean.rho, "low": mean.low, "high": mean.high}
            rows.append({"block": "execution_free", "metric": PRIMARY, "kind": "mean_of_seeds", **ends})
        for name, effect in self.causal.items():
            ends = {"value": effect.difference, "low": effect.low, "high": effect.high}
            said = {"p": effect.p, "p_alike": effect.p_alike, "least_shown": effect.least_shown, "words": effect.words}
            rows.append({"kind": "causal", "metric": name, **ends, **said})
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
        relations[block] = _relations(runs) if len(runs) >= FEWEST else {}
        if relations[block] and len(both := _with_both(runs)) >= FEWEST:
            over[block], given[block] = _rivals(both)
    free = study.of("execution_free")
    lost = _regrets(free) if len(free) >= FEWEST else {}
    rows = [run.verifier for run in free]
    found = Answer(
        relations,
        _holm(relations),
        over,
        given,
        lost,
        causal(study),
        *_with_second_seeds(study),
        _correlation(
            column(study.of("voluntary"), PRIMARY),
            [run.outcome for run in study.of("voluntary")],
            [run.start for run in study.of("voluntary")],
        ),
        {
            name: _correlation(column(free, PRIMARY), column(free, name), [run.start for run in free])
            for name in METRICS
            if name != PRIMARY
        },
        faults(rows, "have an outcome"),
    )
    return Answer(**{**vars(found), "sentences": _sentences(study, found)})


def _arrays(runs: Sequence[PaidRun]) -> tuple[Any, list[str], list[str], list[str]]:
    """Outcomes, units, strata and blocks."""
    starts = [run.start for run in runs]
    blocks = [f"{run.start} {run.cell['column']}" for run in runs]
    return np.array([run.outcome for run in runs]), [run.cell["verifier"] for run in runs], starts, blocks


def _relations(runs: Sequence[PaidRun]) -> dict[str, Relation]:
    outcome_N, units, starts, blocks = _arrays(runs)
    found = {}
    for name in METRICS:
        value_N = column(runs, name)
        there = np.flatnonzero(~np.isnan(value_N))
        if len(there) < FEWEST:
            continue
        unit_N, start_N, block_N = ([side[i] for i in there] for side in (units, starts, blocks))
        found[name] = relation(name, value_N[there], outcome_N[there], unit_N, start_N, block_N)
    return found


def _with_both(runs: Sequence[PaidRun]) -> list[PaidRun]:
    """Those whose verifier has an AUC within task and an ECE."""
    return [run for run in runs if known([run.verifier])]


def _rivals(runs: Sequence[PaidRun]) -> tuple[Interval, list[Interval]]:
    outcome_N, units, starts, _ = _arrays(runs)
    weight_RN = unit_weights(units, starts, len(runs))
    auc_N, ece_N = (column(runs, name) for name in (PRIMARY, RIVAL))
    return stronger(auc_N, ece_N, outcome_N, weight_RN, starts), rank_regression([auc_N, ece_N], outcome_N, starts)


def _regrets(runs: Sequence[PaidRun]) -> dict[str, Interval]:
    """Points lost by each metric's choice among four; a metric that is undefined for a verifier never chooses it."""
    outcome_N, _, starts, _ = _arrays(runs)
    sets = sets_of(starts)
    liked = {name: np.nan_to_num(metric.sign * column(runs, name), nan=-np.inf) for name, metric in METRICS.items()}
    liked[ANY] = np.zeros(len(runs))
    return {name: regret(losses(value_N, outcome_N, sets), sets, len(runs)) for name, value_N in liked.items()}


def _holm(relations: Mapping[str, Mapping[str, Relation]]) -> dict[tuple[str, str], float | None]:
    """Corrected p of all but the primary test."""
    tests = [
        LevelTest(block, name, one.n, one.rho, p=one.p, by_seed=(one.rho,))
        for block, of_metric in relations.items()
        for name, one in of_metric.items()
        if (block, name) != ("execution_free", PRIMARY) and one.rho is not None
    ]
    return {(test.level, test.metric): test.p_holm for test in holm(tests)}


def _with_second_seeds(study: Study) -> tuple[tuple[float | None, int], Relation | None]:
    """Correlation of the outcomes of the verifiers that paid with two RL seeds; the primary one with the mean of both for these."""
    free = study.of("execution_free")
    second = {run.cell["verifier"]: run.outcome for run in study.of("second_seed")}
    both = [run for run in free if run.cell["verifier"] in second]
    again = [second[run.cell["verifier"]] for run in both]
    agreement = _correlation([run.outcome for run in both], again, [run.start for run in both])
    if len(free) < FEWEST or not both:
        return agreement, None
    outcome_N, units, starts, blocks = _arrays(free)
    mean_N = [(one + second.get(run.cell["verifier"], one)) / 2 for one, run in zip(outcome_N, free, strict=True)]
    return agreement, relation(PRIMARY, column(free, PRIMARY), mean_N, units, starts, blocks)


def _correlation(x_N: Sequence[float], y_N: Sequence[float], starts: Sequence[str]) -> tuple[float | None, int]:
    """Spearman's coefficient within starts, over those where neither side is NaN: None where it is undefined or of fewer than four; and
    of how many it is."""
    there = np.flatnonzero(~np.isnan(x_N) & ~np.isnan(y_N))
    if len(there) < 4:
        return None, len(there)
    x_K, y_K, starts = np.asarray(x_N)[there], np.asarray(y_N)[there], [starts[int(i)] for i in there]
    rho = float(rank_correlations(x_K, y_K, unit_weights(None, starts, len(there), replicates=0), starts)[0])
    return (None if np.isnan(rho) else rho), len(there)


def _sentences(study: Study, found: Answer) -> list[str]:
    """What can and cannot be concluded, a question each."""
    said = []
    for block, words in (("execution_free", "a verifier alone pays"), ("hybrid", "a verifier and execution pay")):
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
        both = [run.verifier for run in _with_both(study.of(block))]
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
