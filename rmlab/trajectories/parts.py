"""A set during its collection: finished attempts in the files of a folder, and the set that they finally make up.

Neither making nor writing it holds more than some thousand attempts at once, however many there are. What is known of each
attempt beside is 40 bytes, while the set is written. A killed process loses the attempts of the last seconds.

Sets that were collected in pieces, on several machines or of one policy at a time, become one by `union`.
"""

import json
import time
from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rmlab.errors import DataError
from rmlab.fingerprint import fingerprint_lines
from rmlab.made_before import made_before
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.splitting import check_parts
from rmlab.trajectories.store import SCHEMA, TrajectorySet, read_count, read_trajectories, write_in_order, write_tables
from rmlab.wording import counted

EVERY_SECONDS, MOST = 5.0, 2048  # a file is written after so long, or of so many attempts
OPEN = (
    32  # files whose rows are held while the set is written: attempts that stand together were made at about one time
)
KNOWN = ["trajectory_id", "split", "task_id", "policy", "attempt", "resolved", "cluster", "source"]


@dataclass(frozen=True)
class WrittenSet:
    """A trajectory set on disk. counts: attempts by part, policy and label."""

    path: Path
    fingerprint: str
    counts: dict[tuple[str | None, str, bool | None], int]

    def __len__(self) -> int:
        return sum(self.counts.values())

    @property
    def resolved_rate(self) -> float | None:
        """Share of the labelled attempts that are resolved; None where there are none."""
        labelled = dict.fromkeys((True, False), 0)
        for (_, _, resolved), n in self.counts.items():
            if resolved is not None:
                labelled[resolved] += n
        total = sum(labelled.values())
        return labelled[True] / total if total else None

    @property
    def summary(self) -> str:
        """In one line: how many attempts, the file's size and the fingerprint."""
        size = f"{self.path.stat().st_size / 1e6:.2f} MB"
        return f"{self.path}: {_trajectories(len(self))}, {size}, fingerprint {self.fingerprint}"

    def __str__(self) -> str:
        """The summary; below it attempts and resolved rate by part and policy."""
        lines = [self.summary]
        for part, policy in sorted({(part, policy) for part, policy, _ in self.counts}, key=str):
            resolved, unresolved, unlabelled = (
                self.counts.get((part, policy, label), 0) for label in (True, False, None)
            )
            labelled = resolved + unresolved
            rate = resolved / labelled if labelled else float("nan")
            lines.append(
                f"  {part} {policy}: {_trajectories(labelled + unlabelled)}, {rate:.3f} resolved, {unlabelled} unlabelled"
            )
        return "\n".join(lines)


def written_before(path: Path, config_hash: str) -> WrittenSet | None:
    """The set at `path` that a request with this hash has made; None where nothing is there.

    Raises UsageError where something else is there, which would be lost.
    """
    if not made_before(path, config_hash):
        return None
    index = _Index([path])
    return WrittenSet(path, index.fingerprint(), dict(index.counts))


def _trajectories(number: int) -> str:
    return counted(number, "trajectory", "trajectories")


