"""Runs one program in a process of its own; all that happens in here is the program's own affair.

The process was forked from a bare one, holds one socket, reads its program from it and writes one line per result:

    L                  the module loaded and has its function          E text        it did not
    V json | R name    the call returned | raised                      U text | M    value not encodable | out of memory

Nothing in this process knows an expected output, another program, or the way to another program's results.

First a function of the standard library that the task is about is taken out of the process, so that no program can answer its task by
importing it. Removed are the function, what it wraps, its accelerator in C, and every place that holds one of them: modules that export
it, aliases, classes, tables, default values, closures. Nothing holds it afterwards, so it is freed, and `gc.get_objects` does not find
it either; `isolation.load_all` has taken away the ways to load a module a second time. Functions that call it fail from then on: they
would be another way to it. What this does not keep out: a program that reads the library's files, where isolation leaves them in sight
(`isolation`, the level `limits`), or its memory through `ctypes`.
"""

import __future__

import builtins
import gc
import json
import os
import random
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from types import CellType, CodeType, FunctionType
from typing import Any

from rmlab.microswe.sandbox.values import Unencodable, encode


def remove(function_id: str) -> None:
    """function_id: module.name, as in a task. Does nothing where the module is not loaded."""
    objects = list(_same_function(*function_id.rpartition(".")[::2]))
    if not objects:
        return
    gc.unfreeze()  # or nothing of what was loaded before the fork would be looked at
    while objects:
        _release(objects.pop())
    gc.freeze()


def _same_function(module: str, name: str) -> Iterator[Any]:
    """The function by its name and those of its other versions (`py_f`, `c_f`, `_module.f`), and what each wraps."""
    if module not in sys.modules:
        return
    plain = name.removeprefix("py_")
    for home in (module, f"_{module.partition('.')[0]}"):
        for version in dict.fromkeys((name, plain, f"c_{plain}")):
            function = vars(sys.modules[home]).get(version) if home in sys.modules else None
            while callable(function):
                yield function
                function = getattr(function, "__wrapped__", None)


def _release(held: Any) -> None:
    """Takes the object out of all that holds it.

    No comprehension and no loop over the holders here: the cell or the list would hold what is to be let go.
    """
    holders = gc.get_referrers(held)
    while holders:
        holder = holders.pop()
        if isinstance(holder, dict):
            for key, value in list(holder.items()):
                if value is held:
                    _forget(holder, key)
        elif isinstance(holder, list):
            for at in reversed(range(len(holder))):
                if holder[at] is held:
                    del holder[at]
        elif isinstance(holder, CellType):
            del holder.cell_contents
        elif isinstance(holder, FunctionType):
            if holder.__defaults__ is held:
                holder.__defaults__ = None
        elif isinstance(holder, tuple):
            _release(holder)


def _forget(names: dict[Any, Any], key: Any) -> None:
    """Deletes the key of a module's names, a class's, or any other dictionary."""
    owners = [] if "__spec__" in names else [owner for owner in gc.get_referrers(names) if isinstance(owner, type)]
    for owner in owners:
        if owner.__dict__.get(key) is names.get(key):
            delattr(owner, key)  # not in its dictionary: a class caches what it looked up there
    names.pop(key, None)
    if key in names.get("__all__", ()):
        names["__all__"] = [name for name in names["__all__"] if name != key]


INPUT_NAMES = {
    "nan": float("nan"),
    "inf": float("inf"),
    "Fraction": Fraction,
    "Decimal": Decimal,
    "deque": deque,
    "Counter": Counter,
    "OrderedDict": OrderedDict,
    "defaultdict": defaultdict,
}
NAME = "program"
FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def _receive(channel: int) -> Any:
    """One message: its length in 8 digits, then JSON."""
    data = b""
    while len(data) < 8 or len(data) < 8 + int(data[:8]):
        piece = os.read(channel, 1 << 20)
        if not piece:
            raise EOFError("the worker closed the channel")
        data += piece
    return json.loads(data[8:])


def _send(channel: int, kind: str, text: str = "") -> None:
    data = f"{kind}{text}\n".encode("ascii", "replace")
    while data:
        data = data[os.write(channel, data) :]


def _class_name(error: BaseException) -> str:
    """The name of the exception's class, past whatever its metaclass says."""
    return str(type.__dict__["__name__"].__get__(type(error)))


def _one_line(error: BaseException) -> str:
    name = _class_name(error)
    if isinstance(error, SyntaxError):
        return f"{name}: line {error.lineno}: {error.msg}"
    return name


class _Module:
    """The program's two texts, compiled once and executed afresh for each call."""

    def __init__(self, context: str, code: str, entry: str) -> None:
        self.context: CodeType = compile(context, "<context>", "exec", dont_inherit=True)
        futures = self.context.co_flags & FUTURES  # one module: `from __future__` in the context holds for both
        self.code: CodeType = compile(code, "<program>", "exec", flags=futures, dont_inherit=True)
        self.entry = entry

    def load(self, argument: CodeType | None) -> tuple[Any, Any]:
        """A fresh module's function, and the arguments, which see the context but not the code."""
        module = types.ModuleType(NAME)
        names = module.__dict__
        names["__builtins__"] = builtins
        sys.modules[NAME] = module
        exec(self.context, names)
        arguments = None if argument is None else eval(argument, {**INPUT_NAMES, **names})
        exec(self.code, names)
        return names.get(self.entry), arguments


def _call(module: _Module, source: str, chars: int) -> tuple[str, str]:
    try:
        argument = compile(source, "<input>", "eval", dont_inherit=True)
        random.seed(0)
        function, arguments = module.load(argument)
        return "V", encode(function(*arguments), chars)
    except Unencodable as refusal:
        return "U", str(refusal)
    except MemoryError:
        return "M", ""
    except BaseException as error:  # SystemExit and KeyboardInterrupt are the program's too
        return "R", _class_name(error)


def run_program(channel: int, lock: Any) -> None:
    """Reads a program, locks the process down, runs every call. Returns when all results are written."""
    program = _receive(channel)
    remove(program["without"])
    lock()
    try:
        module = _Module(program["context"], program["code"], program["entry"])
        function, _ = module.load(None)
        if not callable(function):
            _send(channel, "E", f"no function `{program['entry']}`")
            return
    except MemoryError:
        _send(channel, "E", "MemoryError")
        return
    except BaseException as error:
        _send(channel, "E", _one_line(error))
        return
    _send(channel, "L")
    for source in program["inputs"]:
        _send(channel, *_call(module, source, program["chars"]))
