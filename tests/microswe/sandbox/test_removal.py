"""The function that a task is about is not there for the task's programs, by whatever way they go; the rest is."""

import json
import random

import pytest

from rmlab.microswe.episode import hidden_program, passes, public_program
from rmlab.microswe.sandbox import Limits, Program, Sandbox
from rmlab.microswe.task import Task, read_tasks
from rmlab.paths import STARTER

FILES = ("tasks", "tasks_rl", "tasks_supervised")
WAYS = {
    "import": "import {module}\nfound = {module}.{name}",
    "from": "from {module} import {name} as found",
    "star": "exec('from {module} import *')\nfound = locals()['{name}']",
    "importlib": "import importlib\nfound = getattr(importlib.import_module('{module}'), '{name}')",
    "__import__": "found = getattr(__import__('{module}', fromlist=['x']), '{name}')",
    "sys.modules": "import sys\nfound = sys.modules['{module}'].__dict__['{name}']",
    "reload": "import importlib, {module}\nfound = getattr(importlib.reload({module}), '{name}')",
    "import again": "import sys\nsys.modules.pop('{module}')\nimport {module}\nfound = {module}.{name}",
    "accelerator again": "import sys\nsys.modules.pop('_{top}')\nimport _{top}\nfound = _{top}.{name}",
    "specification": "import _{top}\nloader = _{top}.__spec__.loader\nm = loader.create_module(_{top}.__spec__)\n"
    "loader.exec_module(m)\nfound = m.{name}",
    "loader": "import {module}, types\nm = types.ModuleType('{module}')\nm.__spec__ = {module}.__spec__\n"
    "{module}.__spec__.loader.exec_module(m)\nfound = m.{name}",
    "frozen": "import _imp\nm = dict(__name__='{module}')\nexec(_imp.get_frozen_object('{module}'), m)\nfound = m['{name}']",
    "frozen data": "import _imp, marshal\nm = dict(__name__='{module}')\n"
    "exec(marshal.loads(_imp.find_frozen('{module}', withdata=True)[0]), m)\nfound = m['{name}']",
    "source": "import inspect, {module}\nm = {{}}\nexec(inspect.getsource({module}), m)\nfound = m['{name}']",
    "file": "import {module}\nm = {{}}\nexec(open({module}.__file__).read(), m)\nfound = m['{name}']",
    "pickle": "import pickle\nfound = pickle.loads(b'c{module}\\n{name}\\n.')",
    "any module": "import sys\nfound = [vars(m)[n] for m in list(sys.modules.values()) for n in list(vars(m)) "
    "if getattr(vars(m)[n], '__module__', None) in ('{module}', '_{top}') and vars(m)[n].__name__ == '{name}'][0]",
    "gc": "import gc, types\ngc.unfreeze()\nfound = [x for x in gc.get_objects() if isinstance(x, (types.FunctionType, "
    "types.BuiltinFunctionType)) and x.__name__ == '{name}' and x.__module__ in ('{module}', '_{top}')][0]",
}


def answering(task: Task, way: str) -> str:
    """The task's program with a first line that takes the answer from the original."""
    module, _, name = task.function_id.rpartition(".")
    top = module.partition(".")[0]
    lines = [*WAYS[way].format(module=module, name=name, top=top).split("\n"), "return found(*arguments)"]
    return "\n    ".join([f"def {task.entry}(*arguments):", *lines])


def shipped() -> list[Task]:
    return [t for file in FILES for t in read_tasks(STARTER / f"{file}.parquet")[0]]


def of_the_standard_library() -> list[Task]:
    return [t for t in shipped() if t.package == "stdlib"]


def one_of_each(tasks: list[Task]) -> list[Task]:
    return list({task.function_id: task for task in tasks}.values())


def answered(tries: list[tuple[Task, str]], sandbox: Sandbox) -> list[tuple[str, str]]:
    outcomes = sandbox.run([hidden_program(task, answering(task, way)) for task, way in tries])
    return [(t.task_id, way) for (t, way), o in zip(tries, outcomes, strict=True) if passes(o, t.outputs)]


def found(sandbox: Sandbox, tasks: list[Task], ways: list[str], removed: bool = True) -> list[list[str]]:
    """The ways that lead to something of a task's function's name: one program a task, with those that unload a module last."""
    ways = sorted(ways, key=lambda way: ".pop(" in WAYS[way])
    programs = []
    for task in tasks:
        module, _, name = task.function_id.rpartition(".")
        codes = {way: WAYS[way].format(module=module, name=name, top=module.partition(".")[0]) for way in ways}
        code = (
            f"def f():\n    ways = []\n    for way, code in {codes!r}.items():\n        try:\n"
            "            exec(code, {'__name__': 'program'})\n            ways.append(way)\n"
            "        except BaseException:\n            pass\n    return ways"
        )
        programs.append(Program("", code, "f", ("()",), task.function_id if removed else ""))
    return [json.loads(outcome.results[0].value) for outcome in sandbox.run(programs)]


