"""What could one know from a score table's other columns? Baselines that need no trajectories.

random and oracle; task difficulty (the task's own mean label: an oracle, named so); policy identity (the policy's mean label)
and length (a logistic regression on the logarithm of n_tokens), both fitted on a validation table or on the other folds of the
same table, whole clusters a fold. What needs the trajectories stands there with that reason.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rmlab.metrics.recalibration import fold_of_clusters
from rmlab.metrics.report import report
from rmlab.metrics.table import Floats
from rmlab.scores.scores import Scores

FOLDS = 5
READ = ("last_value", "public_execution", "policy_likelihood", "shape", "majority")
"""Baselines that read trajectories."""

Reason = dict[str, str]
Fit = Callable[[Scores, Scores], Floats]
"""Scores of the second table's rows by a fit to the first's, which are labelled."""


def table_baselines(scores: Scores, validation: Scores | None = None) -> dict[str, dict[str, Any]]:
    """name -> all metrics of `rmlab.metrics.report` without intervals, or {"reason": ...}."""
    mean_T = _means(scores.task_id, scores.task_id, scores.resolved)
    found: dict[str, Scores | Reason] = {
        "random": replace(scores, score=np.full(len(scores), 0.5)),
        "oracle": replace(scores, score=scores.resolved.copy()),
        "task_difficulty": replace(scores, score=mean_T),
        "policy_identity": (
            {"reason": "the table has one policy"}
            if len(np.unique(scores.policy)) < 2
            else _fitted(_by_policy, scores, validation)
        ),
        "length": (
            {"reason": "the table has no n_tokens"}
            if np.isnan(scores.n_tokens).all()
            else _fitted(_by_length, scores, validation)
        ),
        **{name: {"reason": "it reads the trajectories: name them with --trajectories"} for name in READ},
    }
    return {name: report(one, replicates=0) if isinstance(one, Scores) else dict(one) for name, one in found.items()}


def _fitted(fit: Fit, scores: Scores, validation: Scores | None) -> Scores | Reason:
    """Scores by a fit to validation, or to the other folds; a reason where there are not both labels to fit on."""
    if validation is not None:
        parts = [(validation, np.ones(len(scores), dtype=bool))]
    else:
        names, cluster_N = np.unique(scores.cluster, return_inverse=True)
        fold_N = fold_of_clusters(len(names), FOLDS)[cluster_N]
        parts = [(scores.select(fold_N != fold), fold_N == fold) for fold in np.unique(fold_N)]
    score_N = np.full(len(scores), np.nan)
    for known, inside_N in parts:
        labelled = known.select(~np.isnan(known.resolved))
        if len(np.unique(labelled.resolved)) < 2:
            return {"reason": "there are not both labels to fit on in other clusters"}
        score_N[inside_N] = fit(labelled, scores.select(inside_N))
    return replace(scores, score=score_N)


def _by_policy(known: Scores, scores: Scores) -> Floats:
    return _means(scores.policy, known.policy, known.resolved)


def _by_length(known: Scores, scores: Scores) -> Floats:
    from sklearn.linear_model import LogisticRegression

    stated = known.select(~np.isnan(known.n_tokens))
    score_N = np.full(len(scores), np.nan)
    if len(np.unique(stated.resolved)) < 2:
        return score_N
    model = LogisticRegression().fit(np.log1p(stated.n_tokens[:, None]), stated.resolved)
    has = ~np.isnan(scores.n_tokens)
    if has.any():
        score_N[has] = model.predict_proba(np.log1p(scores.n_tokens[has, None]))[:, 1]
    return score_N


def _means(wanted: Any, known: Any, label_N: Floats) -> Floats:
    """For each wanted name the mean label of the known rows of that name; NaN where none is labelled."""
    labelled = ~np.isnan(label_N)
    names, code_N = np.unique(known[labelled], return_inverse=True)
    means = dict(
        zip(names.tolist(), np.bincount(code_N, label_N[labelled]) / np.maximum(np.bincount(code_N), 1), strict=True)
    )
    return np.array([means.get(name, np.nan) for name in wanted.tolist()])
