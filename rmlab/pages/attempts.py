"""Scored attempts joined with their trajectories, the most confident mistakes first: what the reader of trajectories shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmlab.errors import DataError
from rmlab.metrics.scores import Scores
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.per_turn import TurnScores

Details = dict[str, Any]
"""What is shown of one attempt: plain JSON."""


@dataclass(frozen=True)
class Attempts:
    """scores: in the order shown. trajectory: by trajectory_id; not all need be there. turns: scores after every turn."""

    scores: Scores
    trajectory: Mapping[str, Trajectory]
    turns: TurnScores

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def mistakes(self) -> int:
        """How many attempts the likelier answer is wrong about; they come first."""
        return int((np.abs(self.scores.score - self.scores.resolved) > 0.5).sum())

    @property
    def without_trajectory(self) -> int:
        """How many scored attempts have no trajectory here."""
        return sum(name not in self.trajectory for name in self.scores.trajectory_id.tolist())

    def columns(self, start: int = 0, count: int | None = None) -> dict[str, Any]:
        """The table's columns for these rows, as plain lists; null = unlabelled, not scored, not known."""
        end = len(self) if count is None else min(start + count, len(self))
        rows = self.scores.select(np.arange(start, max(end, start)))
        own = [self.trajectory.get(name) for name in rows.trajectory_id.tolist()]
        return {
            "id": rows.trajectory_id.tolist(),
            "task": rows.task_id.tolist(),
            "policy": rows.policy.tolist(),
            "attempt": [None if t is None else t.attempt for t in own],
            "score": [_rounded(s) for s in rows.score.tolist()],
            "label": [None if np.isnan(y) else int(y) for y in rows.resolved.tolist()],
            "turns": [None if t is None else sum(m.role == "assistant" for m in t.messages) for t in own],
            "tokens": [None if np.isnan(n) else int(n) for n in rows.n_tokens.tolist()],
        }

    def telling_columns(self) -> list[str]:
        """The table's columns that tell attempts apart, so that no room is spent on the others."""
        told = {
            "policy": len(np.unique(self.scores.policy)) > 1,
            "attempt": len({t.attempt for t in self.trajectory.values()}) > 1,
            "turns": bool(self.trajectory),
            "tokens": not np.isnan(self.scores.n_tokens).all(),
        }
        return [
            "task",
            *(name for name in ("policy", "attempt") if told[name]),
            "score",
            "label",
            "error",
            *(name for name in ("turns", "tokens") if told[name]),
        ]

    def details(self, trajectory_id: str, longest: int | None = None) -> Details | None:
        """Everything of one attempt; None where it is not here. longest: characters of a message or patch, its middle left out."""
        trajectory = self.trajectory.get(trajectory_id)
        if trajectory is None:
            return None
        patch = trajectory.patch
        return {
            "id": trajectory_id,
            "messages": [[message.role, shortened(message.content, longest)] for message in trajectory.messages],
            "patch": None if patch is None else shortened(patch, longest),
            "facts": {
                "source": trajectory.source,
                "cluster": trajectory.cluster,
                "exit": trajectory.exit_status,
                "label by": trajectory.label_source or "",
                "part": trajectory.split or "",
            },
            "turns": [[end, _rounded(score)] for end, score in self.turns.get(trajectory_id, ())],
        }


def join(scores: Scores, trajectories: Sequence[Trajectory], turns: TurnScores | None = None) -> Attempts:
    """Orders scored attempts by |score - label|, largest first, then by task; unscored and unlabelled ones stand last.

    Raises DataError where the table names no attempts, or none that is here.
    """
    if (scores.trajectory_id == "").any():
        raise DataError(
            f"{int((scores.trajectory_id == '').sum())} of {len(scores)} scores name no trajectory_id: nothing can be shown "
            "of them. `rmlab score` writes it; --columns trajectory_id=NAME names another column."
        )
    scored = set(scores.trajectory_id.tolist())
    own = {t.trajectory_id: t for t in trajectories if t.trajectory_id in scored}
    if not own:
        raise DataError(
            f"none of the {len(scores)} scored attempts is among these {len(trajectories)} trajectories (by trajectory_id): "
            "name the trajectories that the table was made from"
        )
    error_N = np.abs(scores.score - scores.resolved)
    order = np.lexsort((scores.trajectory_id, scores.task_id, -np.where(np.isnan(error_N), -1.0, error_N)))
    return Attempts(scores.select(order), own, turns or {})


def shortened(content: str, longest: int | None) -> str:
    """At most about `longest` characters, the middle left out and its size said."""
    if longest is None or len(content) <= longest:
        return content
    half = longest // 2
    return f"{content[:half]}\n[{len(content) - 2 * half:,} characters are left out here]\n{content[len(content) - half :]}"


def _rounded(score: float | None) -> float | None:
    return None if score is None or np.isnan(score) else float(f"{score:.6g}")
