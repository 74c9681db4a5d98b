"""`rmlab compare A RULE`: is a verifier better than a rule that needs none, on the same attempts?

The rules are those beside every report (`rmlab.baselines.rules`). Beside a run, a rule reads what the run read, is fitted on the same
attempts as in the run's report, and so has the values that stand there. Identical patches count as one in both tables where
a metric looks at patches; in the report a rule is read by attempt alone.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmlab.errors import DataError, MissingArtifact, UsageError
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.baselines.rules import Judged
    from rmlab.scores.scores import Scores
    from rmlab.tracking.bundles.reading import AnyRun
    from rmlab.trajectories.record import Trajectory
    from rmlab.trajectories.store import TrajectorySet


def rules() -> str:
    """The names of the rules that a run or a table can be compared with, as a message lists them."""
    from rmlab.baselines.rules import SCORING

    return ", ".join(SCORING)


def rule_among(a: str, b: str) -> str | None:
    """The side that is a rule, None where neither is; a file or a folder of that name is none.

    Raises UsageError where both are, or where the rule gives attempts no scores.
    """
    from rmlab.baselines.rules import ORDER, SCORING

    found = [name for name in (a, b) if name in ORDER and not Path(name).exists()]
    if len(found) == 2:
        raise UsageError(
            f"{a} and {b} are both rules: name a run or a score table on one side, whose attempts the rule scores"
        )
    if found and found[0] not in SCORING:
        raise UsageError(f"the rule {found[0]} gives attempts no scores of their own; rules that do are {rules()}")
    return found[0] if found else None


def beside_rule(
    rule: str, scores: "Scores", name: str, run: "AnyRun | None", trajectories: Path | None
) -> "tuple[Scores, Scores]":
    """The table that is compared, and the rule's scores of the same attempts.

    scores: of a run, or of a file, which is `name`. trajectories: the file that the rule reads; None = what the run read, nothing for
    a file. Rows that it lacks are left out and counted, and it is said where a rule is not fitted as in the run's report. Raises
    DataError where the rule cannot score these attempts.
    """
    from rmlab.baselines.rules import FITTED_TO_TABLE, READ, rule_scores

    config = _configuration(run)
    path = trajectories or _own_pool(run, config, needed=rule in READ)
    folds: list[Judged] = []
    if path is not None:
        scores, folds = _with_trajectories(scores, name, path, config, is_run=run is not None)
    elif rule in READ:
        raise DataError(f"the rule {rule} reads trajectories, which a score table lacks: name them with --trajectories")
    found = rule_scores(rule, scores, folds, by_tokens=run is None)
    otherwise = (
        "the trajectories that the run read are not here (--trajectories names them)" if run and not path else ""
    )
    if isinstance(found, dict) and folds:
        of_table = rule_scores(rule, scores)
        if not isinstance(of_table, dict):
            otherwise, found = found["reason"], of_table
    if isinstance(found, dict):
        more = "" if path or rule != "length" else "; --trajectories gives it the attempts' characters"
        raise DataError(f"the rule {rule} cannot score these attempts: {found['reason']}{more}")
    if otherwise and rule in FITTED_TO_TABLE:
        print(f"the rule {rule} is fitted on other clusters of the table: {otherwise}", file=sys.stderr)
    return scores, found


def _configuration(run: "AnyRun | None") -> dict[str, Any]:
    """What is known of a run's configuration; nothing of a file, or of a run that came without it."""
    import yaml

    try:
        return dict(yaml.safe_load(run.artifact("config.yaml").read_text(encoding="utf-8"))) if run else {}
    except MissingArtifact:
        return {}


def _own_pool(run: "AnyRun | None", config: Mapping[str, Any], *, needed: bool) -> Path | None:
    """The trajectories that a run read, if they are still where they were. Raises DataError where they are not and are needed."""
    from rmlab.paths import located
    from rmlab.selection.pool import read_index

    if run is None:
        return None
    stated = str(config.get("data", {}).get("path") or "")
    path = located(stated) if stated else None
    if path is not None and path.is_file() and read_index(str(path)).fingerprint == run.tags.get("dataset"):
        return path
    if not needed:
        return None
    where = f"{stated} is not here, or holds others now" if stated else "the run does not say where they are"
    raise DataError(
        f"the trajectories that {run.name} ({run.run_id}) read are needed: {where}. Name them with --trajectories."
    )


def _with_trajectories(
    scores: "Scores", name: str, path: Path, config: Mapping[str, Any], *, is_run: bool
) -> "tuple[Scores, list[Judged]]":
    """The rows whose trajectories are in a set, and what is judged and fitted on, as the run of `config` has it."""
    import numpy as np

    from rmlab.scores.joining import join
    from rmlab.scores.table import ScoreTable
    from rmlab.trajectories.store import read_trajectories

    pool = read_trajectories(path)
    joined = join(ScoreTable(scores), Path(name), pool, path)
    if joined.table_only:
        print(f"{counted(joined.table_only, 'attempt')} of {name} left out: not in {path}", file=sys.stderr)
    if joined.labels_differ:
        labels = counted(joined.labels_differ, "attempt has another label", "attempts have another label")
        print(f"{labels} in {path} than in {name}: that of {path} counts", file=sys.stderr)
    rows = joined.table.scores
    if is_run:  # with its own clusters: a cross-validation has joined those whose issues are alike
        its_own = scores.select(np.isin(scores.trajectory_id, rows.trajectory_id))
        rows = replace(rows, cluster=its_own.cluster)
    return rows, _folds(joined.trajectories, pool, config)


def _folds(attempts: "Sequence[Trajectory]", pool: "TrajectorySet", config: Mapping[str, Any]) -> "list[Judged]":
    """What is judged and what rules are fitted on for it: a pair a fold of a run that was cross-validated, else one."""
    from rmlab.baselines.rules import Judged
    from rmlab.microswe.episode import Evidence
    from rmlab.trajectories.folds import FoldsConfig, folds_of
    from rmlab.trajectories.store import TrajectorySet
    from rmlab.verifiers.config import PromptConfig
    from rmlab.verifiers.prompt import visible

    shown = PromptConfig(evidence=Evidence(config.get("prompt", {}).get("evidence", Evidence.final)))

    def judged(rows: Sequence[int], known: "Iterable[Trajectory]") -> Judged:
        attempts_there = tuple(visible(attempts[row], shown) for row in rows)
        return Judged(rows, TrajectorySet(attempts_there, pool.metadata), TrajectorySet(tuple(known), pool.metadata))

    if "folds" in config:
        row_of = {t.trajectory_id: row for row, t in enumerate(attempts)}
        return [
            judged(
                [
                    row_of[t.trajectory_id]
                    for t in one.trajectories
                    if t.split == "evaluation" and t.trajectory_id in row_of
                ],
                (t for t in one.trajectories if t.split in ("verifier", "validation")),
            )
            for one in folds_of(pool.trajectories, FoldsConfig(**config["folds"]))
        ]
    clusters = {t.cluster for t in attempts}  # never fitted on what is judged
    apart = (visible(t, shown) for t in pool.part("validation").trajectories if t.cluster not in clusters)
    return [judged(range(len(attempts)), apart)]
