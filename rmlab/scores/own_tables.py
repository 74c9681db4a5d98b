"""A score table as `rmlab score` writes it, read by columns: a study reads hundreds of them, and by rows one takes ten times as long.

It handles only files whose cells need no individual checks: for anything else, and for anything wrong, it returns None, and table.py
reads the file by rows, which can name the place of each fault.
"""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmlab.scores.columns import COLUMNS
from rmlab.scores.scores import Scores, patch_hash
from rmlab.scores.writing import parquet_schema

LIST = re.compile(r"(?:\A|\0)\s*\[")
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
    texts = {name: _coded(columns[name].fill_null("")) for name in TEXTS}
    (tasks, task_N), (clusters, cluster_N) = texts["task_id"], texts["cluster"]
    cluster_of = set(zip(task_N.tolist(), cluster_N.tolist(), strict=True))
    names, name_N = texts["trajectory_id"]
    score_N, resolved_N, tokens_N = (_numbers(columns[name]) for name in ("score", "resolved", "n_tokens"))
    patches, patch_N = _coded(columns["patch"]) if "patch" in columns else ([None], np.zeros(len(task_N), int))
    different = {value for values in (*(values for values, _ in texts.values()), patches) for value in values if value}
    if (
        not _plain(different)
        or "" in tasks
        or "" in clusters
        or len(cluster_of) > len(tasks)  # a task is in two clusters
        or (np.bincount(name_N, minlength=len(names))[[name != "" for name in names]] > 1).any()
        or np.isnan(score_N).sum() > columns["score"].null_count
        or (score_N < 0).any()
        or (score_N > 1).any()
        or (tokens_N < 0).any()
    ):
        return None
    return Scores(
        **{name: np.array(values)[of_N] for name, (values, of_N) in texts.items()},
        score=score_N,
        resolved=resolved_N,
        n_tokens=tokens_N,
        patch=np.array(["" if patch is None else patch_hash(patch) for patch in patches])[patch_N],
    )


def _plain(different: Collection[str]) -> bool:
    """Whether none of these texts has a NUL, which is no text, or begins like a list in a cell. All at once, by the NULs between them."""
    joined = "\0".join(different)
    return joined.count("\0") < max(len(different), 1) and LIST.search(joined) is None


def _coded(column: Any) -> tuple[list[Any], NDArray[np.intp]]:
    """The different values of a column of texts, None where one is missing, and which of them each of N rows has: most columns repeat
    a few values, and only these need to become text."""
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return coded.dictionary.to_pylist(), np.asarray(coded.indices, dtype=np.intp)


def _numbers(column: Any) -> NDArray[np.float64]:
    """The values of a column, NaN where there is none."""
    return np.asarray(column.cast("float64").to_numpy())
