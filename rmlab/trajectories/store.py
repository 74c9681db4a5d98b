"""Parquet files of trajectories. Sorted by task so that the text that attempts share compresses away."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rmlab.errors import DataError
from rmlab.files import atomic_path
from rmlab.fingerprint import fingerprint_lines
from rmlab.trajectories.record import Message, Split, Trajectory
from rmlab.trajectories.set_file import check_set_file, unreadable

SCHEMA = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("task_id", pa.string()),
        ("cluster", pa.string()),
        ("source", pa.string()),
        ("policy", pa.string()),
        ("attempt", pa.int32()),
        ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("patch", pa.string()),
        ("exit_status", pa.string()),
        ("resolved", pa.bool_()),
        ("label_source", pa.string()),
        ("split", pa.string()),
        ("extra", pa.string()),
    ]
)
ROWS = 1024  # of a table that is not written yet


@dataclass(frozen=True)
class TrajectorySet:
    """A pool of trajectories, unique by trajectory_id, and what its file says of its origin.

    metadata: command, seed and whatever else the writer recorded. Raises DataError for a duplicate trajectory_id.
    """

    trajectories: tuple[Trajectory, ...]
    metadata: dict[str, str]

    def __post_init__(self) -> None:
        counts = Counter(t.trajectory_id for t in self.trajectories)
        repeated = [name for name, n in counts.items() if n > 1]
        if repeated:
            raise DataError(
                f"trajectory_id {repeated[0]} occurs {counts[repeated[0]]} times ({len(repeated)} ids are repeated): "
                "every attempt must occur once. Number the attempts or remove the copies."
            )

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the pool: contents, labels and parts, in no order. 16 hex digits."""
        return fingerprint_lines(sorted(fingerprint_line(t, t.trajectory_id) for t in self.trajectories))

    def part(self, part: Split) -> "TrajectorySet":
        return TrajectorySet(tuple(t for t in self.trajectories if t.split == part), self.metadata)

    def __len__(self) -> int:
        return len(self.trajectories)


def write_trajectories(
    path: Path, trajectories: Iterable[Trajectory], metadata: dict[str, str] | None = None
) -> TrajectorySet:
    """Writes a set whole or not at all (zstd, sorted by part, task, policy, attempt) and returns it in file order."""
    ordered = sorted(trajectories, key=lambda t: (t.split or "", t.task_id, t.policy, t.attempt))
    pool = TrajectorySet(tuple(ordered), dict(metadata or {}))
    write_tables(path, _tables(pool.trajectories), pool.metadata, pool.fingerprint)
    return pool


def fingerprint_line(trajectory: Trajectory, trajectory_id: str) -> str:
    """What the fingerprint of a pool covers of one trajectory."""
    return "\t".join(
        [trajectory_id, str(trajectory.resolved), str(trajectory.split), trajectory.cluster, trajectory.source]
    )


def write_in_order(path: Path, trajectories: Iterable[Trajectory], metadata: dict[str, str], fingerprint: str) -> None:
    """Writes trajectories as they come, so that a set larger than memory can be written; compressed lightly.

    fingerprint: of the whole pool, known beforehand.
    """
    write_tables(path, _tables(trajectories), metadata, fingerprint, compression_level=3)


def write_tables(
    path: Path,
    tables: Iterable[pa.Table],
    metadata: dict[str, str],
    fingerprint: str,
    compression_level: int = 19,
    group: int = 32 << 20,
) -> None:
    """Writes tables of trajectories (SCHEMA) as they come, whole or not at all. group: bytes of a row group, about.

    As a rule one row group, compressed hard: text that attempts share compresses away.
    """
    schema = SCHEMA.with_metadata({**metadata, "fingerprint": fingerprint})
    held: list[pa.Table] = []
    with (
        atomic_path(Path(path)) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd", compression_level=compression_level) as writer,
    ):

        def write() -> None:
            table = pa.concat_tables(
                [schema.empty_table(), *(t.replace_schema_metadata(schema.metadata) for t in held)]
            )
            writer.write_table(table.combine_chunks(), row_group_size=max(len(table), 1))
            held.clear()

        for table in tables:
            held.append(table)
            if sum(t.nbytes for t in held) > group:
                write()
        if held:
            write()


def _tables(trajectories: Iterable[Trajectory]) -> Iterator[pa.Table]:
    """As tables of some rows each: rows take ten times the room as Python's own values."""
    rows = iter(trajectories)
    while some := [_row(trajectory) for trajectory in itertools.islice(rows, ROWS)]:
        yield pa.Table.from_pylist(some, schema=SCHEMA)


def iterate_trajectories(path: Path | str) -> Iterator[Trajectory]:
    """The trajectories of a file, a few at a time: for sets larger than memory, and for looking, not for training.

    The pool as a whole (duplicates, fingerprint) is not proven; each row is. Raises DataError with file and reason.
    """
    path = Path(path)
    with _opened(path) as file:
        number = 0
        for batch in file.iter_batches(batch_size=16, columns=SCHEMA.names):
            for row in batch.to_pylist():
                number += 1
                try:
                    yield _trajectory(row)
                except (TypeError, ValueError, DataError) as error:
                    raise DataError(f"{path}, row {number}: {error}. Fetch or collect it again.") from error


