"""What the runs of which_metric_foretells_rl allow to say: the statistics of its plan, and a sentence for each question.

One verifier is one training is one unit; ranks are taken within a start. Where fewer than FEWEST verifiers of a block have an outcome,
nothing is concluded of that block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.causal import Equivalence, Rates, compared, paired_spread
from analysis.foretelling_design import CORRELATION, correlation, faults
from analysis.foretelling_runs import PaidRun, Study, column
from analysis.rank_statistics import (
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
from rmlab.metrics.sweep_levels import LEAST_SEEDS, LEVEL, LevelTest, Spread, holm
from rmlab.wording import counted, estimate

MARGIN = 0.03
FEWEST = 16
"""Verifiers with an outcome; the plan has the power with so many."""
PRIMARY, RIVAL = "auc_within_task", "ece_width_10"
ANY = "any verifier"
FACTORIAL = ("execution_free", "hybrid")
CAUSAL = ("distortion", "undivided", "affine", "difficulty")


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
    `execution_free`. causal: by name of the comparison. repeated: correlation between two RL seeds, and the verifiers that have both."""

    relations: Mapping[str, Mapping[str, Relation]]
    p_holm: Mapping[tuple[str, str], float | None]
    over: Mapping[str, Interval]
    given: Mapping[str, Sequence[Interval]]
    regret: Mapping[str, Interval]
    causal: Mapping[str, Equivalence]
    repeated: tuple[float | None, int]
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
        if relations[block]:
            over[block], given[block] = _rivals(runs)
    free = study.of("execution_free")
    lost = _regrets(free) if len(free) >= FEWEST else {}
    rows = [run.verifier for run in free]
    found = Answer(relations, _holm(relations), over, given, lost, causal(study), _repeated(study), faults(rows))
    return Answer(**{**vars(found), "sentences": _sentences(study, found, rows)})


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
        known = np.flatnonzero(~np.isnan(value_N))
        if len(known) < FEWEST:
            continue
        unit_N, start_N, block_N = ([side[i] for i in known] for side in (units, starts, blocks))
        found[name] = relation(name, value_N[known], outcome_N[known], unit_N, start_N, block_N)
    return found


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


def _repeated(study: Study) -> tuple[float | None, int]:
    """Correlation of the outcomes of the verifiers that paid with two RL seeds."""
    first = {run.cell["verifier"]: run for run in study.of("execution_free")}
    pairs = [(first[run.cell["verifier"]], run) for run in study.of("second_seed") if run.cell["verifier"] in first]
    if len(pairs) < 4:
        return None, len(pairs)
    one, other = ([pair[side].outcome for pair in pairs] for side in (0, 1))
    starts = [pair[0].cell["start"] for pair in pairs]
    rho = float(rank_correlations(one, other, unit_weights(None, starts, len(pairs), 0), starts)[0])
    return (None if np.isnan(rho) else rho), len(pairs)


def causal(study: Study) -> dict[str, Equivalence]:
    """Every comparison of which three seeds are there, by its name."""
    distortion, undivided = (_by_condition(study.of(block)) for block in ("distortion", "undivided"))
    affine, parts = _by_condition(study.of("affine")), _by_condition(study.of("difficulty"))
    families = [
        {
            f"calibration: {name}": (distortion.get("calibrated", {}), own)
            for name, own in distortion.items()
            if name != "calibrated"
        },
        {"undivided: far_raised": (undivided.get("calibrated", {}), undivided.get("far_raised", {}))},
        {"control: -1 + 4 r": (distortion.get("calibrated", {}), affine.get("calibrated", {}))},
        {
            "within task: good less poor": (_mean(parts, "poor "), _mean(parts, "good ")),
            "difficulty: with less without": (_mean(parts, " without"), _mean(parts, " with")),
        },
    ]
    clusters = next(
        (run.clusters for block in CAUSAL for run in study.of(block)), {}
    )  # all are judged on the same tasks
    found: dict[str, Equivalence] = {}
    for family in families:
        spreads: dict[str, Spread] = {}
        for name, (then, now) in family.items():
            seeds = sorted(then.keys() & now.keys())
            if len(seeds) >= LEAST_SEEDS:
                spreads[name] = paired_spread([(then[seed], now[seed]) for seed in seeds], clusters)
        found |= compared(spreads, MARGIN)
    return found


def _by_condition(runs: Sequence[PaidRun]) -> dict[str, dict[str, Rates]]:
    """Condition -> RL seed -> rates by task. The condition of a difficulty experiment has the role of its verifier in front."""
    found: dict[str, dict[str, Rates]] = {}
    for run in runs:
        role = f"{run.cell['verifier']} " if run.cell["block"] == "difficulty" else ""
        found.setdefault(role + run.cell["condition"], {})[run.cell["seed"]] = run.rates
    return found


def _mean(parts: Mapping[str, Mapping[str, Rates]], word: str) -> dict[str, Rates]:
    """By seed, the mean rates of the two conditions whose name begins or ends so; seeds that one of them lacks are left out."""
    own = [by_seed for name, by_seed in parts.items() if name.startswith(word) or name.endswith(word)]
    if len(own) != 2:
        return {}
    seeds = own[0].keys() & own[1].keys()
    return {seed: {task: (rate + own[1][seed][task]) / 2 for task, rate in own[0][seed].items()} for seed in seeds}


def _sentences(study: Study, found: Answer, rows: Sequence[Mapping[str, Any]]) -> list[str]:
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
        said.append(_rivals_said(found.over[block], rows, words))
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
    for words in dict.fromkeys(one.words for one in found.causal.values()):
        said.append(
            f"{words[0].upper()}{words[1:]} (margin 3 points): {', '.join(n for n, o in found.causal.items() if o.words == words)}."
        )
    if not found.causal:
        said.append("Of the causal experiments no comparison has three seeds yet.")
    said.append("The unit is one training of a verifier; the causal experiments are of one or two, and of one start.")
    return said


def _rivals_said(over: Interval, rows: Sequence[Mapping[str, Any]], words: str) -> str:
    ends = estimate(over.value, (over.low, over.high), 2, signed=True)
    if len(rows) >= FEWEST and not abs(correlation(rows)) < CORRELATION:
        return f"Whether AUC rather than ECE does is not concluded where {words}: the two are correlated here (|ρ| less |ρ| = {ends})."
    better = (
        "AUC rather than ECE"
        if over.low > 0
        else "ECE rather than AUC"
        if over.high < 0
        else "neither rather than the other"
    )
    return f"Where {words}, {better} orders the outcomes (|ρ| less |ρ| = {ends})."