@pytest.mark.slow
def test_no_way_leads_to_the_function_of_a_few_tasks():
    names = ["statistics.median", "heapq.heappop", "functools.reduce", "bisect.bisect_left", "codecs.make_encoding_map",
             "functools._gt_from_lt", "operator.indexOf", "importlib._bootstrap._resolve_name"]  # fmt: skip
    tasks = [t for t in one_of_each(of_the_standard_library()) if t.function_id in names]
    assert len(tasks) == len(names)
    with Sandbox(2) as sandbox:
        assert answered([(task, way) for task in tasks for way in WAYS], sandbox) == []


def test_the_ways_lead_to_functions_that_are_there():
    """Or the test above would show nothing: without the removal most of them answer the task."""
    [task] = [t for t in one_of_each(of_the_standard_library()) if t.function_id == "statistics.median"]
    with Sandbox(1) as sandbox:
        programs = [Program(task.context, answering(task, way), task.entry, task.inputs) for way in WAYS]
        outcomes = dict(zip(WAYS, sandbox.run(programs), strict=True))
        [ways] = found(sandbox, [task], list(WAYS), removed=False)
    leading = {"import", "from", "star", "importlib", "__import__", "sys.modules", "pickle", "any module", "gc"}
    assert {way for way, outcome in outcomes.items() if passes(outcome, task.outputs)} == leading <= set(ways)


def test_no_shipped_task_of_a_sample_is_answered_by_an_import():
    tasks = random.Random(3).sample(of_the_standard_library(), 60)
    with Sandbox(2) as sandbox:
        assert answered([(task, "import") for task in tasks], sandbox) == []


@pytest.mark.slow
def test_no_shipped_task_is_answered_by_an_import():
    """One task of each function: what is taken away for its programs is the function, whichever task they are of. Ways that lead
    to something of its name are tried one by one."""
    own = one_of_each(of_the_standard_library())
    others = list({t.package: t for t in shipped() if t.package != "stdlib"}.values())
    with Sandbox(2) as sandbox:
        tries = [(t, way) for t, ways in zip(own, found(sandbox, own, list(WAYS)), strict=True) for way in ways]
        assert answered(tries, sandbox) == []
        assert not any(found(sandbox, others, ["import"], removed=False)), "packages are not there at all"


def test_both_programs_of_an_episode_go_without():
    task = of_the_standard_library()[0]
    assert public_program(task, "").without == hidden_program(task, "").without == task.function_id


def run(code: str, without: str, context: str = "") -> str:
    with Sandbox(1) as sandbox:
        [outcome] = sandbox.run([Program(context, code, "f", ("()",), without)])
    return outcome.error or outcome.results[0].show()


@pytest.mark.parametrize(
    ("without", "code", "shown"),
    [
        ("heapq.heappop", "import queue\ndef f(): return hasattr(queue, 'heappop')", "False"),  # another module's name
        ("operator.iadd", "import operator\ndef f(): return hasattr(operator, '__iadd__')", "False"),  # an alias
        ("bisect.bisect_right", "import bisect\ndef f(): return hasattr(bisect, 'bisect')", "False"),
        (
            "functools._gt_from_lt",
            "import functools\ndef f(): return len(functools._convert['__lt__'])",
            "2",
        ),  # a table
        (  # a class that was made with it
            "functools._gt_from_lt",
            "import ipaddress\ndef f(): return ipaddress._BaseAddress.__gt__ is object.__gt__",
            "True",
        ),
        ("textwrap.indent", "from textwrap import *\ndef f(): return dedent(' a')", "'a'"),  # `__all__` is shortened
        ("no.such", "import heapq\ndef f(): return heapq.nsmallest(1, [2, 1])", "[1]"),
        ("statistics.median", "from statistics import mean\ndef f(): return mean([1, 3])", "2"),
    ],
)
def test_it_is_out_of_all_that_holds_it_and_the_rest_stays(without, code, shown):
    assert run(code, without) == shown


def test_one_program_has_what_the_next_does_not():
    code = "import statistics\ndef f(): return statistics.median([1, 2, 3])"
    programs = [Program("", code, "f", ("()",), without) for without in ("", "statistics.median", "")]
    with Sandbox(1, Limits()) as sandbox:
        shown = [outcome.results[0].show() for outcome in sandbox.run(programs)]
    assert shown == ["2", "raised AttributeError", "2"]
