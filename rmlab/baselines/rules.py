"""How well can one do without a verifier? The baseline scores and selectors that are reported beside every table.

Read from the table: random, oracle, task difficulty (the task's own mean label: an oracle, named so), policy identity (the
policy's mean label) and length. Read from the trajectories, where they are given: the last value shown is the expected one, the
execution of the public call, shape, and majority of identical patches, a selector without a score. Policy identity, length and
shape are fitted, on validation or on other clusters. A baseline that cannot be computed stands there with its reason.

Length is the logarithm of n_tokens where the table has it, else of the characters of the trajectory's messages; `note` beside
its report says which.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmlab.baselines.shape import characters, fit_shape
from rmlab.files import made_once, write_text
from rmlab.fingerprint import file_fingerprint, fingerprint, fingerprint_lines
from rmlab.metrics.best_of_k import SUBSETS, picked
from rmlab.metrics.recalibration import fold_of_clusters
from rmlab.metrics.report import report
from rmlab.metrics.table import Floats
from rmlab.microswe import actions, episode
from rmlab.microswe.episode import expected_value, last_value
from rmlab.paths import runs_folder
from rmlab.scores.scores import Scores
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import TrajectorySet
from rmlab.wording import counted

FOLDS = 5
READ = ("last_value", "public_execution", "policy_likelihood", "shape", "majority")
"""Baselines that read trajectories."""
ORDER = (
    "random", "oracle", "last_value", "public_execution", "task_difficulty", "policy_likelihood", "policy_identity",
    "length", "shape", "majority",
)  # fmt: skip
SCORING = tuple(name for name in ORDER if name not in ("policy_likelihood", "majority"))
"""Rules that can give each attempt a score."""
FITTED_TO_TABLE = ("policy_identity", "length")
"""Of these, what is fitted and needs no more than a table: without trajectories on the table's other clusters."""

Reason = dict[str, str]
Fit = Callable[[Scores, Scores], Floats]
"""Scores of the second table's rows by a fit to the first's, which are labelled and hold both labels."""


def table_baselines(scores: Scores, validation: Scores | None = None) -> dict[str, dict[str, Any]]:
    """name -> all metrics of `rmlab.metrics.report` without intervals, or {"reason": ...}, of a table without its trajectories.

    validation: what is fitted on; without it, the other folds of the same table, whole clusters a fold.
    """
    scored_by = _of_table(scores, validation, FOLDS if validation is None else 0)
    scored_by |= {name: {"reason": "it reads the trajectories: name them with --trajectories"} for name in READ}
    reported = {name: _reported(name, one, replicates=0, seed=0) for name, one in scored_by.items()}
    if (scores.patch != "").any():
        reported["majority"] = _majority(scores, reported["random"], seed=0)
    return {name: reported[name] for name in ORDER}


@dataclass(frozen=True)
class Judged:
    """Attempts of a score table that a rule is to score. rows: their places in the table, in the order of `attempts`.
    known: what the rule is fitted on for them."""

    rows: Sequence[int]
    attempts: TrajectorySet
    known: TrajectorySet


def rule_scores(rule: str, scores: Scores, folds: Sequence[Judged] = (), *, by_tokens: bool = False) -> Scores | Reason:
    """The attempts of a table with the scores of a rule of `SCORING`, or the reason why there are none.

    folds: all attempts of the table, as they are judged beside a run's report; without them the rule is computed from the table and
    fitted on other clusters of it. by_tokens: see `scored` of `score_baselines`.
    """
    if not folds:
        return _of_table(scores, None, FOLDS).get(rule, {"reason": "it reads the trajectories"})
    score_N = np.full(len(scores), np.nan)
    for fold in folds:
        found = score_baselines(fold.attempts, fold.known, scores if by_tokens else None)[rule]
        if not isinstance(found, Scores):
            return found
        score_N[fold.rows] = found.score
    return replace(scores, score=score_N)


def score_baselines(
    evaluation: TrajectorySet, validation: TrajectorySet | None, scored: Scores | None = None
) -> dict[str, Scores | Reason]:
    """Every baseline that gives each attempt a score, or the reason why it cannot.

    evaluation: the attempts that are judged. validation: what the fitted ones are fitted on. scored: a score table of these
    attempts; where it has n_tokens, length is of tokens and fitted on other clusters of it, as it is without trajectories.
    """
    rows = evaluation.trajectories
    fitted_on = () if validation is None else validation.trajectories
    judged, known = Scores.of_trajectories(rows), Scores.of_trajectories(fitted_on)
    scored_by = _of_table(judged, known, 0)
    if scored is not None and _has_tokens(scored):
        scored_by["length"] = _length(scored, None, FOLDS)
    else:
        sized_judged = replace(judged, n_tokens=characters(rows))
        length = _length(sized_judged, replace(known, n_tokens=characters(fitted_on)), 0)
        # Characters must not pass for tokens in what is reported.
        scored_by["length"] = replace(judged, score=length.score) if isinstance(length, Scores) else length
    scored_by |= {
        "last_value": _last_value(judged, rows),
        "public_execution": _public_execution(judged, rows),
        "policy_likelihood": {"reason": "the trajectories carry no log-likelihoods of their policies"},
        "shape": _fitted(
            lambda _, scores: fit_shape([t for t in fitted_on if t.resolved is not None], rows), judged, known, 0
        ),
    }
    return {name: scored_by[name] for name in ORDER if name in scored_by}


