"""A score table as `rmlab score` writes it, read by columns: a study reads hundreds of them, and by rows one takes ten times as long.

It handles only files whose cells need no individual checks: for anything else, and for anything wrong, it returns None, and table.py
reads the file by rows, which can name the place of each fault.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmlab.scores.columns import COLUMNS
from rmlab.scores.scores import Scores, patch_hash
from rmlab.scores.writing import parquet_schema

TEXTS = ("task_id", "trajectory_id", "policy", "source", "cluster")


def own_table(path: Path) -> Scores | None:
    """The scores of a Parquet file that has just the columns that `write_score_table` gives one, of the same types; else None."""
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            if not any(file.schema_arrow.equals(parquet_schema(names)) for names in (COLUMNS, COLUMNS[:-1])):
                return None
            table = file.read(use_threads=False)
            whole = table.num_rows == file.metadata.num_rows  # a damaged footer may hide rows
            return _scores({name: table.column(name) for name in table.column_names}) if whole and len(table) else None
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None


def _scores(columns: dict[str, Any]) -> Scores | None:
    texts = {name: [value or "" for value in columns[name].to_pylist()] for name in TEXTS}
    task, cluster = texts["task_id"], texts["cluster"]
    named = [name for name in texts["trajectory_id"] if name]
    cluster_of = dict(zip(task, cluster, strict=True))
    score_N, resolved_N, tokens_N = (_numbers(columns[name]) for name in ("score", "resolved", "n_tokens"))
    patches = columns["patch"].to_pylist() if "patch" in columns else [None] * len(task)
    different = {value for values in (*texts.values(), patches) for value in values if value}
    if (
        any(
            "\0" in value or value.lstrip().startswith("[") for value in different
        )  # no text, or maybe a list in a cell
        or "" in cluster_of
        or "" in cluster_of.values()
        or any(cluster_of[one] != its for one, its in zip(task, cluster, strict=True))
        or len(set(named)) < len(named)
        or np.isnan(score_N).sum() > columns["score"].null_count
        or (score_N < 0).any()
        or (score_N > 1).any()
        or (tokens_N < 0).any()
    ):
        return None
    hashes = {patch: "" if patch is None else patch_hash(patch) for patch in set(patches)}
    return Scores(
        **{name: np.array(values) for name, values in texts.items()},
        score=score_N,
        resolved=resolved_N,
        n_tokens=tokens_N,
        patch=np.array([hashes[patch] for patch in patches]),
    )


def _numbers(column: Any) -> NDArray[np.float64]:
    """The values of a column, NaN where there is none."""
    return np.asarray(column.cast("float64").to_numpy())
