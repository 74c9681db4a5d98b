"""Metrics computed by definition: the exact values that a report gives for a table, before any resampling.

Plain numbers and None (undefined), by the names of the registry.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from rmlab.metrics import calibration
from rmlab.metrics.best_of_k import groups_at_k, pass_curve, rm_curve, rm_curve_across, sizes_of_k
from rmlab.metrics.by_patch import patches, vote_error
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
from rmlab.metrics.discrimination import advantage, discrimination
from rmlab.metrics.noise_floor import noise_floor, noise_floor_task
from rmlab.metrics.recalibration import recalibrate
from rmlab.metrics.table import Floats, Table

Report = dict[str, Any]
Definition = Callable[[Table], Report]


def _counts(rows: Table) -> Report:
    return {
        "tasks": rows.tasks,
        "trajectories": len(rows.label_N),
        "unlabelled": rows.unlabelled,
        "policies": rows.policies,
        "clusters": rows.clusters,
    }


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
        "pass_at_k": by_k(k_J, pass_curve(rows, k_J)),
        "rm_at_k": by_k(k_J, rm_curve(rows, k_J)),
        "tasks_at_k": by_k(k_J, groups_at_k(rows.group_N, k_J)),
        "rm_at_k_across": by_k(across_J, rm_curve_across(rows, across_J)) if rows.policies > 1 else None,
    }


def by_k(k_J: Iterable[int], value_J: Iterable[float | None]) -> dict[str, float | None]:
    """A curve as it stands in a report."""
    return {str(k): value for k, value in zip(k_J, value_J, strict=True)}


def _discrimination(rows: Table) -> Report:
    aucs = discrimination(rows)
    return {
        "auc_pooled": number(aucs.pooled),
        "auc_within_task": number(aucs.within_task),
        "auc_within_task_across": number(aucs.within_task_across) if rows.policies > 1 else None,
        "auc_between_tasks": number(aucs.between_tasks),
        "within_pair_share": number(aucs.within_pair_share),
        "mixed_tasks": aucs.mixed,
        "within_pairs": aucs.pairs,
    }


def _calibration(rows: Table) -> Report:
    score_N, label_N = rows.scored.score_N, rows.scored.label_N
    ten = binned(score_N, label_N, width_bin(score_N, 10), 10)
    confidence_N, right_N = top_label(score_N, label_N)
    corrected_N = None if rows.priors is None else prior_corrected(score_N, *rows.priors)
    floor, floor_task = noise_floor(rows), noise_floor_task(rows)
    floor_corrected = None if corrected_N is None else noise_floor_task(replace(rows.scored, score_N=corrected_N))
    parts = brier_decomposition(score_N, label_N)
    logistic = recalibrate(score_N, label_N)
    return {
        "ece_width_10": number(ece(ten)),
        "ece_width_15": number(ece(binned(score_N, label_N, width_bin(score_N, 15), 15))),
        "ece_mass_10": number(ece(binned(score_N, label_N, mass_bin(score_N, 10), 10))),
        "ece_debiased": number(ece_debiased(binned(score_N, label_N, mass_bin(score_N, 15), 15))),
        "ece_prior_corrected": None
        if corrected_N is None
        else number(ece(binned(corrected_N, label_N, width_bin(corrected_N, 10), 10))),
        "ece_prior_corrected_noise_floor_task": None if floor_corrected is None else number(floor_corrected.mean),
        "ece_prior_corrected_noise_floor_task_p95": None if floor_corrected is None else number(floor_corrected.p95),
        "ece_confidence": number(ece(binned(confidence_N, right_N, width_bin(confidence_N, 10), 10))),
        "mce": number(mce(ten)),
        "ece_noise_floor": number(floor.mean),
        "ece_noise_floor_p95": number(floor.p95),
        "ece_noise_floor_task": number(floor_task.mean),
        "ece_noise_floor_task_p95": number(floor_task.p95),
        "task_effect_variance": number(floor_task.task_variance),
        "brier": number(brier(score_N, label_N)),
        "brier_miscalibration": number(parts.miscalibration),
        "brier_discrimination": number(parts.discrimination),
        "brier_uncertainty": number(parts.uncertainty),
        "log_loss": number(log_loss(score_N, label_N)),
        "calibration_slope": number(logistic.slope),
        "calibration_intercept": number(logistic.intercept),
    }


def _risk(rows: Table) -> Report:
    risks: Report = {}
    for name, curve in {"": calibration.of_attempts(rows), "_picks": calibration.of_picks(rows)}.items():
        risks[f"aurc{name}"] = number(curve.aurc)
        risks[f"aurc{name}_excess"] = number(curve.excess)
        risks[f"risk_coverage{name}"] = {
            f"{share:g}": number(risk) for share, risk in zip(calibration.COVERAGES, curve.at(), strict=True)
        }
    return risks


def _advantage(rows: Table) -> Report:
    agreement = advantage(rows)
    return {
        "advantage_cosine": number(agreement.cosine),
        "advantage_cosine_all": number(agreement.cosine_all),
        "advantage_noise_share": number(agreement.noise_share),
    }


def number(value: float | Floats) -> float | None:
    """A plain float; None for NaN, which JSON does not have."""
    plain = float(value)
    return None if math.isnan(plain) else plain


def _by_patch(rows: Table) -> Report:
    distinct = patches(rows)
    return {
        "patches": None if distinct is None else len(distinct.group_U),
        "mixed_patches": None if distinct is None else int(distinct.mixed_U.sum()),
        "rm_at_k_weighted_standard_error": (
            None if distinct is None else by_k(sizes_of_k(rows.most_attempts), vote_error(rows))
        ),
    }


DEFINITIONS: tuple[Definition, ...] = (
    _counts,
    _rates,
    _best_of_k,
    _discrimination,
    _calibration,
    _risk,
    _advantage,
    _by_patch,
)