def baseline_report(
    evaluation: TrajectorySet,
    validation: TrajectorySet | None = None,
    *,
    replicates: int = 2000,
    seed: int = 0,
    scored: Scores | None = None,
) -> dict[str, dict[str, Any]]:
    """name -> all metrics of `rmlab.metrics.report` (majority: rm_at_k, its standard errors, pass_at_k), or {"reason": ...}.

    scored: as in score_baselines. All cells of a sweep ask for the same numbers, so they are kept in the cache folder, by
    trajectories, arguments and the text of everything that computes them.
    """
    cache = runs_folder() / "cache" / f"baselines-{_identity(evaluation, validation, replicates, seed, scored)}.json"

    def make() -> None:
        scores = score_baselines(evaluation, validation, scored)
        reports = {name: _reported(name, one, replicates, seed) for name, one in scores.items()}
        reports["majority"] = _majority(Scores.of_trajectories(evaluation.trajectories), reports["random"], seed)
        write_text(cache, json.dumps(reports, indent=1))

    made_once(cache, make)
    return dict(json.loads(cache.read_text(encoding="utf-8")))


def _identity(
    evaluation: TrajectorySet, validation: TrajectorySet | None, replicates: int, seed: int, scored: Scores | None
) -> str:
    folders = [Path(__file__).parents[1] / package for package in ("metrics", "scores", "baselines")]
    code = [*(path for folder in folders for path in sorted(folder.glob("*.py")))]
    code += [Path(str(module.__file__)) for module in (actions, episode)]
    passed = fingerprint_lines(
        str(t.extra.get("public_passed")) for t in sorted(evaluation.trajectories, key=lambda t: t.trajectory_id)
    )
    return fingerprint(
        [
            evaluation.fingerprint,
            validation.fingerprint if validation is not None else None,
            passed,
            replicates,
            seed,
            [file_fingerprint(path) for path in code],
            # Of the table, length alone is read.
            []
            if scored is None
            else sorted(zip(scored.trajectory_id.tolist(), map(str, scored.n_tokens), strict=True)),
        ]
    )


def _reported(name: str, scores: Scores | Reason, replicates: int, seed: int) -> dict[str, Any]:
    if not isinstance(scores, Scores):
        return dict(scores)
    # A baseline beside a table is read by attempt; majority is the selector by patch.
    scores = replace(scores, patch=np.full(len(scores), ""))
    note = {"note": f"logarithm of {'tokens' if _has_tokens(scores) else 'characters'}"} if name == "length" else {}
    return report(scores, replicates=replicates, seed=seed) | note


def _of_table(scores: Scores, validation: Scores | None, folds: int) -> dict[str, Scores | Reason]:
    """The baselines that need no more than the table's columns."""
    return {
        "random": replace(scores, score=np.full(len(scores), 0.5)),
        "oracle": replace(scores, score=scores.resolved.copy()),
        "task_difficulty": replace(scores, score=_means(scores.task_id, scores.task_id, scores.resolved)),
        "policy_identity": _policy_identity(scores, validation, folds),
        "length": _length(scores, validation, folds),
    }


def _fitted(fit: Fit, scores: Scores, validation: Scores | None, folds: int) -> Scores | Reason:
    """Scores by a fit to validation, or to the other folds of clusters; a reason where there are not both labels to fit on."""
    if validation is not None:
        parts = [(validation, np.ones(len(scores), dtype=bool))]
    else:
        names, cluster_N = np.unique(scores.cluster, return_inverse=True)
        fold_N = fold_of_clusters(len(names), folds)[cluster_N]
        parts = [(scores.select(fold_N != fold), fold_N == fold) for fold in np.unique(fold_N)]
    score_N = np.full(len(scores), np.nan)
    for known, inside_N in parts:
        labelled = known.select(~np.isnan(known.resolved))
        if len(np.unique(labelled.resolved)) < 2:
            return {
                "reason": "there is no validation part with both labels to fit on"
                if validation is not None
                else "there are not both labels to fit on in other clusters"
            }
        score_N[inside_N] = fit(labelled, scores.select(inside_N))
    return replace(scores, score=score_N)


def _policy_identity(scores: Scores, validation: Scores | None, folds: int) -> Scores | Reason:
    policies = {*scores.policy.tolist(), *(() if validation is None else validation.policy.tolist())}
    if len(policies) < 2:
        return {"reason": "the table has one policy"}
    fitted = _fitted(lambda known, own: _means(own.policy, known.policy, known.resolved), scores, validation, folds)
    if isinstance(fitted, Scores) and np.isnan(fitted.score).any():
        where = "other clusters have" if validation is None else "validation has"
        return {"reason": f"{where} no attempts of policy {min(fitted.policy[np.isnan(fitted.score)])}"}
    return fitted


