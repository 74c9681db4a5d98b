"""A score table and the trajectories that it scores, joined: the table provides the scores, the set everything else.

Rows are matched by trajectory_id; one without by its task and its policy, where the set has exactly one such attempt. Task,
policy, cluster, source and patch come from the set, and so does the label if it has one. What does not match is left out and counted.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rmlab.errors import DataError
from rmlab.scores.scores import Scores
from rmlab.scores.table import ScoreTable
from rmlab.trajectories.record import Trajectory, task_key
from rmlab.trajectories.store import TrajectorySet
from rmlab.wording import counted

Matched = tuple[Trajectory | None, bool]
"""The trajectory of a row, and whether it was found by trajectory_id."""


@dataclass(frozen=True)
class JoinedTable:
    """table: the rows that joined, in their order. trajectories: theirs, with the label that counts.

    rows: how many joined; by_id: of them, by trajectory_id. table_only, set_only: rows and trajectories without a partner.
    labels_differ: rows that stated another label than the set.
    """

    table: ScoreTable
    trajectories: tuple[Trajectory, ...]
    by_id: int
    table_only: int
    set_only: int
    labels_differ: int

    @property
    def counts(self) -> dict[str, int]:
        """How many joined and how many did not, for a report."""
        return {
            "rows": len(self.trajectories),
            "by_trajectory_id": self.by_id,
            "table_only": self.table_only,
            "set_only": self.set_only,
            "labels_differ": self.labels_differ,
        }


def join(table: ScoreTable, path: Path, pool: TrajectorySet, pool_path: Path) -> JoinedTable:
    """path, pool_path: where the two were read, for what is said. Raises DataError where a row fits several attempts, where two rows
    fit one, and where none joins."""
    scores = table.scores
    matched = list(_matches(scores, path, pool.trajectories, pool_path))
    keep = np.array([trajectory is not None for trajectory, _ in matched])
    partners = [trajectory for trajectory, _ in matched if trajectory is not None]
    if not partners:
        raise DataError(_nothing_joins(scores, path, pool.trajectories, pool_path))
    place: dict[str, int] = {}
    for row, (trajectory, _) in enumerate(matched, 1):
        if trajectory and (first := place.setdefault(trajectory.trajectory_id, row)) != row:
            raise DataError(
                f"{path}: rows {first} and {row} score one attempt, {trajectory.trajectory_id} (task {trajectory.task_id}, policy "
                f"{trajectory.policy}): every attempt must be scored once"
            )
    rows = scores.select(keep)
    stated = [None if np.isnan(label) else bool(label) for label in rows.resolved]
    labelled = tuple(
        t if t.resolved is not None else replace(t, resolved=label) for t, label in zip(partners, stated, strict=True)
    )
    by_id = sum(by for _, by in matched)
    differ = sum(
        label is not None and label != trajectory.resolved for trajectory, label in zip(labelled, stated, strict=True)
    )
    table_only, set_only = len(scores) - len(partners), len(pool) - len(partners)
    note = f"joined with {pool_path}: {_how(len(partners), by_id)}"
    if table_only:
        first_row = scores.select(~keep).select(np.arange(1))
        name = first_row.trajectory_id[0] or " of ".join(filter(None, (first_row.task_id[0], first_row.policy[0])))
        note += f"; {counted(table_only, 'row')} of the table left out, not in the set (first: {name})"
    else:
        note += "; every row of the table is in the set"
    if set_only:
        note += f"; {counted(set_only, 'trajectory', 'trajectories')} of the set without a row in the table"
    else:
        note += "; every trajectory of the set has a row"
    notes = [note]
    if differ:
        notes.append(
            f"{counted(differ, 'row states', 'rows state')} a different label from the set, whose labels are used"
        )
    joined = ScoreTable(
        Scores.of_trajectories(labelled, rows.score, rows.n_tokens),
        None if table.regression_N is None else table.regression_N[keep],
        None if table.reproduction_N is None else table.reproduction_N[keep],
        (*table.notes, *notes),
    )
    return JoinedTable(joined, labelled, by_id, table_only, set_only, differ)


def _how(rows: int, by_id: int) -> str:
    by_task = rows - by_id
    parts = [
        f"{counted(n, 'row')} by {how}" for n, how in ((by_id, "trajectory_id"), (by_task, "task and policy")) if n
    ]
    return ", ".join(parts)


def _matches(scores: Scores, path: Path, trajectories: Sequence[Trajectory], pool_path: Path) -> Iterator[Matched]:
    by_id = {t.trajectory_id: t for t in trajectories}
    of_task: dict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        of_task[task_key(trajectory.task_id)].append(trajectory)
    columns = zip(scores.trajectory_id.tolist(), scores.task_id.tolist(), scores.policy.tolist(), strict=True)
    for row, (name, task, policy) in enumerate(columns, 1):
        if name:
            yield by_id.get(name), name in by_id
            continue
        fitting = [t for t in of_task.get(task_key(task), ()) if policy in ("", t.policy)]
        if len(fitting) > 1:
            policies = sorted({t.policy for t in fitting})
            alone = "policy (or --columns policy=NAME), or trajectory_id"
            missing = "trajectory_id" if policy or len(policies) < len(fitting) else alone
            raise DataError(
                f"{path}, row {row}: {pool_path} has {len(fitting)} attempts at task {task}"
                f"{f' of policy {policy}' if policy else ' (' + ', '.join(policies) + ')'}, and the table does not say which is scored. "
                f"Add a column {missing}; `rmlab trajectories show {pool_path}` shows what is there."
            )
        yield (fitting[0] if fitting else None), False


def _nothing_joins(scores: Scores, path: Path, trajectories: Sequence[Trajectory], pool_path: Path) -> str:
    """Why no row joins: the first of each side, as far as they have names."""
    if not trajectories:
        return f"{pool_path} has no trajectories: collect or import some"
    row, first = scores.select(np.arange(1)), trajectories[0]
    if row.trajectory_id[0]:
        has, other = f"trajectory_id {row.trajectory_id[0]}", first.trajectory_id
    else:
        has, other = (
            f"task {row.task_id[0]}, policy {row.policy[0] or 'not said'}",
            f"task {first.task_id}, policy {first.policy}",
        )
    return (
        f"none of the {counted(len(scores), 'row')} of {path} is in {pool_path} (the table has {has}; the set has {other}): "
        "name the set whose trajectories were scored"
        + ("; without the column trajectory_id, rows are matched by task and policy" if row.trajectory_id[0] else "")
    )
