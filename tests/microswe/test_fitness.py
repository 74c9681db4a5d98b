import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from rmlab.cli import app
from rmlab.microswe.build import fitness
from rmlab.microswe.build.extension import BaseTasks, functions_of
from rmlab.microswe.build.fitness import IMPORTED, NEAR_LIMITS, NEEDS_ITSELF, OTHERS_NEED_IT, answered, unfit
from rmlab.microswe.sandbox import Sandbox
from rmlab.microswe.task import Task, read_tasks, write_tasks
from rmlab.paths import STARTER

MEDIAN = "def median(xs):\n    xs = sorted(xs)\n    return xs[len(xs) // 2]"
DEDENT = "def _dedent(text):\n    lines = text.split('\\n')\n    return '\\n'.join(line.strip() for line in lines)"
SLOW = """
def slow(seconds):
    import time
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return seconds
"""


def task(function_id: str, original: str, inputs: tuple[str, ...], outputs: tuple[str, ...], **about: str) -> Task:
    entry = about.pop("entry", function_id.rpartition(".")[2])
    shape = Task(
        f"stdlib/{function_id}", function_id, "stdlib", "stdlib", function_id, "rl", entry, "", original, original + " ",
        (2,), ("sign",), inputs, outputs, 0, 0.5,
    )  # fmt: skip
    return replace(shape, **about)


GOOD = task("statistics.median", MEDIAN, ("([3, 1, 2],)",), ("2",))
TASKS = [
    GOOD,
    task("enum._dedent", DEDENT, ("(' a\\n b',)",), ('"a\\nb"',)),
    task("re._parser.fix_flags", "def fix_flags(a, b):\n    return b", ("(1, 2)",), ("2",)),
    task("hand.slow", SLOW, ("(0.7,)",), ("0.7",), package="hand"),
    task(
        "textwrap.indent",
        "def indent(text):\n    import textwrap\n    return textwrap.indent(text, ' ')",
        ("('a',)",),
        ('" a"',),
    ),
    task("hand.wrong", "def wrong(x):\n    return x", ("(1,)",), ("2",), package="hand"),
]
REASONS = {
    "enum._dedent": IMPORTED,  # textwrap.dedent is the same
    "re._parser.fix_flags": OTHERS_NEED_IT,
    "hand.slow": NEAR_LIMITS,
    "textwrap.indent": NEEDS_ITSELF,
}


def test_what_may_not_stand_in_a_set_and_why():
    assert unfit(functions_of(BaseTasks(tuple(TASKS))), workers=2) == REASONS


def test_what_answers_is_found_where_nothing_is_taken_away():
    [tested] = functions_of(BaseTasks((GOOD,)))
    there = replace(tested, function=replace(tested.function, function_id="nowhere.median"))
    with Sandbox(1) as sandbox:
        assert answered([tested], sandbox) == {}
        assert answered([there], sandbox) == {"nowhere.median": "statistics.median.function"}


def test_shipped_functions_that_may_stand_in_a_set():
    tasks, _ = read_tasks(STARTER / "tasks_supervised.parquet")
    own = tuple(t for t in tasks if t.package in ("stdlib", "toolz"))
    assert unfit(functions_of(BaseTasks(own)), workers=2) == {}


@pytest.mark.slow
def test_the_command_writes_the_files_without_them(tmp_path):
    first, more, output = tmp_path / "a.parquet", tmp_path / "b.parquet", tmp_path / "out"
    write_tasks(first, TASKS, {"command": "x", "counts": json.dumps({"tasks": 6, "functions": 6, "left_out": 1})})
    _, about = read_tasks(first)
    write_tasks(more, [replace(GOOD, task_id="other")], {"beside": about["fingerprint"]})
    told = CliRunner().invoke(app, ["tasks", "check", str(first), str(more)])
    assert told.exit_code == 1
    assert "4 of 6 tasks are unfit for use" in told.output
    told = CliRunner().invoke(app, ["tasks", "check", str(first), str(more), "-o", str(output)])
    assert told.exit_code == 0, told.output
    kept, now = read_tasks(output / "a.parquet")
    assert [t.function_id for t in kept] == ["hand.wrong", "statistics.median"]
    assert now["command"] == "x"
    assert now["checked"] == "rmlab tasks check a.parquet b.parquet"
    counts = json.loads(now["counts"])
    assert counts == {"tasks": 2, "functions": 2, "left_out": 1, "dropped": dict.fromkeys(REASONS.values(), 1)}
    other, beside = read_tasks(output / "b.parquet")
    assert [t.task_id for t in other] == ["other"]
    assert beside["beside"] == now["fingerprint"] != about["fingerprint"]
    dropped = json.loads((output / "dropped.json").read_text())
    assert {entry["function"]: entry["reason"] for entry in dropped["a.parquet"].values()} == REASONS
    assert dropped["b.parquet"] == {}


@pytest.mark.slow
def test_every_sixth_shipped_function_that_does_not_fit_is_known():
    """Of every sixth function: all take a minute of processor time."""
    found = {}
    for name in ("tasks", "tasks_rl", "tasks_supervised"):
        tasks, _ = read_tasks(STARTER / f"{name}.parquet")
        sixth = set(sorted({t.function_id for t in tasks})[::6])
        found |= fitness.unfit(functions_of(BaseTasks(tuple(t for t in tasks if t.function_id in sixth))), workers=2)
    assert set(found) <= {
        "dataclasses._field_assign", "encodings.normalize_encoding", "enum._dedent", "enum._is_single_bit",
        "json.encoder.py_encode_basestring_ascii", "re._compiler._generate_overlap_table", "re._parser.fix_flags",
        "typing._deduplicate",
    }  # fmt: skip