def _length(scores: Scores, validation: Scores | None, folds: int) -> Scores | Reason:
    """By the column n_tokens, whatever unit it holds."""
    if not _has_tokens(scores):
        return {"reason": "the table has no n_tokens"}
    return _fitted(_by_length, scores, validation, folds)


def _by_length(known: Scores, scores: Scores) -> Floats:
    from sklearn.linear_model import LogisticRegression

    stated = known.select(~np.isnan(known.n_tokens))
    score_N = np.full(len(scores), np.nan)
    if len(np.unique(stated.resolved)) < 2:
        return score_N
    model = LogisticRegression(max_iter=5000).fit(np.log1p(stated.n_tokens[:, None]), stated.resolved)
    has = ~np.isnan(scores.n_tokens)
    if has.any():
        score_N[has] = model.predict_proba(np.log1p(scores.n_tokens[has, None]))[:, 1]
    return score_N


def _has_tokens(scores: Scores) -> bool:
    return not np.isnan(scores.n_tokens).all()


def _means(wanted: Any, known: Any, label_N: Floats) -> Floats:
    """For each wanted name the mean label of the known rows of that name; NaN where none is labelled."""
    labelled = ~np.isnan(label_N)
    names, code_N = np.unique(known[labelled], return_inverse=True)
    means = dict(
        zip(names.tolist(), np.bincount(code_N, label_N[labelled]) / np.maximum(np.bincount(code_N), 1), strict=True)
    )
    return np.array([means.get(name, np.nan) for name in wanted.tolist()])


def _last_value(scores: Scores, rows: Sequence[Trajectory]) -> Scores | Reason:
    expected = [expected_value(t.messages) for t in rows]
    if missing := sum(value is None for value in expected):
        return {"reason": f"{counted(missing, 'attempt names', 'attempts name')} no expected value: not of micro-SWE"}
    right = [float(last_value(t.messages) == value) for t, value in zip(rows, expected, strict=True)]
    return replace(scores, score=np.array(right))


def _public_execution(scores: Scores, rows: Sequence[Trajectory]) -> Scores | Reason:
    passed = [t.extra.get("public_passed") for t in rows]
    if all(value is None for value in passed):
        return {"reason": "the public call was not executed on the final programs"}
    return replace(scores, score=np.array([np.nan if value is None else float(value) for value in passed]))


def _majority(scores: Scores, reported: dict[str, Any], seed: int) -> dict[str, Any]:
    rows = scores.select(~np.isnan(scores.resolved))
    if without := int((rows.patch == "").sum()):
        return {"reason": f"{counted(without, 'attempt has', 'attempts have')} no patch"}
    ks = [int(k) for k in reported["rm_at_k"]]
    groups = list(zip(rows.task_id.tolist(), rows.policy.tolist(), strict=True))
    value, error = majority_at_k(groups, rows.patch.tolist(), [bool(y) for y in rows.resolved], ks, seed)
    return {"rm_at_k": value, "rm_at_k_standard_error": error, "pass_at_k": reported["pass_at_k"]}


def majority_at_k(
    groups: Sequence[tuple[str, str]], patches: Sequence[str], labels: Sequence[bool], ks: Sequence[int], seed: int = 0
) -> tuple[dict[str, float], dict[str, float]]:
    """({"k": expected label of the pick}, {"k": standard error of the sampling, 0 where exact}), means over policies.

    groups: (task, policy) of each attempt; patches, labels: of each attempt. A group with fewer than k uses all it has.
    Each policy's value is its mean over tasks.
    """
    rng = np.random.default_rng(seed)
    members: dict[tuple[str, str], list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    policies = sorted({policy for _, policy in members})
    value: dict[str, float] = {}
    error: dict[str, float] = {}
    samples: dict[int, dict[str, list[NDArray[np.float64]]]] = {k: {p: [] for p in policies} for k in ks}
    for (_, policy), rows in sorted(members.items()):
        _, patch_N = np.unique([patches[row] for row in rows], return_inverse=True)
        label_N = np.array([float(labels[row]) for row in rows])
        order_SN = rng.permuted(np.tile(np.arange(len(rows)), (SUBSETS, 1)), axis=1)
        for k in ks:
            drawn = order_SN[:, :k] if k < len(rows) else np.arange(len(rows))[None, :]
            samples[k][policy].append(
                np.broadcast_to(picked(patch_N, np.ones(len(rows), dtype=np.int64), label_N, drawn), SUBSETS)
            )
    for k in ks:
        mean_S = np.mean([np.mean(samples[k][policy], axis=0) for policy in policies], axis=0)
        value[str(k)] = float(mean_S.mean())
        error[str(k)] = float(mean_S.std() / np.sqrt(SUBSETS))
    return value, error