def read_count(path: Path | str) -> int:
    """How many trajectories a file holds. Raises DataError as `iterate_trajectories` does."""
    with _opened(Path(path)) as file:
        return int(file.metadata.num_rows)


def read_metadata(path: Path | str) -> dict[str, str]:
    """What a file says of its origin, without the fingerprint. Raises DataError as `iterate_trajectories` does."""
    with _opened(Path(path)) as file:
        return _metadata(file.schema_arrow)


def _metadata(schema: pa.Schema) -> dict[str, str]:
    stated = {k.decode(): v.decode() for k, v in (schema.metadata or {}).items() if k != b"ARROW:schema"}
    return {k: v for k, v in stated.items() if k != "fingerprint"}


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    check_set_file(path)
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error
    missing = [name for name in SCHEMA.names if name not in file.schema_arrow.names]
    if missing:
        raise DataError(
            f"{path} has no column {missing[0]!r}: it is not a trajectory set (columns: {', '.join(file.schema_arrow.names)})"
        )
    with file:
        yield file


def read_trajectories(path: Path | str, parts: Sequence[Split] | None = None) -> TrajectorySet:
    """Reads a set and proves it: columns, ids, duplicates, fingerprint. parts: only these (the whole file is still proven).

    Raises DataError with file and reason.
    """
    path = Path(path)
    try:
        with _opened(path) as file:
            table = file.read(columns=SCHEMA.names, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error
    trajectories = []
    for number, row in enumerate(_table_rows(table), 1):
        try:
            trajectory = _trajectory(row)
        except (TypeError, ValueError, DataError) as error:
            raise DataError(f"{path}, row {number}: {error}. Fetch or collect it again.") from error
        if trajectory.trajectory_id != row["trajectory_id"]:
            raise DataError(
                f"{path}: trajectory_id {row['trajectory_id']} is not the hash of its content ({trajectory.trajectory_id}): "
                "the file was modified. Fetch or collect it again."
            )
        trajectories.append(trajectory)
    metadata = _metadata(table.schema)
    stated = (table.schema.metadata or {}).get(b"fingerprint")
    pool = TrajectorySet(tuple(trajectories), metadata)
    if stated is not None and stated.decode() != pool.fingerprint:
        raise DataError(
            f"{path}: fingerprint {pool.fingerprint} instead of {stated.decode()}: labels or parts were modified. Get the file again."
        )
    if parts is None:
        return pool
    return TrajectorySet(tuple(t for t in pool.trajectories if t.split in parts), metadata)


def _table_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows, each message as a `Message`. What is said by many attempts (issues, greetings, answers) is one object."""
    plain = [name for name in SCHEMA.names if name != "messages"]
    columns = [table.column(name).to_pylist() for name in plain]
    for values, messages in zip(zip(*columns, strict=True), _conversations(table.column("messages")), strict=True):
        yield {**dict(zip(plain, values, strict=True)), "messages": messages}


def _conversations(column: pa.ChunkedArray) -> Iterator[Any]:
    """The messages of each row; as they come where they are not lists of role and content, so that `_trajectory` refuses them."""
    listed = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not (
        listed
        and pa.types.is_struct(column.type.value_type)
        and {"role", "content"} <= {f.name for f in column.type.value_type}
    ):
        yield from column.to_pylist()
        return
    for chunk in column.chunks:
        messages = chunk.flatten()
        role_M, content_M = (pc.struct_field(messages, name).dictionary_encode() for name in ("role", "content"))
        if chunk.null_count or role_M.null_count or content_M.null_count:
            yield from chunk.to_pylist()
            continue
        roles, contents = role_M.dictionary.to_pylist(), content_M.dictionary.to_pylist()
        known: dict[tuple[int, int], Message] = {}
        message_M = []
        for pair in zip(role_M.indices.to_pylist(), content_M.indices.to_pylist(), strict=True):
            if pair not in known:
                known[pair] = Message(roles[pair[0]], contents[pair[1]])
            message_M.append(known[pair])
        start = 0
        for length in chunk.value_lengths().to_pylist():
            yield message_M[start : start + length]
            start += length


def _trajectory(row: dict[str, Any]) -> Trajectory:
    """One row of the file as a record. Raises TypeError, ValueError or DataError where it is none."""
    extra = json.loads(row["extra"] or "{}")
    texts = ("task_id", "cluster", "source", "policy", "exit_status")
    empty = [name for name in (*texts, "attempt", "messages") if row[name] is None]
    if empty:
        raise ValueError(f"{empty[0]} is null")
    return Trajectory(
        **{name: row[name] for name in texts},
        attempt=row["attempt"],
        messages=tuple(m if isinstance(m, Message) else Message(m["role"], m["content"]) for m in row["messages"]),
        patch=row["patch"],
        resolved=row["resolved"],
        label_source=row["label_source"],
        split=row["split"],
        extra=extra,
    )


def _row(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "trajectory_id": trajectory.trajectory_id,
        "task_id": trajectory.task_id,
        "cluster": trajectory.cluster,
        "source": trajectory.source,
        "policy": trajectory.policy,
        "attempt": trajectory.attempt,
        "messages": [{"role": m.role, "content": m.content} for m in trajectory.messages],
        "patch": trajectory.patch,
        "exit_status": trajectory.exit_status,
        "resolved": trajectory.resolved,
        "label_source": trajectory.label_source,
        "split": trajectory.split,
        "extra": trajectory.extra_json(),
    }
