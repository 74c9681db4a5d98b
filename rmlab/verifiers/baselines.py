"""What could one know without a verifier? The scores and selectors that stand beside every table.

Scores (a number for each attempt, judged by all metrics): random, oracle, the last value shown is the expected one, the
execution of the public call, task difficulty (the task's own mean label: an oracle, named so), policy identity, length
and shape (the last three fitted on validation). Selectors without a score: majority of identical patches.
Where the columns of a baseline are missing, it stands there as null with a reason.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmlab.files import write_text
from rmlab.fingerprint import file_fingerprint, fingerprint, fingerprint_lines
from rmlab.metrics import report as report_module
from rmlab.metrics.report import report
from rmlab.microswe import actions, episode
from rmlab.microswe.episode import expected_value, last_value
from rmlab.paths import runs_folder
from rmlab.scores import majority, scores, shape
from rmlab.scores.majority import majority_at_k
from rmlab.scores.scores import Scores
from rmlab.scores.shape import fit_length, fit_shape
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import TrajectorySet
from rmlab.wording import counted

Reason = dict[str, str]


def scores_of(trajectories: Sequence[Trajectory], score: Sequence[float] | NDArray[np.float64]) -> Scores:
    """A score table of these attempts. score: in [0, 1], one for each, NaN = not scored."""

    def column(name: str) -> NDArray[np.str_]:
        return np.array([getattr(t, name) for t in trajectories], dtype=np.str_)

    return Scores(
        task_id=column("task_id"),
        score=np.asarray(score, dtype=np.float64),
        resolved=np.array([np.nan if t.resolved is None else float(t.resolved) for t in trajectories]),
        trajectory_id=column("trajectory_id"),
        policy=column("policy"),
        source=column("source"),
        cluster=column("cluster"),
        n_tokens=np.full(len(trajectories), np.nan),
    )


def score_baselines(evaluation: TrajectorySet, validation: TrajectorySet | None) -> dict[str, Scores | Reason]:
    """Every baseline that gives each attempt a score, or the reason why it cannot.

    evaluation: the attempts that are judged. validation: what the fitted ones are fitted on.
    """
    rows = evaluation.trajectories
    found: dict[str, Scores | Reason] = {
        "random": scores_of(rows, [0.5] * len(rows)),
        "oracle": scores_of(rows, [np.nan if t.resolved is None else float(t.resolved) for t in rows]),
        "last_value": _last_value(rows),
        "public_execution": _public_execution(rows),
        "task_difficulty": scores_of(rows, _means(rows, rows, "task_id")),
        "policy_likelihood": {"reason": "the trajectories carry no log-likelihoods of their policies"},
    }
    labelled = [t for t in validation.trajectories if t.resolved is not None] if validation is not None else []
    if len({t.resolved for t in labelled}) < 2:
        missing = {"reason": "there is no validation part with both labels to fit on"}
        return found | {"policy_identity": missing, "length": missing, "shape": missing}
    unseen = {t.policy for t in rows} - {t.policy for t in labelled}
    found["policy_identity"] = (
        {"reason": f"validation has no attempts of policy {sorted(unseen)[0]}"}
        if unseen
        else scores_of(rows, _means(labelled, rows, "policy"))
    )
    found["length"] = scores_of(rows, fit_length(labelled, rows))
    found["shape"] = scores_of(rows, fit_shape(labelled, rows))
    return found


def baseline_report(
    evaluation: TrajectorySet, validation: TrajectorySet | None = None, *, replicates: int = 2000, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """name -> all metrics of `rmlab.metrics.report` (majority: rm_at_k, its standard errors, pass_at_k), or {"reason": ...}.

    All cells of a sweep ask for the same numbers, so they are kept in the cache folder, by trajectories, arguments and the
    text of everything that computes them.
    """
    cache = runs_folder() / "cache" / f"baselines-{_identity(evaluation, validation, replicates, seed)}.json"
    if cache.is_file():
        return dict(json.loads(cache.read_text(encoding="utf-8")))
    found: dict[str, dict[str, Any]] = {}
    for name, made in score_baselines(evaluation, validation).items():
        found[name] = report(made, replicates=replicates, seed=seed) if isinstance(made, Scores) else dict(made)
    found["majority"] = _majority(evaluation.trajectories, found["random"], seed)
    write_text(cache, json.dumps(found, indent=1))
    return found


def _identity(evaluation: TrajectorySet, validation: TrajectorySet | None, replicates: int, seed: int) -> str:
    code = [
        Path(__file__),
        *(Path(module.__file__) for module in (majority, shape, scores, actions, episode)),
        *sorted(Path(report_module.__file__).parent.glob("*.py")),
    ]
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
        ]
    )


def _last_value(rows: Sequence[Trajectory]) -> Scores | Reason:
    expected = [expected_value(t.messages) for t in rows]
    if any(value is None for value in expected):
        return {
            "reason": f"{counted(sum(v is None for v in expected), 'attempt names', 'attempts name')} no expected value: not of micro-SWE"
        }
    return scores_of(rows, [float(last_value(t.messages) == value) for t, value in zip(rows, expected, strict=True)])


def _public_execution(rows: Sequence[Trajectory]) -> Scores | Reason:
    passed = [t.extra.get("public_passed") for t in rows]
    if all(value is None for value in passed):
        return {"reason": "the public call was not executed on the final programs"}
    return scores_of(rows, [np.nan if value is None else float(value) for value in passed])


def _means(known: Sequence[Trajectory], rows: Sequence[Trajectory], name: str) -> list[float]:
    """For each row the mean label of the known attempts that share its `name`; NaN where none is labelled."""
    labels: dict[str, list[float]] = {}
    for t in known:
        if t.resolved is not None:
            labels.setdefault(getattr(t, name), []).append(float(t.resolved))
    means = {key: float(np.mean(values)) for key, values in labels.items()}
    return [means.get(getattr(t, name), float("nan")) for t in rows]


def _majority(rows: Sequence[Trajectory], reported: dict[str, Any], seed: int) -> dict[str, Any]:
    labelled = [t for t in rows if t.resolved is not None]
    if any(t.patch is None for t in labelled):
        return {"reason": f"{counted(sum(t.patch is None for t in labelled), 'attempt has', 'attempts have')} no patch"}
    ks = [int(k) for k in reported["rm_at_k"]]
    value, error = majority_at_k(
        [(t.task_id, t.policy) for t in labelled],
        [str(t.patch) for t in labelled],
        [bool(t.resolved) for t in labelled],
        ks,
        seed,
    )
    return {"rm_at_k": value, "rm_at_k_standard_error": error, "pass_at_k": reported["pass_at_k"]}
