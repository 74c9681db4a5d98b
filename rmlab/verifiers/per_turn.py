"""When does a verifier make up its mind? The score after every turn of an attempt, one pass per prefix.

A turn is an action of the agent and its answer. After each, the verifier is asked as if the attempt ended there, without a
patch, since there is none yet; the last prefix is the whole attempt with its patch, so its score is that of the score table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rmlab.errors import DataError
from rmlab.files import atomic_path
from rmlab.progress import progress
from rmlab.trajectories.record import Trajectory

if TYPE_CHECKING:
    from rmlab.verifiers.judge_model import JudgeModel
    from rmlab.verifiers.verifier import Verifier

AT_ONCE = 64  # attempts whose prefixes are held as token ids at once
SUFFIX = ".turns.parquet"

TurnScores = Mapping[str, Sequence[tuple[int, float | None]]]
"""trajectory_id -> (messages read, score) in order; None = did not fit the context."""


def prefixes(trajectory: Trajectory) -> list[tuple[int, Trajectory]]:
    """(messages read, the attempt as if it ended there) after every turn; the last is the attempt itself."""
    roles = [message.role for message in trajectory.messages]
    first = roles.index("assistant") if "assistant" in roles else len(roles)
    ends = [end for end in range(first + 1, len(roles)) if roles[end] == "assistant"]
    return [
        *((end, replace(trajectory, messages=trajectory.messages[:end], patch=None)) for end in ends),
        (len(roles), trajectory),
    ]


def score_turns(
    verifier: "Verifier | JudgeModel",
    trajectories: Sequence[Trajectory],
    *,
    batch_tokens: int = 16384,
    show: bool = False,
) -> TurnScores:
    """The scores of all prefixes of all attempts."""
    scores: dict[str, list[tuple[int, float | None]]] = {}
    with progress("score after every turn", len(trajectories), "attempts", show=show) as advance:
        for start in range(0, len(trajectories), AT_ONCE):
            chunk = trajectories[start : start + AT_ONCE]
            cut = [(t, end, prefix) for t in chunk for end, prefix in prefixes(t)]
            encoded = [e for t in chunk for e in verifier.encode_prefixes(t, [prefix for _, prefix in prefixes(t)])]
            table = verifier.score(encoded, batch_tokens=batch_tokens)
            # By id: a prefix that does not fit is left out of the table under over_length=drop.
            score = dict(zip(table.trajectory_id.tolist(), table.score.tolist(), strict=True))
            for t, end, prefix in cut:
                value = score.get(prefix.trajectory_id, np.nan)
                scores.setdefault(t.trajectory_id, []).append((end, None if np.isnan(value) else value))
            advance(len(chunk))
    return scores


def turns_path(scores: Path) -> Path:
    """Where the scores after every turn stand: beside the score table, `scores.parquet` → `scores.turns.parquet`."""
    return scores.with_name(scores.stem + SUFFIX)


def write_turn_scores(path: Path, scores: TurnScores) -> None:
    """Writes trajectory_id, messages, score, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [(name, end, score) for name, turns in scores.items() for end, score in turns]
    columns = {
        "trajectory_id": pa.array([r[0] for r in rows], pa.string()),
        "messages": pa.array([r[1] for r in rows], pa.int32()),
        "score": pa.array([r[2] for r in rows], pa.float64()),
    }
    with atomic_path(path) as temporary:
        pq.write_table(pa.table(columns), temporary, compression="zstd")


def read_turn_scores(path: Path) -> TurnScores:
    """Reads what `write_turn_scores` wrote. Raises DataError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=["trajectory_id", "messages", "score"])
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DataError(
            f"{path} has no scores after every turn ({(str(error).splitlines() or ['damaged'])[0]}). "
            "`rmlab score --per-turn` writes it."
        ) from error
    scores: dict[str, list[tuple[int, float | None]]] = {}
    for name, end, score in zip(*(table[column].to_pylist() for column in table.column_names), strict=True):
        if (
            not isinstance(name, str)
            or not isinstance(end, int)
            or not (score is None or (isinstance(score, float) and 0 <= score <= 1))
        ):
            raise DataError(f"{path}: {name}, {end} messages: score {score} is not a valid score")
        scores.setdefault(name, []).append((end, score))
    return scores
