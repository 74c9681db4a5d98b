"""Which tasks may stand in a set? Asked when a set is built, and of a finished file by `rmlab tasks check`.

The original has to run without its own function, which programs of the task do not have, and well within the limits;
nothing of the same name that a program can reach may answer for it; and what many programs use has to work without it.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from rmlab.microswe.episode import hidden_program, passes
from rmlab.microswe.loading import run_all
from rmlab.microswe.sandbox import Program, Sandbox
from rmlab.microswe.sandbox.modules import MODULES
from rmlab.microswe.task import Task

MARGIN = 4.0
"""An original uses at most this part of the limits, so that a right edit may take longer than it and still be right."""
NEAR_LIMITS = "its original takes more than a quarter of the limits"
NEEDS_ITSELF = "its original needs the function that it is about from the standard library"
OTHERS_NEED_IT = "what many programs use needs its function"
IMPORTED = "its answer can be imported"

SEARCH = '''
def {entry}(*arguments):
    import gc, sys, types
    def plain(name):
        return str(name).strip("_").removeprefix("py_").removeprefix("c_")
    gc.unfreeze()
    found = {{}}
    things = [thing for thing in gc.get_objects() if isinstance(thing, (types.FunctionType, types.BuiltinFunctionType, type))]
    named = [(thing.__name__, thing) for thing in things]
    named += [pair for module in list(sys.modules.values()) for pair in list(vars(module).items()) if callable(pair[1])]
    for name, thing in named:
        if plain(name) == plain({name!r}) and getattr(thing, "__module__", None) != __name__:
            place = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None), type(thing).__name__
            found.setdefault(".".join(map(str, place)), thing)
    return sorted(found) if {place!r} is None else found[{place!r}](*arguments)
'''
"""Everything with the name of the task's function, `_`, `py_` and `c_` aside: what it is (place None), or the answer of one."""

COMMON = f'''
import dataclasses, enum, json, re, typing
for name in {[name for name in MODULES if not name.startswith(("_", "encodings", "builtins"))]!r}:
    try:
        exec(f"import {{name}}\\nfrom {{name}} import *", {{}})
    except ModuleNotFoundError:  # of a later Python
        pass
class Colour(enum.Enum):
    RED = 1
class Ways(enum.Flag):
    UP = enum.auto()
    DOWN = enum.auto()
@dataclasses.dataclass(order=True)
class Point:
    x: int = 0
class Pair(typing.NamedTuple):
    left: typing.Optional[int]
    right: typing.Union[int, str, None]
def f():
    assert re.sub(r"(?i)(ab+|c)*?\\d{{2,3}}[x-z]", "-", "abab12z") == "-" and re.findall("aba+", "abaab") == ["abaa"]
    assert json.loads(json.dumps(["a", {{"b": 1.5}}], indent=1)) == ["a", {{"b": 1.5}}]
    assert "a".encode("utf-16-le").decode("utf_16_le") == "a" and "a".encode("iso-8859-1") == b"a"
    return Ways.UP | Ways.DOWN != Ways.UP and Point(1) < Point(2) and Colour(1) is Colour.RED and Pair(1, None)[0] == 1
'''


def unfit(tasks: Sequence[Task], workers: int) -> dict[str, str]:
    """task_id -> reason, for the tasks that may not stand in a set, in their order.

    A task whose original gives other outputs here is not named: what holds on this machine is the question of
    `rmlab.microswe.loading`.
    """
    own = [task for task in tasks if task.package == "stdlib"]
    with Sandbox(workers) as sandbox:
        needed = _needed(own, sandbox)
        reasons = {task.task_id: OTHERS_NEED_IT for task in own if task.function_id in needed}
        reasons |= dict.fromkeys(answered([t for t in own if t.function_id not in needed], sandbox), IMPORTED)
        reasons |= _too_near_or_dependent(tasks, workers, sandbox)
    return {task.task_id: reasons[task.task_id] for task in tasks if task.task_id in reasons}


def answered(tasks: Sequence[Task], sandbox: Sandbox) -> dict[str, str]:
    """task_id -> what passes all of its hidden tests, of everything with its function's name that a program can reach."""
    lists = {task.function_id: replace(_search(task, None), inputs=("()",)) for task in tasks}
    listed = run_all(list(lists.values()), sandbox)
    places = {name: json.loads(listed[program].results[0].value) for name, program in lists.items()}
    tries = [(task, place, _search(task, place)) for task in tasks for place in places[task.function_id]]
    outcomes = run_all([program for _, _, program in tries], sandbox)
    return {task.task_id: place for task, place, program in tries if passes(outcomes[program], task.outputs)}


def _search(task: Task, place: str | None) -> Program:
    name = task.function_id.rpartition(".")[2]
    return hidden_program(task, SEARCH.format(entry=task.entry, name=name, place=place))


def _needed(tasks: Sequence[Task], sandbox: Sandbox) -> set[str]:
    """The functions without which COMMON does not run."""
    programs = {task.function_id: Program("", COMMON, "f", ("()",), task.function_id) for task in tasks}
    outcomes = run_all(list(programs.values()), sandbox)
    return {name for name, program in programs.items() if not outcomes[program].passed(("true",))}


def _too_near_or_dependent(tasks: Sequence[Task], workers: int, sandbox: Sandbox) -> dict[str, str]:
    """The tasks whose originals are near the limits, or run only where their own function is there."""
    limits = sandbox.limits
    quarter = replace(
        limits, call_seconds=limits.call_seconds / MARGIN, program_seconds=limits.program_seconds / MARGIN
    )
    programs = {task.task_id: hidden_program(task, task.original) for task in tasks}
    with Sandbox(workers, quarter) as strict:
        quick = run_all(list(programs.values()), strict)
    slow = [task for task in tasks if not passes(quick[programs[task.task_id]], task.outputs)]
    again = run_all([programs[task.task_id] for task in slow], sandbox)
    whole = {task.task_id: replace(programs[task.task_id], without="") for task in slow}
    with_it = run_all(list(whole.values()), sandbox)
    reasons = {}
    for task in slow:
        if passes(again[programs[task.task_id]], task.outputs):
            reasons[task.task_id] = NEAR_LIMITS
        elif passes(with_it[whole[task.task_id]], task.outputs):
            reasons[task.task_id] = NEEDS_ITSELF
    return reasons
