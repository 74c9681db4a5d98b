"""How near do the advantages of the reward that is paid come to those of the labels, and does that order the outcomes?

Exploratory: this was chosen after the outcomes of the hybrid block had been seen. There AUC within task does not order them, because a
weak verifier says nearly the same of all attempts at a task and so changes little of what execution pays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from omegaconf import OmegaConf

from analysis.foretelling.estimates import FEWEST, GOOD, PRIMARY, arrays, correlation_of
from analysis.foretelling.plan import configuration
from analysis.foretelling.runs import PaidRun, column
from analysis.rl.rank_statistics import Relation, relation
from rmlab.errors import MissingArtifact
from rmlab.rl.config import AlgorithmConfig, Calibration, RewardConfig
from rmlab.rl.paid_cosine import paid_cosine
from rmlab.rl.paid_scores import SCORES, paid_scores
from rmlab.tracking.references import VALIDATION_SCORES

Config = TypeVar("Config", RewardConfig, AlgorithmConfig)
NAME = "advantage cosine of the reward as it is paid"


def cosine_as_paid(run: PaidRun) -> float:
    """Cosine of the advantages of what the run pays and those of the labels, over all groups together.

    Of the attempts in the verifier's score table that the run's own start made, a task a group, by the run's own configuration of
    reward and algorithm. The table does not say which attempts were never submitted, so the penalty for these is left out. NaN where the
    run has no such table, another kind of reward, or a reward that hangs on more than its verifier's scores, and where all advantages
    of a side are 0.
    """
    config = configuration(run.policy.run)
    reward, algorithm = _typed(RewardConfig, config["reward"]), _typed(AlgorithmConfig, config["algorithm"])
    verifier = run.policy.paid_by
    if verifier is None:
        return np.nan
    try:
        for name in (SCORES, *([] if reward.calibration is Calibration.none else [VALIDATION_SCORES])):
            verifier.artifact(name)
    except MissingArtifact:
        return np.nan
    scores = paid_scores(verifier.artifact, reward)
    if scores is None:
        return np.nan
    own_N = scores.policy == f"{run.cell['start']}_plain"
    return paid_cosine(scores.select(own_N), reward, algorithm)


def _typed(kind: type[Config], section: Mapping[str, Any]) -> Config:
    """A section of a written configuration as its class."""
    return cast(Config, OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), dict(section))))


@dataclass(frozen=True)
class AsPaid:
    """relation: of the cosine and the outcome; its p is no test, since the cosine was chosen after the outcomes were seen, and is shown
    nowhere. by_start: their coefficient (None: undefined, or of fewer than four verifiers) and its verifiers, by the start of the plan.
    good_by_start: the same among verifiers with an AUC within task of GOOD or more. least, most: the smallest and the largest cosine."""

    relation: Relation
    by_start: Mapping[str, tuple[float | None, int]]
    good_by_start: Mapping[str, tuple[float | None, int]]
    least: float
    most: float

    def rows(self, block: str) -> list[dict[str, Any]]:
        """Every number of a block, a row each."""
        one, about = self.relation, {"block": block}
        return [
            {**about, "kind": "as_paid", "value": one.rho, "low": one.low, "high": one.high, "n": one.n},
            {**about, "kind": "as_paid_range", "low": self.least, "high": self.most, "n": one.n},
            *(
                {**about, "kind": kind, "start": start, "value": rho, "n": n}
                for kind, found in (("as_paid_by_start", self.by_start), ("as_paid_by_start_good", self.good_by_start))
                for start, (rho, n) in found.items()
            ),
        ]


def as_paid(runs: Sequence[PaidRun]) -> AsPaid | None:
    """The relation over the runs of a block whose cosine is known; None where they are fewer than FEWEST."""
    cosine_of = [(run, cosine) for run in runs if not np.isnan(cosine := cosine_as_paid(run))]
    if len(cosine_of) < FEWEST:
        return None
    known, cosine_N = [run for run, _ in cosine_of], np.array([cosine for _, cosine in cosine_of])
    outcome_N, units, starts, blocks = arrays(known)
    auc_N = column(known, PRIMARY)

    def of(start: str, least_auc: float) -> tuple[float | None, int]:
        own = [i for i, run in enumerate(known) if run.cell["start"] == start and not auc_N[i] < least_auc]
        return correlation_of(cosine_N[own].tolist(), outcome_N[own].tolist(), [starts[i] for i in own])

    names = sorted({run.cell["start"] for run in known})
    every, good = ({start: of(start, least) for start in names} for least in (-np.inf, GOOD))
    found = relation(NAME, cosine_N, outcome_N, units, starts, blocks)
    return AsPaid(found, every, good, float(cosine_N.min()), float(cosine_N.max()))
