"""Which functions may tasks be made of? Asked when a set is built, and of a finished file by `rmlab tasks check`.

Programs of a task do not have the task's own function of the standard library (`sandbox.runner`). So the original has to run
without it, and well within the limits; nothing of the same name that a program can reach may answer for it; and what many
programs use has to work without it.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from rmlab.microswe.build.trial import Tested
from rmlab.microswe.episode import passes
from rmlab.microswe.loading import run_all
from rmlab.microswe.sandbox import Program, Sandbox
from rmlab.microswe.sandbox.isolation import MODULES

MARGIN = 4.0
"""An original uses at most this part of the limits, so that a right edit may take longer than it and still be right."""
NEAR_LIMITS = "its original takes more than a quarter of the limits"
NEEDS_ITSELF = "its original needs the function that it is about from the standard library"
OTHERS_NEED_IT = "what many programs use needs its function"
IMPORTED = "its answer can be imported"

SEARCH = """
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
"""
"""Everything with the name of the task's function, `_`, `py_` and `c_` aside: what it is (place None), or the answer of one."""

COMMON = f"""
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
"""


def unfit(functions: Sequence[Tested], workers: int) -> dict[str, str]:
    """function_id -> reason, for the functions whose tasks may not stand in a set, in their order.

    A function whose original gives other outputs here is not named: what holds on this machine is the question of
    `rmlab.microswe.loading`.
    """
    own = [tested for tested in functions if tested.function.package == "stdlib"]
    with Sandbox(workers, allow_weak=True) as sandbox:
        needed = _needed(own, sandbox)
        reasons = dict.fromkeys(needed, OTHERS_NEED_IT)
        reasons |= dict.fromkeys(answered([t for t in own if _id(t) not in needed], sandbox), IMPORTED)
        reasons |= _too_near_or_dependent(functions, workers, sandbox)
    return {_id(tested): reasons[_id(tested)] for tested in functions if _id(tested) in reasons}


def answered(functions: Sequence[Tested], sandbox: Sandbox) -> dict[str, str]:
    """function_id -> what passes all of its tests, of everything with its name that a program of its tasks can reach."""
    lists = [replace(_search(tested, None), inputs=("()",)) for tested in functions]
    listed = run_all(lists, sandbox)
    tries = [
        (tested, place, _search(tested, place))
        for tested, program in zip(functions, lists, strict=True)
        for place in json.loads(listed[program].results[0].value)
    ]
    outcomes = run_all([program for _, _, program in tries], sandbox)
    return {_id(tested): place for tested, place, program in tries if passes(outcomes[program], tested.expected)}


def _id(tested: Tested) -> str:
    return tested.function.function_id


def _search(tested: Tested, place: str | None) -> Program:
    function = tested.function
    name = function.function_id.rpartition(".")[2]
    return tested.program(SEARCH.format(entry=function.entry, name=name, place=place))


def _needed(functions: Sequence[Tested], sandbox: Sandbox) -> set[str]:
    """The functions without which COMMON does not run."""
    programs = {_id(tested): Program("", COMMON, "f", ("()",), _id(tested)) for tested in functions}
    outcomes = run_all(list(programs.values()), sandbox)
    return {name for name, program in programs.items() if not outcomes[program].passed(("true",))}


def _too_near_or_dependent(functions: Sequence[Tested], workers: int, sandbox: Sandbox) -> dict[str, str]:
    """The functions that are near the limits, or run only where the standard library's own copy of them is there."""
    limits = sandbox.limits
    part = replace(limits, call_seconds=limits.call_seconds / MARGIN, program_seconds=limits.program_seconds / MARGIN)
    with Sandbox(workers, part, allow_weak=True) as strict:
        slow = _failing(functions, strict)
    failing = _failing(slow, sandbox)
    wrong_anyway = _failing(failing, sandbox, whole_library=True)
    return {_id(t): NEAR_LIMITS if t not in failing else NEEDS_ITSELF for t in slow if t not in wrong_anyway}


def _failing(functions: Sequence[Tested], sandbox: Sandbox, whole_library: bool = False) -> list[Tested]:
    programs = [tested.program(tested.function.code) for tested in functions]
    if whole_library:
        programs = [replace(program, without="") for program in programs]
    outcomes = run_all(programs, sandbox)
    return [t for t, program in zip(functions, programs, strict=True) if not passes(outcomes[program], t.expected)]
