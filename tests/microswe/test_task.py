"""The tasks file: what was written is what is read, and what is wrong with a file is said. And the shipped file itself."""

import json
import random
import sys
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmlab.errors import DataError
from rmlab.microswe.build.operators import mutants
from rmlab.microswe.sandbox import Program, Sandbox
from rmlab.microswe.task import Task, read_tasks, tasks_fingerprint, write_tasks
from rmlab.paths import STARTER
from rmlab.trajectories.record import SPLITS

TASK = Task(
    task_id="hand/f/0",
    function_id="hand.f",
    package="hand",
    source="hand",
    cluster="hand.f",
    part="rl",
    entry="f",
    context="",
    original="def f(x):\n    y = x\n    return y + 1",
    code="def f(x):\n    y = x\n    return y - 1",
    lines=(3,),
    operators=("arithmetic",),
    inputs=("(1,)", "(2,)"),
    outputs=("2", "3"),
    public=1,
    public_share=0.5,
)


def test_what_is_written_is_read(tmp_path):
    tasks = [
        TASK,
        replace(TASK, task_id="hand/f/1", part="evaluation", lines=(2, 3), operators=("index", "arithmetic")),
    ]
    write_tasks(tmp_path / "t.parquet", tasks, {"seed": "0"})
    again, metadata = read_tasks(tmp_path / "t.parquet")
    assert again == tasks[::-1]
    assert metadata == {"seed": "0", "fingerprint": tasks_fingerprint(tasks)}
    assert (TASK.public_input, TASK.public_output) == ("(2,)", "3")


def test_the_fingerprint_is_of_content_in_no_order():
    other = replace(TASK, task_id="hand/f/1")
    assert tasks_fingerprint([TASK, other]) == tasks_fingerprint([other, TASK])
    assert tasks_fingerprint([TASK]) != tasks_fingerprint([replace(TASK, public=0)])


def test_what_is_wrong_with_a_file_is_said(tmp_path):
    path = tmp_path / "t.parquet"
    with pytest.raises(DataError, match="no such file"):
        read_tasks(path)
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read_tasks(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(DataError, match="has no column 'task_id'"):
        read_tasks(path)
    write_tasks(path, [TASK, TASK], {})
    with pytest.raises(DataError, match="task_id hand/f/0 occurs more than once"):
        read_tasks(path)
    write_tasks(path, [TASK], {})
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index("public"), "public", pa.array([0])), path)
    with pytest.raises(DataError, match="was modified"):
        read_tasks(path)


# --- the shipped file ---


@pytest.fixture(scope="module")
def shipped():
    return read_tasks(STARTER / "tasks.parquet")


def test_shipped_parts_are_full_and_share_no_cluster(shipped):
    tasks, metadata = shipped
    assert len(tasks) >= 4000
    assert len({t.function_id for t in tasks}) >= 600
    parts = Counter(t.part for t in tasks)
    assert set(parts) == set(SPLITS)
    assert parts["verifier"] == max(parts.values()) >= 1500
    assert parts["evaluation"] > 250
    assert parts["validation"] > 100
    assert len({(t.cluster, t.part) for t in tasks}) == len({t.cluster for t in tasks})
    assert {t.part for t in tasks if t.source == metadata["withheld"]} == {"evaluation"}
    assert len({t.source for t in tasks if t.part == "verifier"}) >= 3


def test_shipped_bugs_are_what_they_say(shipped):
    tasks, metadata = shipped
    assert sum(len(t.lines) == 2 for t in tasks) <= 0.15 * len(tasks)
    assert max(Counter(t.function_id for t in tasks).values()) <= 12
    for t in tasks:
        pairs = enumerate(zip(t.original.split("\n"), t.code.split("\n"), strict=True), 1)
        assert tuple(i for i, (a, b) in pairs if a != b) == t.lines
        assert 3 <= t.original.count("\n") + 1 <= 30
        assert 8 <= len(t.inputs) == len(t.outputs) <= 24
        assert t.public_share >= float(metadata["share_threshold"])
    for t in random.Random(0).sample([t for t in tasks if len(t.lines) == 1], 60):
        assert t.code in {m.code for m in mutants(t.original, t.lines)}


def test_shipped_file_is_small_and_says_where_it_comes_from(shipped):
    _, metadata = shipped
    assert (STARTER / "tasks.parquet").stat().st_size <= 1.5e6
    assert metadata["command"].startswith("rmlab tasks build")
    assert {"seed", "rmlab_version", "versions", "share_threshold", "public_call", "fingerprint"} <= metadata.keys()
    counts = json.loads(metadata["counts"])
    assert counts["largest_cluster"]["functions"] <= 0.05 * counts["functions"]


def test_shipped_tasks_hold_when_they_are_run(shipped):
    tasks, metadata = shipped
    sample = random.Random(1).sample(tasks, 80)
    programs = [Program(t.context, code, t.entry, t.inputs) for t in sample for code in (t.original, t.code)]
    with Sandbox(2) as sandbox:
        outcomes = sandbox.run(programs)
    broken = [
        t.task_id
        for t, right, wrong in zip(sample, outcomes[::2], outcomes[1::2], strict=True)
        if not right.passed(t.outputs) or wrong.results[t.public].matches(t.public_output)
    ]
    same_python = json.loads(metadata["versions"])["python"].rsplit(".", 1)[0] == "{}.{}".format(*sys.version_info)
    assert len(broken) <= (0 if same_python else 4), broken  # another Python may behave otherwise: loading counts those
