"""The answer of which_metric_foretells_rl: every number that its runs allow, and whether it is shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.foretelling.as_paid import AsPaid
from analysis.foretelling.beside_execution import BesideExecution
from analysis.foretelling.ends import Ends
from analysis.foretelling.equivalence import Equivalence
from analysis.foretelling.estimates import ANY, PRIMARY, RIVAL
from analysis.foretelling.reruns import Rerun, RerunSpread
from analysis.rl.rank_statistics import Interval, Relation
from rmlab.metrics.sweep_levels import LEVEL


@dataclass(frozen=True)
class Answer:
    """relations: block -> metric -> its correlation with the outcome. p_holm: of (block, metric) in the secondary family. over: |rho|
    of AUC less that of ECE, by block. given: coefficients of AUC and of ECE beside each other, by block. regret: block -> metric ->
    points lost by choosing by it; regret_by_start: block -> start -> the same among its verifiers. causal: by name of the comparison.
    repeated: correlation between two RL seeds, and the verifiers that have both; mean_of_seeds: the primary correlation with the mean
    of both for these. voluntary: correlation of AUC within task with the outcome in that block, and its verifiers. with_auc: by metric,
    its correlation with AUC within task over the verifiers of `execution_free` that have an outcome and both metrics (None: undefined,
    or of fewer than four), and their number. ends: by block and start ("": both), what became of the policies. exploratory: block ->
    what the plan does not have, with its coefficient and count. finished: by block, and of "all", how many runs are taken and how many
    are planned. rerun_spread: what a new start and RL seed change, of "all" conditions and by the role of the verifier that pays;
    reruns: runs beyond the plan beside that. as_paid, by block, and beside_execution, by start: looked at once the outcomes were seen."""

    relations: Mapping[str, Mapping[str, Relation]]
    p_holm: Mapping[tuple[str, str], float | None]
    over: Mapping[str, Interval]
    given: Mapping[str, Sequence[Interval]]
    regret: Mapping[str, Mapping[str, Interval]]
    regret_by_start: Mapping[str, Mapping[str, Mapping[str, Interval]]]
    causal: Mapping[str, Equivalence]
    repeated: tuple[float | None, int]
    mean_of_seeds: Relation | None
    voluntary: tuple[float | None, int]
    with_auc: Mapping[str, tuple[float | None, int]]
    ends: Mapping[tuple[str, str], Ends]
    exploratory: Mapping[str, Mapping[str, tuple[float | None, int]]]
    faults: Sequence[str]
    finished: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    rerun_spread: Mapping[str, RerunSpread] = field(default_factory=dict)
    reruns: Sequence[Rerun] = ()
    as_paid: Mapping[str, AsPaid] = field(default_factory=dict)
    beside_execution: Mapping[str, BesideExecution] = field(default_factory=dict)
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
            {"block": block, "metric": name, "kind": "regret", **_ends(one)}
            for block, of_metric in self.regret.items()
            for name, one in of_metric.items()
        ]
        rows += [
            {"block": block, "metric": name, "kind": "regret_by_start", "start": start, **_ends(of_metric[name])}
            for block, by_start in self.regret_by_start.items()
            for start, of_metric in by_start.items()
            for name in (PRIMARY, RIVAL, ANY)
        ]
        for name, (rho, n) in self.with_auc.items():
            rows.append({"block": "execution_free", "metric": name, "kind": "with_auc", "value": rho, "n": n})
        for (block, start), ended in self.ends.items():
            counts = {"ends_below": ended.below, "ends_above": ended.above, "collapsed": ended.collapsed}
            if not start:
                rows += [{"block": block, "kind": kind, "value": n, "n": ended.runs} for kind, n in counts.items()]
            of = {"block": block, "start": start or "both", "kind": "policies"}
            rows += [{**of, "metric": name, "value": mean, "n": ended.runs} for name, mean in ended.means.items()]
        for block, of_name in self.exploratory.items():
            rows += [
                {"block": block, "metric": name, "kind": "exploratory", "value": rho, "n": n}
                for name, (rho, n) in of_name.items()
            ]
        rows += [row for block, one in self.as_paid.items() for row in one.rows(block)]
        rows += [row for start, one in self.beside_execution.items() for row in one.rows(start)]
        if (alone := self.voluntary)[1]:
            of = {"block": "voluntary", "metric": PRIMARY, "kind": "rho_untested"}
            rows.append({**of, "value": alone[0], "n": alone[1]})
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
