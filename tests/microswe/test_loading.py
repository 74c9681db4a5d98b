import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rmlab.errors import DataError
from rmlab.microswe import loading
from rmlab.microswe.loading import NOT_REPRODUCED, PASSES, load_tasks
from rmlab.microswe.sandbox import Sandbox
from rmlab.microswe.task import Task, tasks_fingerprint, write_tasks

GOOD = Task(
    task_id="hand/add/0",
    function_id="hand.add",
    package="hand",
    source="hand",
    cluster="c",
    part="verifier",
    entry="add",
    context="",
    original="def add(a, b):\n    return a + b",
    code="def add(a, b):\n    return a - b",
    lines=(2,),
    operators=("arithmetic",),
    inputs=("(1, 2)", "(3, 0)", "(2, 2)"),
    outputs=("3", "3", "4"),
    public=0,
    public_share=0.3,
)
OTHER_HERE = dataclasses.replace(GOOD, task_id="hand/add/1", outputs=("3", "3", "5"), source="elsewhere")
NO_BUG = dataclasses.replace(GOOD, task_id="hand/add/2", code="def add(a, b):\n    return b + a")


@pytest.fixture
def sandbox():
    with Sandbox(1) as sandbox:
        yield sandbox


@pytest.fixture(autouse=True)
def _own_runs_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))


def test_what_does_not_hold_is_counted_and_left_out(tmp_path, sandbox):
    write_tasks(tmp_path / "t.parquet", [GOOD, OTHER_HERE, NO_BUG], {})
    loaded = load_tasks(tmp_path / "t.parquet", sandbox)
    assert loaded.tasks == (GOOD,)
    assert loaded.left_out == {NOT_REPRODUCED: {"elsewhere": 1}, PASSES: {"hand": 1}}
    assert loaded.fingerprint == tasks_fingerprint([GOOD])
    assert loaded.part("verifier") == [GOOD]
    assert loaded.part("evaluation") == []


def test_verdicts_are_kept_for_a_file_and_not_for_another(tmp_path, sandbox, monkeypatch):
    write_tasks(tmp_path / "t.parquet", [GOOD, NO_BUG], {})
    first = load_tasks(tmp_path / "t.parquet", sandbox)
    proven = []
    real = loading.prove
    monkeypatch.setattr(loading, "prove", lambda tasks, box: proven.append(len(tasks)) or real(tasks, box))
    assert load_tasks(tmp_path / "t.parquet", sandbox) == first
    assert proven == []
    write_tasks(tmp_path / "t.parquet", [GOOD], {})
    assert load_tasks(tmp_path / "t.parquet", sandbox).left_out == {}
    assert proven == [1]


def test_of_several_that_begin_at_once_one_proves(tmp_path, monkeypatch):
    write_tasks(tmp_path / "tasks.parquet", [GOOD, NO_BUG], {})
    proven = []
    monkeypatch.setattr(
        loading, "prove", lambda tasks, box: (proven.append(1), time.sleep(0.1), {NO_BUG.task_id: PASSES})[2]
    )
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: load_tasks(tmp_path / "tasks.parquet", None), range(4)))
    assert proven == [1]
    assert [one.tasks for one in found] == [(GOOD,)] * 4


def test_a_file_without_a_task_that_holds_is_refused(tmp_path, sandbox):
    write_tasks(tmp_path / "t.parquet", [NO_BUG], {})
    with pytest.raises(DataError, match="none of its 1 tasks holds under Python"):
        load_tasks(tmp_path / "t.parquet", sandbox)