class TrajectoryParts:
    """The files of one folder. Several processes may add at once, each under its own name as `writer`."""

    def __init__(self, folder: Path, writer: str = "0"):
        self.folder, self.writer = folder, writer
        self._new: list[Trajectory] = []
        self._files = len(list(folder.glob(f"{writer}-*.parquet")))
        self._written = time.monotonic()

    def add(self, trajectory: Trajectory) -> None:
        self._new.append(trajectory)
        if len(self._new) >= MOST or time.monotonic() - self._written > EVERY_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Writes what is not written yet."""
        if self._new:
            path = self.folder / f"{self.writer}-{self._files:06}.parquet"
            write_in_order(path, self._new, {}, TrajectorySet(tuple(self._new), {}).fingerprint)
            self._files += 1
            self._new = []
        self._written = time.monotonic()

    def files(self) -> list[Path]:
        """All that is written (a kill may leave a temporary file, whose name begins with a dot)."""
        return sorted(self.folder.glob("[!.]*.parquet"))

    def __len__(self) -> int:
        return sum(map(read_count, self.files()))

    def finished(self) -> dict[tuple[str, str], set[int]]:
        """Numbers of the attempts that are written, by task and policy."""
        found: dict[tuple[str, str], set[int]] = {}
        for path in self.files():
            for task, policy, attempt in _rows(path, ["task_id", "policy", "attempt"]):
                found.setdefault((task, policy), set()).add(attempt)
        return found

    def write(self, path: Path, metadata: dict[str, str]) -> WrittenSet:
        """The set of all that is kept, as `write_trajectories` would write it. Raises DataError for a duplicate trajectory_id."""
        self.flush()
        index = _Index(self.files())
        identity = index.fingerprint()
        write_tables(path, index.tables(), metadata, identity)
        return WrittenSet(path, identity, dict(index.counts))


class _Index:
    """What is known of each of N attempts: where it stands, its order, its identity."""

    def __init__(self, files: list[Path]):
        self.files = files
        self.counts: Counter[tuple[str | None, str, bool | None]] = Counter()
        self._codes: dict[str, dict[str, int]] = {name: {} for name in ("split", "task_id", "policy")}
        self._tails: dict[str, int] = {}
        columns = {name: array("i") for name in ("file", "row", "split", "task_id", "policy", "attempt", "tail")}
        ids = array("Q")
        for number, path in enumerate(files):
            for row, known in enumerate(_rows(path, KNOWN)):
                identity, split, task, policy, attempt, resolved, cluster, source = known
                self.counts[split, policy, resolved] += 1
                ids.append(int(identity, 16))
                tail = f"\t{resolved}\t{split}\t{cluster}\t{source}"
                values = (
                    number,
                    row,
                    self._code("split", split or ""),
                    self._code("task_id", task),
                    self._code("policy", policy),
                    attempt,
                    self._tails.setdefault(tail, len(self._tails)),
                )
                for column, value in zip(columns.values(), values, strict=True):
                    column.append(value)
        self.id_N = np.frombuffer(ids, dtype=np.uint64)
        self.column_N = {name: np.frombuffer(column, dtype=np.int32) for name, column in columns.items()}

    def _code(self, name: str, text: str) -> int:
        codes = self._codes[name]
        return codes.setdefault(text, len(codes))

    def fingerprint(self) -> str:
        order_N = np.argsort(self.id_N)
        id_N = self.id_N[order_N]
        if repeated := int((id_N[1:] == id_N[:-1]).sum()):
            raise DataError(
                f"{self.files[0].parent}: {repeated} attempts are stored twice. Delete that folder and collect again."
            )
        tails = list(self._tails)
        tail_N = self.column_N["tail"][order_N]
        return fingerprint_lines(f"{int(id_):016x}{tails[tail]}" for id_, tail in zip(id_N, tail_N, strict=True))

    def tables(self, rows: int = MOST) -> Iterator[pa.Table]:
        """The attempts by part, task, policy and number, some rows at a time."""
        keys = (self.column_N["attempt"], self._ranks("policy"), self._ranks("task_id"), self._ranks("split"))
        order_N = np.lexsort(keys)
        held: OrderedDict[int, pa.Table] = OrderedDict()
        for start in range(0, len(order_N), rows):
            part_R = order_N[start : start + rows]
            file_R, row_R = self.column_N["file"][part_R], self.column_N["row"][part_R]
            pieces, place_R = [], []
            for number in np.unique(file_R).tolist():
                if number not in held:
                    held[number] = _read(self.files[number], SCHEMA.names)
                held.move_to_end(number)
                (place,) = np.nonzero(file_R == number)
                place_R.append(place)
                pieces.append(held[number].take(row_R[place]))
                while len(held) > OPEN:
                    held.popitem(last=False)
            yield pa.concat_tables(pieces).take(np.argsort(np.concatenate(place_R))).cast(SCHEMA)

    def _ranks(self, name: str) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """Of each attempt's value among all, as texts are sorted."""
        ranks = np.argsort(np.argsort(np.array(list(self._codes[name])))).astype(np.int32)
        of_attempts: np.ndarray[Any, np.dtype[np.int32]] = ranks[self.column_N[name]]
        return of_attempts


def _rows(path: Path, names: list[str]) -> Iterator[tuple[Any, ...]]:
    columns = _read(path, names).to_pydict()
    return zip(*(columns[name] for name in names), strict=True)


def _read(path: Path, names: list[str]) -> pa.Table:
    try:
        return pq.read_table(path, columns=names, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path}: damaged ({str(error).splitlines()[0]}). Delete it; the same command collects its attempts again."
        ) from error


SAME = ("tasks_fingerprint", "environment", "edits", "max_turns")
"""What a set says of its origin that all must agree in: attempts under other rules are another environment's."""


def union(paths: Sequence[Path]) -> TrajectorySet:
    """The attempts of all sets, each set's command and fingerprint in `metadata["sets"]`.

    Raises DataError where an attempt stands in two sets, where the sets come from other tasks or another environment, or where
    together their parts share a cluster.
    """
    pools = [read_trajectories(path) for path in paths]
    for key in SAME:
        values = {path.name: pool.metadata.get(key) for path, pool in zip(paths, pools, strict=True)}
        if len(set(values.values())) > 1:
            said = ", ".join(f"{name} says {value or 'nothing'}" for name, value in values.items())
            raise DataError(
                f"these sets differ in {key} ({said}), so they cannot be joined. Collect them with the same settings."
            )
    joined = TrajectorySet(
        tuple(trajectory for pool in pools for trajectory in pool.trajectories),
        {
            **{key: value for key in SAME if (value := pools[0].metadata.get(key)) is not None},
            "sets": json.dumps(
                [{"command": pool.metadata.get("command", ""), "fingerprint": pool.fingerprint} for pool in pools]
            ),
        },
    )
    check_parts(joined.trajectories)
    return joined
