"""Reading score tables: what `rmlab evaluate` and every figure read (writing.py writes them).

CSV, TSV, JSONL, JSON, packed or not, or Parquet with task_id, score (empty or null = not scored), resolved (empty or null =
unlabelled) and, where there, trajectory_id, policy, source, cluster (else `cluster_of` of the task), n_tokens, patch (a patch or
a hash of it; what is kept is the hash of patches.py); columns.py reads tables with other names. Other columns are left alone.
Anything invalid is a DataError with file, place and value, because a table that is read wrongly gives numbers that
look right.
"""

import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rmlab.errors import DataError
from rmlab.scores.columns import TESTS, ColumnNames, Reader
from rmlab.scores.files import header_of, one_line_errors, rows_of
from rmlab.scores.own_tables import own_table
from rmlab.scores.scores import Scores, cluster_of, patch_hash
from rmlab.scores.wanted import CsvCell
from rmlab.trajectories.labels.statement import stated_outcome
from rmlab.wording import counted

LABELS = {"1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0, "": math.nan}
LOG_PROBABILITY = re.compile(r"log_?-?p(rob|\b|_)|lp$", re.IGNORECASE)
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+\s*")


@dataclass(frozen=True)
class ScoreTable:
    """A score table as it was read.

    regression_N, reproduction_N: results of tests, one a row, NaN = not run; None where the table has no such columns.
    notes: what was found on the way (which token gave the score, lists in cells), a line each.
    """

    scores: Scores
    regression_N: NDArray[np.float64] | None = None
    reproduction_N: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()


def read_score_table(path: Path | str) -> Scores:
    """Reads and proves a score table whose columns have the names above; the format follows the suffix.

    Raises DataError with file, place and value for anything that is not a score table, UsageError for another suffix.
    """
    return read_table(path).scores


@one_line_errors()
def read_table(path: Path | str, names: ColumnNames | None = None, joined: bool = False) -> ScoreTable:
    """The same for a table whose columns have other names. Raises as read_score_table.

    joined: `resolved` may be missing, and so may task_id where trajectory_id is there: see joining.py.
    """
    path = Path(path)
    names = names or ColumnNames()
    if not names.named and not joined and (own := own_table(path)) is not None:
        return ScoreTable(own)
    wanted = names.wanted(joined)
    reader, columns = Reader(names, joined), _Columns(path, names.column("score"), joined)
    for place, cells in rows_of(path, wanted):

        def fail(reason: str, place: str = place) -> NoReturn:
            raise DataError(f"{path}, {place}: {reason}")

        for where, attempt in reader.attempts(place, cells, fail):
            columns.add(where, attempt)
    scores = columns.scores()
    reader.check(str(path))
    tests = {role: np.array(columns.tests[role]) if role in reader.tests else None for role in TESTS}
    notes = [*wanted.notes, *reader.notes(), *(() if joined else columns.notes())]
    return ScoreTable(scores, tests["regression"], tests["reproduction"], tuple(notes))


@one_line_errors()
def has_columns(path: Path, names: ColumnNames) -> bool:
    """Whether the table has every column that is named. Raises DataError for a file that is no table, UsageError for another suffix."""
    try:
        header = header_of(path, names.wanted())
    except DataError as error:
        with suppress(DataError):  # JSON by column is one only by names that it has
            header_of(path, ColumnNames().wanted())
            return False
        raise error
    return all(name in header for name in names.named.values())


@dataclass
class _Columns:
    """Rows so far, checked one by one so that a fault is named by its place. score_name: what the score's column is called.
    joined: as in read_table."""

    path: Path
    score_name: str = "score"
    joined: bool = False
    rows: list[tuple[str, str, str, str, str, float, float, float, str]] = field(default_factory=list)
    place_of: dict[str, str] = field(default_factory=dict)
    cluster_of: dict[str, tuple[str, str]] = field(default_factory=dict)
    tests: dict[str, list[float]] = field(default_factory=lambda: {role: [] for role in TESTS})
    by_repository: set[str] = field(default_factory=set)

    def add(self, place: str, cells: dict[str, Any]) -> None:
        def fail(reason: str) -> NoReturn:
            raise DataError(f"{self.path}, {place}: {reason}")

        task, trajectory, policy, source, cluster = (
            _text(cells, name, fail) for name in ("task_id", "trajectory_id", "policy", "source", "cluster")
        )
        if not task and not (self.joined and trajectory):
            fail("task_id is empty: every attempt belongs to a task")
        if trajectory and self.place_of.setdefault(trajectory, place) != place:
            fail(
                f"trajectory_id {trajectory} already occurs on {self.place_of[trajectory]}: every attempt must be scored once"
            )
        if not cluster and (cluster := cluster_of(task)) != task:
            self.by_repository.add(task)
        known, where = self.cluster_of.setdefault(task, (cluster, place))
        if known != cluster and not self.joined:
            fail(
                f"task {task} lies in cluster {cluster}, but in cluster {known} on {where}: "
                "all attempts at a task belong to one cluster"
            )
        self.rows.append(
            (
                task,
                trajectory,
                policy,
                source,
                cluster,
                _score(cells["score"], self.score_name, fail),
                _label(cells.get("resolved"), fail),
                _tokens(cells.get("n_tokens"), fail),
                _patch(cells.get("patch"), fail),
            )
        )
        for role, values in self.tests.items():
            values.append(
                _number(cells.get(role), role, "an attempt without test results has an empty cell (CSV) or null", fail)
            )

    def notes(self) -> list[str]:
        """What stands for clusters where no column does."""
        if not self.by_repository:
            return []
        repositories = {self.cluster_of[task][0] for task in self.by_repository}
        return [
            f"cluster: the repositories named in the task ids ({counted(len(repositories), 'repository', 'repositories')}, "
            f"{counted(len(self.by_repository), 'task')})"
        ]

    def scores(self) -> Scores:
        if not self.rows:
            raise DataError(f"{self.path} has no rows: there is nothing to evaluate")
        task, trajectory, policy, source, cluster, score, resolved, tokens, patch = zip(*self.rows, strict=True)
        return Scores(
            task_id=np.array(task),
            score=np.array(score, dtype=float),
            resolved=np.array(resolved, dtype=float),
            trajectory_id=np.array(trajectory),
            policy=np.array(policy),
            source=np.array(source),
            cluster=np.array(cluster),
            n_tokens=np.array(tokens, dtype=float),
            patch=np.array(patch),
        )


def _text(cells: dict[str, Any], name: str, fail: Callable[[str], NoReturn]) -> str:
    value = cells.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            fail(f"{name} {value!r} contains characters that are not text")
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    fail(f"{name} {value!r} is not text")


def _score(value: Any, name: str, fail: Callable[[str], NoReturn]) -> float:
    number = _number(
        value, "score", "an attempt that was not scored has an empty cell (CSV) or null (JSONL, Parquet)", fail
    )
    if number < 0 or number > 1:
        fail(f"score {value} is outside [0, 1]. Scores are probabilities of `resolved`: {_advice(number, name)}.")
    return number


def _advice(number: float, name: str) -> str:
    """How a number outside [0, 1] becomes a score, by its sign and the name of its column."""
    if number < 0 and LOG_PROBABILITY.search(name):
        return f"take exp of the log-probabilities in {name!r}, or name those of both answers, --columns yes_logprob=NAME,no_logprob=NAME"
    if number < 0:
        return (
            "take exp of a log-probability, or name those of both answers, --columns yes_logprob=NAME,no_logprob=NAME; "
            "map logits through a sigmoid"
        )
    return f"map logits through a sigmoid first{', divide percentages by 100' if number <= 100 else ''}"


def _tokens(value: Any, fail: Callable[[str], NoReturn]) -> float:
    number = _number(
        value, "n_tokens", "a length that is not known has an empty cell (CSV) or null (JSONL, Parquet)", fail
    )
    if number < 0 or number % 1 > 0:
        fail(f"n_tokens {value} is not a number of tokens")
    return number


def _patch(value: Any, fail: Callable[[str], NoReturn]) -> str:
    """Its hash; an empty cell of a CSV is no patch, an empty text of any other format the empty one."""
    if value is None or (isinstance(value, CsvCell) and not value.strip()):
        return ""
    if not isinstance(value, str):
        fail(f"patch {str(value)[:80]!r} is not text: it must be a patch, or a hash that is equal for equal patches")
    return patch_hash(value)


def _number(value: Any, name: str, absent: str, fail: Callable[[str], NoReturn]) -> float:
    """A finite number, or NaN where the cell is empty. Text is taken from CSV cells only, where everything is text."""
    if value is None or (isinstance(value, CsvCell) and not value.strip()):
        return math.nan
    plain = value.isascii() and "_" not in value if isinstance(value, CsvCell) else type(value) in (int, float)
    try:
        number = float(value) if plain else None
    except (ValueError, OverflowError):
        number = None
    if number is None:
        comma = isinstance(value, CsvCell) and DECIMAL_COMMA.fullmatch(value)
        fail(f"{name} {str(value)[:80]!r} is not a number; {'write it with a decimal point' if comma else absent}")
    if not math.isfinite(number):
        fail(f"{name} is {value}: {absent}; a verifier that gave {value} is broken")
    return number


def _label(value: Any, fail: Callable[[str], NoReturn]) -> float:
    text = "" if value is None else str(value).strip().lower()
    if (stated := stated_outcome(text)) is not None:
        return float(stated)
    if text not in LABELS:
        fail(
            f"resolved {str(value)[:80]!r} must be true, false, 1, 0, or empty for an attempt without a label; "
            "--columns resolved=NAME==VALUE maps other values to labels"
        )
    return LABELS[text]
