"""Runs one program in a process of its own; all that happens in here is the program's own affair.

The process was forked from a bare one, holds one socket, reads its program from it and writes one line per result:

    L                  the module loaded and has its function          E text        it did not
    V json | R name    the call returned | raised                      U text | M    value not encodable | out of memory

Nothing in this process knows an expected output, another program, or the way to another program's results.
"""

import __future__

import builtins
import json
import os
import random
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from types import CodeType
from typing import Any

from rmlab.microswe.sandbox.removal import remove
from rmlab.microswe.values import Unencodable, encode

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
