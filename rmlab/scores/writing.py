"""Writes the score tables of verifiers, in the columns and formats that table.py explains."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmlab.errors import UsageError
from rmlab.files import atomic_path
from rmlab.scores.columns import COLUMNS
from rmlab.scores.scores import Scores

if TYPE_CHECKING:
    import pyarrow as pa

Stated = Mapping[str, str]
"""What a Parquet file says of what made it."""
Writer = Callable[[Path, Scores, Stated], None]


def write_score_table(path: Path | str, scores: Scores, stated: Stated | None = None) -> None:
    """Writes a score table whole or not at all; the format follows the suffix. What is absent stays absent, numbers keep all digits."""
    path = Path(path)
    writer = table_writer(path)
    with atomic_path(path) as temporary:
        writer(temporary, scores, stated or {})


def table_writer(path: Path) -> Writer:
    """What writes this format. Raises UsageError where the suffix is that of none."""
    writer = WRITERS.get(path.suffix.lower())
    if writer is None:
        raise UsageError(f"{path}: a score table ends in .csv, .jsonl or .parquet, not in {path.suffix or 'nothing'}")
    return writer


def _plain_rows(scores: Scores) -> Iterator[dict[str, Any]]:
    def absent(text: str) -> str | None:
        return text or None

    has_patches = "patch" in _written(scores)
    for i in range(len(scores)):
        score, resolved, tokens = scores.score[i], scores.resolved[i], scores.n_tokens[i]
        row = {
            "task_id": str(scores.task_id[i]),
            "trajectory_id": absent(str(scores.trajectory_id[i])),
            "policy": absent(str(scores.policy[i])),
            "source": absent(str(scores.source[i])),
            "cluster": str(scores.cluster[i]),
            "score": None if np.isnan(score) else float(score),
            "resolved": None if np.isnan(resolved) else bool(resolved),
            "n_tokens": None if np.isnan(tokens) else int(tokens),
        }
        if has_patches:
            row["patch"] = absent(str(scores.patch[i]))
        yield row


def _written(scores: Scores) -> tuple[str, ...]:
    """The columns of its file: `patch` is written only where an attempt has one."""
    return tuple(name for name in COLUMNS if name != "patch" or (scores.patch != "").any())


def _write_csv(path: Path, scores: Scores, _: Stated) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        plain = csv.DictWriter(file, _written(scores), lineterminator="\n")
        quoted = csv.DictWriter(file, _written(scores), lineterminator="\n", quoting=csv.QUOTE_ALL)
        plain.writeheader()
        for row in _plain_rows(scores):
            label = row["resolved"]
            # A lone carriage return ends a line for readers, but csv quotes only what its own line end has.
            writer = quoted if any(isinstance(cell, str) and "\r" in cell for cell in row.values()) else plain
            writer.writerow(row | {"resolved": None if label is None else str(label).lower()})


def _write_jsonl(path: Path, scores: Scores, _: Stated) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in _plain_rows(scores):
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def _write_parquet(path: Path, scores: Scores, stated: Stated) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = parquet_schema(_written(scores)).with_metadata(dict(stated) or None)
    pq.write_table(pa.Table.from_pylist(list(_plain_rows(scores)), schema=schema), path, compression="zstd")


def parquet_schema(columns: Sequence[str]) -> "pa.Schema":
    """The types of these columns of a score table in Parquet."""
    import pyarrow as pa

    kinds = {"score": pa.float64(), "resolved": pa.bool_(), "n_tokens": pa.int64()}
    return pa.schema([(name, kinds.get(name, pa.string())) for name in columns])


WRITERS: dict[str, Writer] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".ndjson": _write_jsonl,
    ".parquet": _write_parquet,
}
