"""The report: every metric of one score table, by the names of the contract, with intervals.

`rmlab evaluate --json` prints it, training runs track it, figures read it. It holds only plain numbers, strings and None
(undefined), so that it can be written as JSON.
"""

from dataclasses import replace

import numpy as np

from rmlab.errors import DataError
from rmlab.metrics import registry
from rmlab.metrics.calibration import binned, brier, ece, log_loss, width_bin
from rmlab.metrics.definitions import Report, number
from rmlab.metrics.estimates import estimates
from rmlab.metrics.noise_floor import noise_floor_task
from rmlab.metrics.recalibration import CALIBRATORS, calibrated_across, fold_of_clusters
from rmlab.metrics.table import Floats, Table, table
from rmlab.metrics.uncertainty import bootstrap, interval
from rmlab.metrics.weighted import Combined, RowMeans, Values, WidthBins
from rmlab.scores.scores import Scores

REPLICATES = 2000


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
    rows = table(scores, _priors(training_prior, validation))
    measured = estimates(rows)
    apart = None if validation is None else table(validation).scored
    measured["post_hoc"] = _post_hoc(rows, apart, folds, replicates, seed)
    measured["post_hoc_fitted_on"] = (
        None if not measured["post_hoc"] else f"{folds} folds" if apart is None else "validation"
    )
    measured["ci95"] = _intervals(measured, rows, replicates, seed)
    measured["replicates"], measured["seed"] = replicates, seed
    return measured


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


def _post_hoc(rows: Table, validation: Table | None, folds: int, replicates: int, seed: int) -> Report | None:
    """{calibrator: {parameters, ece_width_10, ece_less_floor, brier, log_loss, ci95}} after calibration; None where there is nothing
    to fit on.

    ci95 is of the calibrated scores as they are: no calibrator is fitted again for a resample.
    """
    scored = rows.scored
    fold_N = fold_of_clusters(rows.clusters, max(folds, 1))[scored.cluster_N]
    if not len(validation.label_N if validation is not None else scored.label_N) or (
        validation is None and len(np.unique(fold_N)) < 2
    ):
        return None
    after: Report = {}
    for name, fit in CALIBRATORS.items():
        if validation is not None:
            fitted = fit(validation.score_N, validation.label_N)
            after_N, parameters = fitted.apply(scored.score_N), fitted.parameters
        else:
            after_N, parameters = calibrated_across(fit, scored.score_N, scored.label_N, fold_N)
        calibrated = replace(scored, score_N=after_N)
        score_N, label_N = calibrated.score_N, calibrated.label_N
        values: Report = {
            "ece_width_10": number(ece(binned(score_N, label_N, width_bin(score_N, 10), 10))),
            "brier": number(brier(score_N, label_N)),
            "log_loss": number(log_loss(score_N, label_N)),
        }
        drawn: Values = {}
        if replicates and rows.clusters > 1:
            drawn = bootstrap(Combined(calibrated, (WidthBins, RowMeans)), rows.clusters, replicates, seed)
        ends = {key: _interval(key, values[key], drawn[key], rows.clusters) for key in values if drawn}
        floor = number(noise_floor_task(calibrated).mean)
        values["ece_less_floor"] = None if floor is None else values["ece_width_10"] - floor
        if drawn:
            ends["ece_less_floor"] = _interval(
                "ece_less_floor", values["ece_less_floor"], drawn["ece_width_10"], rows.clusters, floor
            )
        after[name] = {"parameters": parameters, **values, "ci95": ends}
    return after


def _intervals(measured: Report, rows: Table, replicates: int, seed: int) -> Report:
    """{name: [low, high]}, curves nested by k; null where undefined or where fewer than two clusters contribute."""
    if not replicates or not len(rows.label_N):
        return {}
    statistic = Combined(rows, registry.statistics())
    values = bootstrap(statistic, rows.clusters, replicates, seed)
    intervals: Report = {}
    for metric in registry.METRICS:
        if metric.less is not None and metric.less[0] in values:
            floor = measured[metric.less[1]]
            intervals[metric.name] = _interval(
                metric.name, measured[metric.name], values[metric.less[0]], rows.clusters, floor
            )
    for name in measured:
        if name not in values:
            continue
        if isinstance(measured[name], dict):
            intervals[name] = {
                k: _interval(name, estimate, values[name][:, j], rows.clusters)
                for j, (k, estimate) in enumerate(measured[name].items())
            }
        else:
            clusters = statistic.contributing.get(name, rows.clusters)
            intervals[name] = _interval(name, measured[name], values[name], clusters)
    return intervals


def _interval(
    name: str, estimate: float | None, value_R: Floats, clusters: int, floor: float | None = None
) -> list[float] | None:
    if estimate is None or clusters < 2:
        return None
    ends = interval(estimate, value_R, registry.named(name).rule, floor=floor)
    return None if ends is None else list(ends)
