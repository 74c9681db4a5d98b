"""The micro-SWE task record and its file.

A task is a real function with one line of it (rarely two) changed, and inputs with the original's outputs. Outputs are
in the encoding of `rmlab.microswe.sandbox.values`; inputs are Python source of the argument tuple, e.g. "([1, 2], 3)".
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rmlab.errors import DataError
from rmlab.files import atomic_path, check_input
from rmlab.fingerprint import fingerprint
from rmlab.trajectories.record import Split


@dataclass(frozen=True)
class Task:
    """One bug in one function.

    task_id: source/function/hash of the buggy code. function_id: package.module.qualname the text was taken from.
    source: family of packages (`rmlab.microswe.build.functions.SOURCES`): the factor `source_composition`.
    context: imports and helper functions that travel with the code and stand before it; the agent cannot edit them.
    original, code: the right text and the one with the bug, without docstring, same number of lines.
    lines: 1-based numbers of the changed lines within `code`. operators: the AST operators that made the bug.
    inputs, outputs: all hidden tests, the public call among them at index `public`.
    public_share: share of the other wrong edits of that line that satisfy the public call all the same.
    """

    task_id: str
    function_id: str
    package: str
    source: str
    cluster: str
    part: Split
    entry: str
    context: str
    original: str
    code: str
    lines: tuple[int, ...]
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    public: int
    public_share: float

    @property
    def public_input(self) -> str:
        """Source of the argument tuple that the issue shows."""
        return self.inputs[self.public]

    @property
    def public_output(self) -> str:
        """Encoded output that the issue expects."""
        return self.outputs[self.public]

    @cached_property
    def content(self) -> str:
        """Everything that defines the task, as a hash of 16 hex digits."""
        return fingerprint({name: getattr(self, name) for name in _FIELDS})


# All are plain: `asdict`, which copies each, takes longer than the hash.
_FIELDS = tuple(f.name for f in fields(Task))


def tasks_fingerprint(tasks: "list[Task] | tuple[Task, ...]") -> str:
    """Identity of a set of tasks, in no order: 16 hex digits. It names the tasks that ran."""
    return fingerprint(sorted(task.content for task in tasks))


_LISTS = ("lines", "operators", "inputs", "outputs")


def write_tasks(path: Path, tasks: list[Task], metadata: dict[str, str]) -> None:
    """Writes the tasks sorted by part and function (zstd), whole or not at all; metadata: command, seed, versions."""
    ordered = sorted(tasks, key=lambda t: (t.part, t.source, t.function_id, t.task_id))
    rows = [{**asdict(t), **{name: json.dumps(list(getattr(t, name))) for name in _LISTS}} for t in ordered]
    table = pa.Table.from_pylist(rows)
    table = table.replace_schema_metadata({**metadata, "fingerprint": tasks_fingerprint(tasks)})
    with atomic_path(Path(path)) as temporary:
        pq.write_table(table, temporary, compression="zstd", compression_level=19)


def read_tasks(path: Path) -> tuple[list[Task], dict[str, str]]:
    """Reads a tasks file and its metadata. Raises DataError where it is missing, corrupt, altered or repeats a task."""
    path = Path(path)
    check_input(path, "`rmlab tasks build` writes one (with the extra `tasks`).", "Name the tasks file in it.")
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"{path} is not a readable Parquet file ({str(error).splitlines()[0]}). Fetch or build it again."
        ) from error
    missing = [name for name in _FIELDS if name not in table.column_names]
    if missing:
        raise DataError(f"{path} has no column {missing[0]!r}: it is not a tasks file")
    tasks = [Task(**{**row, **{name: tuple(json.loads(row[name])) for name in _LISTS}}) for row in table.to_pylist()]
    metadata = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items() if k != b"ARROW:schema"}
    repeated = [name for name, n in Counter(t.task_id for t in tasks).items() if n > 1]
    if repeated:
        raise DataError(f"{path}: task_id {repeated[0]} occurs more than once. Build the file again.")
    stated = metadata.get("fingerprint")
    if stated is not None and stated != tasks_fingerprint(tasks):
        raise DataError(
            f"{path}: its content does not match its fingerprint {stated}: the file was modified. Fetch or build it again."
        )
    return tasks, metadata
