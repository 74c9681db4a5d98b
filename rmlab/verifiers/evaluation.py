"""How good is a verifier? Its score tables of validation and evaluation, their reports, and the baselines beside them."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from rmlab.metrics.definitions import Report
from rmlab.metrics.report import report
from rmlab.scores.baselines import baseline_report
from rmlab.scores.scores import Scores
from rmlab.verifiers.config import EvaluationConfig
from rmlab.verifiers.dataset import VerifierData
from rmlab.verifiers.encoding import Encoded, cut_counts
from rmlab.verifiers.scoring import Autocast
from rmlab.verifiers.verifier import Verifier


@dataclass(frozen=True)
class Results:
    """report has `fit_rate` too, the share of the judged attempts that fit the context, and what is not read of those that are
    read in part (`cut_attempts`, `cut_tokens`, ...). validation: None where there is none."""

    evaluation: Scores
    report: Report
    validation: Scores | None
    validation_report: Report | None
    baselines: dict[str, dict[str, Any]]


def judge(
    verifier: Verifier,
    material: VerifierData,
    training_prior: float,
    config: EvaluationConfig,
    *,
    autocast: Autocast = nullcontext,
    show: bool = False,
) -> Results:
    """Scores validation, then evaluation, once each, and reports on both.

    training_prior: share of resolved examples in training.
    """

    def scored(encoded: list[Encoded], title: str) -> Scores:
        return verifier.score(encoded, batch_tokens=config.batch_tokens, autocast=autocast, show=show, title=title)

    validation = scored(material.validation, "scoring validation") if material.validation else None
    evaluation = scored(material.evaluation, "scoring evaluation")
    found = report(evaluation, replicates=config.replicates, validation=validation, training_prior=training_prior)
    found["fit_rate"] = sum(e.n_tokens < verifier.prompt.max_tokens for e in material.evaluation) / len(
        material.evaluation
    )
    found |= cut_counts(material.evaluation)
    baselines = baseline_report(material.judged, material.fitted, replicates=config.replicates)
    return Results(
        evaluation,
        found,
        validation,
        report(validation, replicates=config.replicates) if validation else None,
        baselines,
    )
