"""A pool of trajectories without its text: enough to identify it and to see what a selection can fill, in a moment.

A dry run and a hash need no more than these columns. The run itself reads the whole file and proves it.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rmlab.errors import DataError
from rmlab.fingerprint import fingerprint_lines
from rmlab.trajectories.record import SPLITS, Split
from rmlab.trajectories.set_file import NAMED_BY, check_set_file, unreadable

COLUMNS = ["trajectory_id", "cluster", "source", "policy", "resolved", "split"]


@dataclass(frozen=True, slots=True)
class PoolRow:
    """One trajectory without its text."""

    trajectory_id: str
    cluster: str
    source: str
    policy: str
    resolved: bool | None
    split: Split | None


@dataclass(frozen=True)
class PoolIndex:
    """The rows of one file and the identities of its parts, equal to those of the `TrajectorySet` read whole."""

    rows: tuple[PoolRow, ...]

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the pool, as `TrajectorySet.fingerprint`."""
        return self._of(None)

    def part(self, part: Split) -> str:
        """Identity of one part, as `TrajectorySet.part(part).fingerprint`."""
        return self._parts[part]

    @cached_property
    def _parts(self) -> dict[Split, str]:
        return {part: self._of(part) for part in SPLITS}

    def _of(self, part: Split | None) -> str:
        rows = (row for row in self.rows if part in (None, row.split))
        return fingerprint_lines(
            sorted("\t".join([r.trajectory_id, str(r.resolved), str(r.split), r.cluster, r.source]) for r in rows)
        )


def read_index(path: Path | str) -> PoolIndex:
    """Reads the index of a trajectory file, once a process while the file stays as it is. Raises DataError with file and reason."""
    path = Path(path)
    check_set_file(path, NAMED_BY)
    state = path.stat()
    return _read_index(path.resolve(), (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino))


@lru_cache(maxsize=4)
def _read_index(path: Path, state: tuple[int, ...]) -> PoolIndex:
    try:
        with pq.ParquetFile(path) as file:  # read_table would import pandas
            table = file.read(columns=COLUMNS, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error, "trajectory file") from error
    if missing := [name for name in COLUMNS if name not in table.column_names]:
        raise DataError(f"{path} has no column {missing[0]!r}: it is not a trajectory set")
    rows = tuple(map(PoolRow, *(table.column(name).to_pylist() for name in COLUMNS)))
    if unknown := {row.split for row in rows} - {None, *SPLITS}:
        raise DataError(f"{path}: split {unknown.pop()!r} is not one of {', '.join(SPLITS)}")
    return PoolIndex(rows)
