"""The report: every metric of one score table, by the names of the contract, with intervals.

`rmlab evaluate --json` prints it, training runs track it, figures read it. Plain numbers, strings and None (undefined),
so that it is JSON as it stands.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rmlab.errors import DataError
from rmlab.metrics import resampled, risk_coverage
from rmlab.metrics.advantage import advantage
from rmlab.metrics.best_of_k import groups_at_k, pass_curve, rm_curve, rm_curve_across, sizes_of_k
from rmlab.metrics.calibration import (
    binned,
    brier,
    brier_decomposition,
    ece,
    ece_debiased,
    log_loss,
    mass_bin,
    mce,
    prior_corrected,
    top_label,
    width_bin,
)
from rmlab.metrics.discrimination import discrimination
from rmlab.metrics.noise_floor import noise_floor, noise_floor_task
from rmlab.metrics.recalibration import CALIBRATORS, calibrated_across, calibrated_on, fold_of_clusters, recalibrate
from rmlab.metrics.table import Floats, Table, table
from rmlab.metrics.uncertainty import bootstrap, interval
from rmlab.scores.scores import Scores

REPLICATES = 2000
Report = dict[str, Any]


def report(
    scores: Scores,
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
    validation: Scores | None = None,
    training_prior: float | None = None,
    folds: int = 0,
) -> Report:
    """All metrics of a score table.

    replicates, seed: of the cluster bootstrap; 0 replicates leave `ci95` empty.
    validation: another score table of the same verifier, of other tasks: post-hoc calibrators are fitted on it, and its
        resolved rate is the second prior of ece_prior_corrected.
    training_prior: share of resolved examples in training, the first; without both ece_prior_corrected is null.
    folds: without validation, calibrators are fitted on the other folds of this table's clusters (at least 2; 0 = not at all).

    Raises DataError for an empty table or a task in two clusters.
    """
    if not len(scores):
        raise DataError("the score table has no rows: there is nothing to evaluate")
    rows = table(scores)
    priors = _priors(training_prior, validation)
    found: Report = {
        "tasks": rows.tasks,
        "trajectories": len(rows.label_N),
        "unlabelled": rows.unlabelled,
        "policies": rows.policies,
        "clusters": rows.clusters,
    }
    found |= (
        _rates(rows)
        | _best_of_k(rows)
        | _discrimination(rows)
        | _calibration(rows, priors)
        | _risk(rows)
        | _advantage(rows)
    )
    apart = None if validation is None else table(validation).scored
    found["post_hoc"] = _post_hoc(rows, apart, folds, replicates, seed)
    found["post_hoc_fitted_on"] = None if not found["post_hoc"] else f"{folds} folds" if apart is None else "validation"
    found["ci95"] = _intervals(found, rows, priors, replicates, seed)
    found["replicates"], found["seed"] = replicates, seed
    return found


def is_miscalibrated(report: Report) -> bool | None:
    """Whether the ECE is larger than calibrated scores show by chance on such a table (95th percentile of the task floor).

    None where it is undefined.
    """
    if report["ece_width_10"] is None or report["ece_noise_floor_task_p95"] is None:
        return None
    return bool(report["ece_width_10"] > report["ece_noise_floor_task_p95"])


def _priors(training_prior: float | None, validation: Scores | None) -> tuple[float, float] | None:
    if training_prior is None or validation is None:
        return None
    labels = validation.resolved[~np.isnan(validation.resolved)]
    return (training_prior, float(labels.mean())) if len(labels) else None


def _rates(rows: Table) -> Report:
    labelled = len(rows.label_N)
    return {
        "score_rate": len(rows.scored.label_N) / labelled if labelled else None,
        "resolved_rate": float(rows.label_N.mean()) if labelled else None,
    }


def _best_of_k(rows: Table) -> Report:
    k_J = sizes_of_k(rows.most_attempts)
    across_J = sizes_of_k(rows.most_attempts_across)
    return {
        "pass_at_k": _by_k(k_J, pass_curve(rows, k_J)),
        "rm_at_k": _by_k(k_J, rm_curve(rows, k_J)),
        "tasks_at_k": _by_k(k_J, groups_at_k(rows.group_N, k_J)),
        "rm_at_k_across": _by_k(across_J, rm_curve_across(rows, across_J)) if rows.policies > 1 else None,
    }


def _by_k(k_J: Sequence[int], value_J: Sequence[float]) -> dict[str, float]:
    return {str(k): value for k, value in zip(k_J, value_J, strict=True)}


def _discrimination(rows: Table) -> Report:
    found = discrimination(rows)
    return {
        "auc_pooled": _number(found.pooled),
        "auc_within_task": _number(found.within_task),
        "auc_within_task_across": _number(found.within_task_across) if rows.policies > 1 else None,
        "auc_between_tasks": _number(found.between_tasks),
        "within_pair_share": _number(found.within_pair_share),
        "mixed_tasks": found.mixed,
        "within_pairs": found.pairs,
    }


def _calibration(rows: Table, priors: tuple[float, float] | None) -> Report:
    score_N, label_N = rows.scored.score_N, rows.scored.label_N
    ten = binned(score_N, label_N, width_bin(score_N, 10), 10)
    confidence_N, right_N = top_label(score_N, label_N)
    corrected_N = None if priors is None else prior_corrected(score_N, *priors)
    floor, floor_task = noise_floor(rows), noise_floor_task(rows)
    parts = brier_decomposition(score_N, label_N)
    logistic = recalibrate(score_N, label_N)
    return {
        "ece_width_10": _number(ece(ten)),
        "ece_width_15": _number(ece(binned(score_N, label_N, width_bin(score_N, 15), 15))),
        "ece_mass_10": _number(ece(binned(score_N, label_N, mass_bin(score_N, 10), 10))),
        "ece_debiased": _number(ece_debiased(binned(score_N, label_N, mass_bin(score_N, 15), 15))),
        "ece_prior_corrected": None
        if corrected_N is None
        else _number(ece(binned(corrected_N, label_N, width_bin(corrected_N, 10), 10))),
        "ece_confidence": _number(ece(binned(confidence_N, right_N, width_bin(confidence_N, 10), 10))),
        "mce": _number(mce(ten)),
        "ece_noise_floor": _number(floor.mean),
        "ece_noise_floor_p95": _number(floor.p95),
        "ece_noise_floor_task": _number(floor_task.mean),
        "ece_noise_floor_task_p95": _number(floor_task.p95),
        "task_effect_variance": _number(floor_task.task_variance),
        "brier": _number(brier(score_N, label_N)),
        "brier_miscalibration": _number(parts.miscalibration),
        "brier_discrimination": _number(parts.discrimination),
        "brier_uncertainty": _number(parts.uncertainty),
        "log_loss": _number(log_loss(score_N, label_N)),
        "calibration_slope": _number(logistic.slope),
        "calibration_intercept": _number(logistic.intercept),
    }


def _advantage(rows: Table) -> Report:
    found = advantage(rows)
    return {
        "advantage_cosine": _number(found.cosine),
        "advantage_cosine_all": _number(found.cosine_all),
        "advantage_noise_share": _number(found.noise_share),
    }


def _risk(rows: Table) -> Report:
    found: Report = {}
    for name, curve in {"": risk_coverage.of_attempts(rows), "_picks": risk_coverage.of_picks(rows)}.items():
        found[f"aurc{name}"] = _number(curve.aurc)
        found[f"aurc{name}_excess"] = _number(curve.excess)
        found[f"risk_coverage{name}"] = {
            f"{share:g}": _number(risk) for share, risk in zip(risk_coverage.COVERAGES, curve.at(), strict=True)
        }
    return found


def _post_hoc(rows: Table, validation: Table | None, folds: int, replicates: int, seed: int) -> Report | None:
    """{calibrator: {parameters, ece_width_10, brier, log_loss, ci95}} after calibration; None where there is nothing to fit on."""
    scored = rows.scored
    fold_N = fold_of_clusters(rows.clusters, max(folds, 1))[scored.cluster_N]
    if not len(validation.label_N if validation is not None else scored.label_N) or (
        validation is None and len(np.unique(fold_N)) < 2
    ):
        return None
    after: Report = {}
    for name, fit in CALIBRATORS.items():
        if validation is not None:
            after_N, parameters = calibrated_on(fit, (validation.score_N, validation.label_N), scored.score_N)
        else:
            after_N, parameters = calibrated_across(fit, scored.score_N, scored.label_N, fold_N)
        calibrated = replace(scored, score_N=after_N)
        score_N, label_N = calibrated.score_N, calibrated.label_N
        values: Report = {
            "ece_width_10": _number(ece(binned(score_N, label_N, width_bin(score_N, 10), 10))),
            "brier": _number(brier(score_N, label_N)),
            "log_loss": _number(log_loss(score_N, label_N)),
        }
        drawn: resampled.Values = {}
        if replicates and rows.clusters > 1:
            drawn = bootstrap(
                resampled.joined(calibrated, (resampled.width_bins, resampled.row_means)),
                rows.clusters,
                replicates,
                seed,
            )
        ends = {key: _interval(key, values[key], drawn[key], rows.clusters) for key in values if drawn}
        after[name] = {"parameters": parameters, **values, "ci95": ends}
    return after


def _intervals(found: Report, rows: Table, priors: tuple[float, float] | None, replicates: int, seed: int) -> Report:
    """{name: [low, high]}, curves nested by k; null where undefined or where there are not two clusters to resample."""
    if not replicates or not len(rows.label_N):
        return {}
    corrected = [lambda rows: resampled.prior_corrected_bins(rows, *priors)] if priors else []
    makers = [*resampled.ALL, resampled.recalibrations, *corrected]
    values = bootstrap(resampled.joined(rows, makers), rows.clusters, replicates, seed)
    intervals: Report = {}
    for name in found:
        if name not in values:
            continue
        if isinstance(found[name], dict):
            intervals[name] = {
                k: _interval(name, estimate, values[name][:, j], rows.clusters)
                for j, (k, estimate) in enumerate(found[name].items())
            }
        else:
            intervals[name] = _interval(name, found[name], values[name], rows.clusters)
    return intervals


def _interval(name: str, estimate: float | None, value_R: Floats, clusters: int) -> list[float] | None:
    if estimate is None or clusters < 2:
        return None
    ends = interval(name, estimate, value_R)
    return None if ends is None else list(ends)


def _number(value: float | Floats) -> float | None:
    """A plain float; None for NaN, which JSON does not have."""
    number = float(value)
    return None if math.isnan(number) else number
